"""`surefoot generate` writes what the library writes, and says how it went."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from cli_run import Done, start, surefoot, wait

from surefoot.engine import parts

HF = ("--runtime", "hf")
TOY = ("--runtime", "toy", "--set", "runtime.vocab_size=258", "--set", "runtime.order=1")
"""The toy with the folder's tokenizer: all of the command but torch, which takes seconds to import."""
PROMPT = "one two three, one two three, one two"


def generate(model: Path, *options: object, runtime: tuple[str, ...] = TOY, **given: Any) -> Done:
    done = surefoot("generate", model, *runtime, *options, **given)
    assert done.code == 0, done.err
    return done


def document(model: Path, *options: object, runtime: tuple[str, ...] = TOY) -> dict[str, Any]:
    done = generate(model, "--json", *options, runtime=runtime)
    found: dict[str, Any] = json.loads(done.out)
    return found


@pytest.fixture(scope="module")
def plain(tiny: Path) -> dict[str, Any]:
    """Forty tokens after PROMPT, greedy, drafts off."""
    return document(tiny, "-p", PROMPT, "--max-tokens", 40, "--drafts", "off")


def test_text_goes_to_stdout_and_one_line_to_stderr(tiny: Path, plain: dict[str, Any]) -> None:
    done = generate(tiny, "-p", PROMPT, "--max-tokens", 40)
    assert done.out == plain["text"]
    (line,) = done.err.splitlines()
    assert line.startswith("surefoot: 40 tokens, ")
    words = ("tok/s", "rounds", "rows", "accepted per round", "host", "finish length", "greedy")
    for word in (*words, "ngram/additive, rows identical"):
        assert word in line


def test_several_drafters_write_the_same_text_and_a_missing_one_is_told(tiny: Path, plain: dict[str, Any]) -> None:
    options = ("-p", PROMPT, "--max-tokens", 40, "--draft-len", 5)
    members = 'drafts.members=["suffix", {name="eagle3", optional=true}, {name="ngram", max_n=3}, "lookahead"]'
    done = generate(tiny, *options, "--drafts", "union", "--set", members)
    assert done.out == plain["text"]
    told, line = done.err.splitlines()
    assert told == (
        "surefoot: union member 2 (eagle3): there is no drafter called 'eagle3'; there is "
        f"{', '.join(parts.names('drafter'))}. The union does without it."
    )
    assert "union/" in line
    found = document(tiny, *options, "--drafts", "suffix+ngram")
    assert found["ids"] == plain["ids"]
    assert found["stats"]["accepted"] > 0


def test_a_corpus_remembers_what_was_written(tiny: Path, plain: dict[str, Any], tmp_path: Path) -> None:
    options = ("-p", "six", "--max-tokens", 40, "--draft-len", 7, "--policy", "fixed", "--drafts", "suffix")
    corpus = ("--set", f"drafts.corpus={tmp_path / 'private'}")
    first, second = (document(tiny, *options, *corpus) for _ in range(2))
    assert first["ids"] == second["ids"]
    assert second["stats"]["accepted"] > first["stats"]["accepted"]
    assert "corpus" in {round_["source"] for round_ in second["rounds"]}
    [file] = (tmp_path / "private").iterdir()
    assert file.suffix == ".npz"
    file.write_bytes(b"damaged")
    done = surefoot("generate", tiny, *TOY, *options, *corpus)
    assert (done.code, done.out) == (2, "")
    assert "move it away" in done.err


def test_quiet_says_nothing(tiny: Path, plain: dict[str, Any]) -> None:
    done = generate(tiny, "-p", PROMPT, "--max-tokens", 40, "--quiet")
    assert (done.out, done.err) == (plain["text"], "")


@pytest.mark.parametrize("runtime", [TOY, HF], ids=["toy", "hf"])
def test_the_document_adds_up(tiny: Path, runtime: tuple[str, ...]) -> None:
    options = ("-p", PROMPT, "--max-tokens", 40)
    plain = document(tiny, *options, "--drafts", "off", runtime=runtime)
    drafted = document(tiny, *options, "--draft-len", 5, "--policy", "fixed", "--logprobs", 2, runtime=runtime)
    assert drafted["ids"] == plain["ids"]
    assert drafted["text"] == plain["text"]
    for found in (plain, drafted):
        rounds, stats = found["rounds"], found["stats"]
        assert found["schema"] == 1
        assert [token for round_ in rounds for token in round_["new_ids"]] == found["ids"]
        assert rounds[0]["source"] == "prefill"
        assert stats["rounds"] == len(rounds) - 1
        assert stats["rows"] == sum(round_["rows"] for round_ in rounds[1:])
        assert stats["accepted"] == sum(round_["accepted"] for round_ in rounds)
        assert stats["output_tokens"] == len(found["ids"]) == 40
        assert found["finish"] == stats["finish"] == "length"
        assert found["seed"] is None
        assert found["model"]["runtime"] == runtime[1]
        assert all(round_["extend_s"] > 0 for round_ in rounds)
    assert plain["config"]["drafts"] == {"name": "off", "options": {}}
    assert drafted["config"]["policy"] == {"name": "fixed", "options": {"draft_len": 5}}
    assert drafted["stats"]["accepted"] > 0, "this model repeats itself, so that drafts are accepted"
    tokens = [token for round_ in drafted["rounds"] for token in round_["logprobs"]]
    assert [token["id"] for token in tokens] == drafted["ids"]
    assert all(token["logprob"] == token["top"][0][1] and len(token["top"]) == 2 for token in tokens)


def test_the_prompt_comes_from_anywhere(tiny: Path, tmp_path: Path, plain: dict[str, Any]) -> None:
    (tmp_path / "prompt.txt").write_text(PROMPT)
    (tmp_path / "messages.json").write_text(json.dumps([{"role": "user", "content": PROMPT}]))
    options = ("--max-tokens", 40)
    assert generate(tiny, "--file", tmp_path / "prompt.txt", *options).out == plain["text"]
    assert generate(tiny, "--messages", tmp_path / "messages.json", *options).out == plain["text"]
    assert generate(tiny, *options, stdin=PROMPT.encode()).out == plain["text"]


def test_what_the_model_reads(tiny: Path, tmp_path: Path) -> None:
    """The ids of the prompt are those of the template, or of the text alone with --raw."""

    def read(*options: object) -> str:
        ids = document(tiny, "--max-tokens", 1, *options)["prompt_ids"]
        return "".join(chr(i) if i < 256 else {256: "<s>", 257: "</s>"}[i] for i in ids)

    (tmp_path / "messages.json").write_text('[{"role": "system", "content": "A"}, {"role": "user", "content": "B"}]')
    (tmp_path / "tools.json").write_text('[{"type": "function", "function": {"name": "look", "parameters": {}}}]')
    assert read("-p", "x y") == "<s>user: x y</s><s>assistant: "
    assert read("-p", "x y", "--raw") == "x y"
    assert read("--messages", tmp_path / "messages.json") == "<s>system: A</s><s>user: B</s><s>assistant: "
    assert read("-p", "x", "--tools", tmp_path / "tools.json").startswith("<s>tools: look </s><s>user: x</s>")


def test_zero_is_a_value_and_flags_go_before_the_file(tiny: Path, tmp_path: Path, plain: dict[str, Any]) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('max_tokens = 40\nseed = 7\ntop_logprobs = 3\ndrafts = "off"\n[sampling]\ntemperature = 1.5\n')
    drawn = document(tiny, "-p", PROMPT, "--config", path)
    assert drawn["seed"] == 7
    assert drawn["ids"] != plain["ids"]
    greedy = document(tiny, "-p", PROMPT, "--config", path, "--temperature", 0, "--logprobs", 0)
    assert greedy["ids"] == plain["ids"]
    assert greedy["config"]["top_logprobs"] == 0
    assert greedy["config"]["drafts"]["name"] == "off"


def test_a_seed_writes_one_text_with_drafts_on_and_off(tiny: Path) -> None:
    options = ("-p", PROMPT, "--max-tokens", 40, "--temperature", 0.3, "--top-k", 5, "--seed", 3)
    on, off = document(tiny, *options), document(tiny, *options, "--drafts", "off")
    assert on["ids"] == off["ids"]
    assert on["seed"] == 3
    other = document(tiny, *options[:-1], 4)
    assert other["ids"] != on["ids"]


def test_a_seed_that_was_drawn_is_told_and_can_be_used_again(tiny: Path) -> None:
    first = generate(tiny, "-p", PROMPT, "--max-tokens", 10, "--temperature", 1)
    seed = first.err.strip().rstrip(".").rpartition("seed ")[2]
    again = generate(tiny, "-p", PROMPT, "--max-tokens", 10, "--temperature", 1, "--seed", seed)
    assert again.out == first.out


def test_a_seed_without_a_draw_is_fine_and_the_line_says_greedy(tiny: Path, plain: dict[str, Any]) -> None:
    done = generate(tiny, "-p", PROMPT, "--max-tokens", 40, "--seed", 3)
    assert done.out == plain["text"]
    assert done.err.rstrip().endswith("greedy.")


def test_every_sampling_flag_arrives(tiny: Path) -> None:
    given = {
        "temperature": 0.5, "top_k": 9, "top_p": 0.9, "min_p": 0.01, "repetition_penalty": 1.1,
        "presence_penalty": 0.2, "frequency_penalty": 0.3,
    }  # fmt: skip
    flags = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value)]
    more = ("--logit-bias", "5=-inf", "--logit-bias", "6=1.5", "--set", "sampling.min_tokens=2", "--judge", "ratio")
    config = document(tiny, "-p", "x", "--max-tokens", 3, *flags, *more)["config"]
    assert {name: config["sampling"][name] for name in given} == given
    assert config["sampling"]["logit_bias"] == {"5": "-inf", "6": 1.5}
    assert config["sampling"]["min_tokens"] == 2
    assert config["judge"] == "ratio"


def test_stop_strings(tiny: Path, plain: dict[str, Any]) -> None:
    stop = plain["text"][6:8]
    cut = plain["text"].index(stop)
    done = generate(tiny, "-p", PROMPT, "--max-tokens", 40, "--stop", "never there", "--stop", stop)
    assert done.out == plain["text"][:cut]
    assert "finish stop" in done.err


def test_logprobs_without_json_follow_the_text(tiny: Path, plain: dict[str, Any]) -> None:
    done = generate(tiny, "-p", PROMPT, "--max-tokens", 4, "--logprobs", 2, "--drafts", "off")
    assert plain["text"].startswith(done.out.rstrip("\ufffd"))
    *tokens, line = done.err.splitlines()
    assert len(tokens) == 4
    assert "4 tokens" in line


def test_near_ties_are_allowed_by_a_word_and_then_mentioned(tiny: Path) -> None:
    options = ("-p", "x", "--max-tokens", 3, "--set", "runtime.dtype=bfloat16", "--allow-near-ties")
    done = generate(tiny, *options, runtime=HF)
    assert "ngram/additive, near ties allowed" in done.err
    off = generate(tiny, *options[:-1], "--drafts", "off", runtime=HF)
    assert "near ties" not in off.err


def test_a_reader_that_leaves_ends_it_quietly(tiny: Path) -> None:
    reader, writer = os.pipe()
    long = ("--set", "runtime.max_length=100000", "--max-tokens", "90000", "--logit-bias", "257=-inf")
    process = start(["-m", "surefoot", "generate", str(tiny), *TOY, "-p", "x", *long], stdout=writer)
    os.close(writer)
    assert os.read(reader, 1)
    os.close(reader)
    done = wait(process)
    assert (done.code, done.err) == (0, "")


def test_help_into_a_closed_pipe() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = start(["-m", "surefoot", "generate", "--help"], stdout=writer)
    os.close(writer)
    done = wait(process)
    assert (done.code, done.err) == (0, "")


def test_help_names_the_installed_parts() -> None:
    done = surefoot("generate", "--help")
    assert done.code == 0
    for name in ("hf", "ngram", "off", "additive", "fixed"):
        assert name in done.out.rpartition("installed:")[2]


def test_version() -> None:
    done = surefoot("--version")
    assert done.code == 0
    assert done.out.startswith("surefoot ")
