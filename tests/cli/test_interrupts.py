"""Ctrl-C at any time: exit code 130, one sentence, the text so far kept and whole."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from cli_run import Done, assert_one_sentence, start, wait

import tiny_gguf

HF = ("--runtime", "hf")
ENDLESS = ("-p", "x", "--max-tokens", "4000", "--drafts", "off", "--logit-bias", "257=-inf")

AT_AN_EVENT = """
import os, signal, sys
event, word = sys.argv.pop(1), sys.argv.pop(1)
left = [1]
def watch(name, details):
    if left and name == event and word in str(details[0]):
        left.clear()
        signal.raise_signal(signal.SIGINT)  # to this thread, at once
sys.addaudithook(watch)
from surefoot.app.cli.main import main
sys.exit(main())
"""
"""Presses Ctrl-C when this process imports or opens something, so that no clock decides where it hits."""

AT_A_CALL = """
import os, signal, sys
module, owner, method = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)
import importlib
kind = getattr(importlib.import_module(module), owner)
real = getattr(kind, method)
def pressed(*args, **kwargs):
    setattr(kind, method, real)
    signal.raise_signal(signal.SIGINT)  # to this thread, at once
    return real(*args, **kwargs)
setattr(kind, method, pressed)
from surefoot.app.cli.main import main
sys.exit(main())
"""
"""Presses Ctrl-C at the first call of a method."""


def assert_interrupted(done: Done) -> None:
    assert done.code == 130, done
    assert_one_sentence(done.err)
    assert "interrupted" in done.err


@pytest.mark.parametrize(
    ("event", "word"),
    [
        ("import", "argparse"),
        ("import", "surefoot.app.cli.generate"),
        ("import", "numpy"),
        ("import", "surefoot.engine.generator"),
        ("import", "tokenizers"),
        ("import", "transformers.models"),
        ("import", "torch"),
        ("import", "torch.nn"),
        ("open", "tokenizer.json"),
        ("open", "config.json"),
        ("open", "model.safetensors"),
    ],
)
def test_while_it_starts(tiny: Path, event: str, word: str) -> None:
    done = wait(start(["-c", AT_AN_EVENT, event, word, "generate", str(tiny), *HF, *ENDLESS]))
    assert_interrupted(done)
    assert done.out == ""


@pytest.mark.parametrize(
    "place",
    [
        ("surefoot.targets.hf.session", "HfSession", "prefill"),
        ("surefoot.targets.hf.session", "HfSession", "extend"),
        ("surefoot.engine.tokenizer", "Tokenizer", "render"),
    ],
)
def test_before_the_first_token(tiny: Path, place: tuple[str, str, str]) -> None:
    """The first prefill and extend of a process are those of the trial that a loaded model has to pass."""
    done = wait(start(["-c", AT_A_CALL, *place, "generate", str(tiny), *HF, *ENDLESS]))
    assert_interrupted(done)
    assert done.out == ""


@pytest.mark.parametrize("callback", ["_note", "_goes_on"])
def test_while_llama_cpp_loads(callback: str, tmp_path: Path) -> None:
    """In the callbacks that llama.cpp calls with a line of its log, and with how far it is."""
    pytest.importorskip("xllamacpp", reason="the llamacpp extra is not installed")
    place = ("surefoot.targets.llamacpp.api", "Api", callback)
    file = tiny_gguf.write(tmp_path / "tiny.gguf", context=64)
    done = wait(start(["-c", AT_A_CALL, *place, "generate", str(file), "--runtime", "llamacpp", *ENDLESS]))
    assert_interrupted(done)
    assert done.out == ""


@pytest.mark.parametrize("pieces", [1, 20])
def test_while_it_writes(tiny: Path, pieces: int) -> None:
    reader, writer = os.pipe()
    process = start(["-m", "surefoot", "generate", str(tiny), *HF, *ENDLESS], stdout=writer)
    os.close(writer)
    text = b"".join(os.read(reader, 1) for _ in range(pieces))
    process.send_signal(signal.SIGINT)
    with os.fdopen(reader, "rb") as rest:
        text += rest.read()
    done = wait(process)
    assert_interrupted(done)
    assert text.decode(), "the text so far, in whole characters"
    assert " tokens, " in done.err, "the statistics of what was written"
    assert "interrupted" in done.err


@pytest.mark.parametrize("shown", [(), ("--json",)], ids=["text", "document"])
def test_the_round_in_progress_is_finished_and_its_text_kept(tiny: Path, shown: tuple[str, ...]) -> None:
    """Ctrl-C hits the second token: that token is written too, as a limit of two tokens would have it."""
    import json

    toy = ("generate", str(tiny), "--runtime", "toy", "--set", "runtime.vocab_size=258", "-p", "x", "--drafts", "off")
    bias = ("--logit-bias", "257=-inf")
    place = ("surefoot.targets.toy.session", "ToySession", "extend")
    done = wait(start(["-c", AT_A_CALL, *place, *toy, *bias, *shown]))
    limited = wait(start(["-m", "surefoot", *toy, *bias, *shown, "--max-tokens", "2"]))
    assert_interrupted(done)
    assert "2 tokens" in done.err
    if shown:
        assert json.loads(done.out)["finish"] == "cancel"
        assert json.loads(done.out)["text"] == json.loads(limited.out)["text"]
    else:
        assert done.out == limited.out


def test_while_a_document_is_being_written_for(tiny: Path) -> None:
    """--json shows nothing before its end, and then what there is."""
    import json

    place = ("surefoot.engine.streaming", "TextStream", "take")
    done = wait(start(["-c", AT_A_CALL, *place, "generate", str(tiny), *HF, *ENDLESS, "--json"]))
    assert done.code == 130, done
    assert_one_sentence(done.err)
    if done.out:
        found = json.loads(done.out)
        assert len(found["ids"]) == found["stats"]["output_tokens"]


def test_where_ctrl_c_is_ignored_it_stays_ignored(tiny: Path) -> None:
    """As under nohup, or in the background of a shell."""
    ignoring = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + AT_AN_EVENT
    options = ("-p", "x", "--max-tokens", "3", "--quiet")
    done = wait(start(["-c", ignoring, "import", "torch", "generate", str(tiny), *HF, *options]))
    assert done.code == 0, done.err


@pytest.mark.parametrize("word", ["surefoot.lab.machine", "surefoot.engine.parts"])
def test_the_doctor_can_be_interrupted_too(word: str) -> None:
    assert_interrupted(wait(start(["-c", AT_AN_EVENT, "import", word, "doctor"])))
