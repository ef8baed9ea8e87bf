"""What `surefoot generate` says where a GGUF file cannot be run on llama.cpp: one sentence, and exit code 3 or 4."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path
from typing import Any

import pytest
from cli_run import Done, assert_refused, start, surefoot, wait

import tiny_gguf
from surefoot.app.cli.errors import NOT_ELIGIBLE, RUNTIME_FAILED

pytest.importorskip("xllamacpp", reason="the llamacpp extra is not installed")

ARGUMENTS = ("--runtime", "llamacpp", "--threads", "1", "--max-tokens", "2", "--allow-near-ties", "-p", "stairs")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "llama.gguf", context=64)


def generate(file: Path, *options: object) -> Done:
    return surefoot("generate", file, *ARGUMENTS, *options)


def changed(source: Path, out: Path, old: bytes, new: bytes) -> Path:
    """The file with other bytes of the same length."""
    data = source.read_bytes()
    assert old in data
    assert len(old) == len(new)
    out.write_bytes(data.replace(old, new))
    return out


def test_the_whole_file_is_run(llama: Path) -> None:
    """Else every refusal below could have another reason."""
    assert generate(llama).code == 0


@pytest.mark.parametrize("kept", [0, 10, 300, -100])
def test_a_file_that_is_cut_off(llama: Path, tmp_path: Path, kept: int) -> None:
    file = tmp_path / "cut.gguf"
    file.write_bytes(llama.read_bytes()[:kept])
    assert_refused(generate(file), NOT_ELIGIBLE, "cut.gguf", "cut off" if kept else "not a GGUF file")


@pytest.mark.parametrize(
    ("at", "claim", "words"),
    [
        (8, (2**40).to_bytes(8, "little"), "1099511627776 tensors"),
        (16, (2**40).to_bytes(8, "little"), "1099511627776 metadata keys"),
        (24, (2**40).to_bytes(8, "little"), "cut off inside its header"),
    ],
    ids=["tensors", "keys", "length of a text"],
)
def test_a_header_that_lies(llama: Path, tmp_path: Path, at: int, claim: bytes, words: str) -> None:
    data = bytearray(llama.read_bytes())
    data[at : at + len(claim)] = claim
    (tmp_path / "lying.gguf").write_bytes(data)
    assert_refused(generate(tmp_path / "lying.gguf"), NOT_ELIGIBLE, "lying.gguf", words)


@pytest.mark.parametrize(
    ("key", "value", "claim", "words"),
    [
        # At these three llama.cpp would end the process.
        ("block_count", 2, 0, "claims block_count 0"),
        ("block_count", 2, 2**30, "claims block_count 1073741824"),
        ("block_count", 2, 513, "claims block_count 513"),
        ("block_count", 2, 1, "wrong number of tensors"),
        ("block_count", 2, 3, "tensor 'blk.2.attn_norm.weight' not found"),
        ("embedding_length", 64, 128, "token_embd.weight"),
        ("context_length", 64, 0, "claims a context of 0 tokens"),
        ("context_length", 64, 2**31, "claims a context of"),
    ],
)
def test_a_header_whose_numbers_lie(llama: Path, tmp_path: Path, key: str, value: int, claim: int, words: str) -> None:
    name = f"llama.{key}".encode()
    old, new = (name + struct.pack("<II", 4, number) for number in (value, claim))
    assert_refused(generate(changed(llama, tmp_path / "lying.gguf", old, new)), NOT_ELIGIBLE, "lying.gguf", words)


@pytest.mark.parametrize(
    ("method", "key", "claim", "words"),
    [
        # At the first five llama.cpp would end the process.
        ("add_float32", "attention.layer_norm_rms_epsilon", float("nan"), "layer_norm_rms_epsilon nan"),
        ("add_float32", "attention.layer_norm_rms_epsilon", -1.0, "layer_norm_rms_epsilon -1"),
        ("add_uint32", "expert_count", 2, "expert_used_count 0 of 2"),
        ("add_uint32", "expert_used_count", 2, "expert_used_count 2 of 0"),
        ("add_string", "rope.scaling.type", "odd", "rope.scaling.type odd"),
        ("add_int32", "context_length", 64, "wrong type i32"),
    ],
)
def test_claims_that_llama_cpp_does_not_take(tmp_path: Path, method: str, key: str, claim: Any, words: str) -> None:
    file = tiny_gguf.write(
        tmp_path / "odd.gguf", context=64, change=lambda writer: getattr(writer, method)(f"llama.{key}", claim)
    )
    assert_refused(generate(file), NOT_ELIGIBLE, "odd.gguf", words)


def test_more_experts_than_llama_cpp_survives(tmp_path: Path) -> None:
    file = tiny_gguf.write_experts(tmp_path / "many.gguf", 1025, 256)
    assert_refused(generate(file), NOT_ELIGIBLE, "many.gguf", "claims expert_count 1025", "takes 0 to 1024")


def test_an_architecture_that_llama_cpp_does_not_know(llama: Path, tmp_path: Path) -> None:
    named = b"general.architecture" + struct.pack("<IQ", 8, 5)
    file = changed(llama, tmp_path / "other.gguf", named + b"llama", named + b"lamma")
    assert_refused(generate(file), NOT_ELIGIBLE, "does not know the architecture lamma", "install a newer binding")


def test_tensors_that_are_missing(llama: Path, tmp_path: Path) -> None:
    file = changed(llama, tmp_path / "hole.gguf", b"blk.1.ffn_down.weight", b"blk.1.ffn_dwon.weight")
    assert_refused(generate(file), NOT_ELIGIBLE, "hole.gguf", "blk.1.ffn_down.weight")


def test_a_context_beyond_the_model(llama: Path) -> None:
    assert_refused(generate(llama, "--ctx-size", 65), NOT_ELIGIBLE, "ctx_size is 65", "64 tokens at most")


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="only Linux says there what memory is free")
def test_not_enough_memory(tmp_path: Path) -> None:
    file = tiny_gguf.write(tmp_path / "long.gguf", context=2_000_000_000)
    done = generate(file, "--ctx-size", 2_000_000_000)
    assert_refused(done, RUNTIME_FAILED, "a cache of 2000000048 tokens needs 512.0 GB", "give a smaller ctx_size")


def test_a_vocabulary_without_weights(tmp_path: Path) -> None:
    file = tiny_gguf.write(tmp_path / "vocab.gguf", tensors=False)
    assert_refused(generate(file), NOT_ELIGIBLE, "vocab.gguf", "a vocabulary and no weights")


def test_a_missing_shard(tmp_path: Path) -> None:
    first = tiny_gguf.write(tmp_path / "tiny.gguf", shard_tensors=5)
    last = sorted(tmp_path.glob("tiny-*.gguf"))[-1]
    last.rename(tmp_path / "elsewhere")
    assert_refused(generate(first), NOT_ELIGIBLE, "1 of them are not in", last.name)


def test_a_shard_of_another_name(tmp_path: Path) -> None:
    first = tiny_gguf.write(tmp_path / "tiny.gguf", shard_tensors=8)
    link = tmp_path / "best.gguf"
    link.symlink_to(first.name)
    assert generate(link).code == 0
    renamed = first.rename(tmp_path / "renamed.gguf")
    assert_refused(generate(renamed), NOT_ELIGIBLE, "renamed.gguf is part 1 of 3", "ends in -00001-of-00003.gguf")


def test_a_shard_that_is_cut_off(tmp_path: Path) -> None:
    first = tiny_gguf.write(tmp_path / "tiny.gguf", shard_tensors=5)
    last = sorted(tmp_path.glob("tiny-*.gguf"))[-1]
    last.write_bytes(last.read_bytes()[:-40])
    assert_refused(generate(first), NOT_ELIGIBLE, last.name, "cut off")


WITHOUT_BINDINGS = """
import importlib.util, sys
find_spec = importlib.util.find_spec
bindings = ("xllamacpp", "llama_cpp_py_sync", "llama_cpp")
importlib.util.find_spec = lambda name, *rest: None if name in bindings else find_spec(name, *rest)
from surefoot.app.cli.main import main
sys.exit(main())
"""


def test_no_binding(llama: Path) -> None:
    done = wait(start(["-c", WITHOUT_BINDINGS, "generate", str(llama), *ARGUMENTS]))
    assert_refused(done, NOT_ELIGIBLE, "needs a binding to llama.cpp", 'pip install "surefoot[llamacpp]"')


def test_a_binding_that_was_asked_for_and_is_missing(llama: Path) -> None:
    if importlib.util.find_spec("llama_cpp") is not None:
        pytest.skip("llama-cpp-python is installed")
    done = generate(llama, "--set", "runtime.binding=llama-cpp-python")
    assert_refused(done, NOT_ELIGIBLE, "llama-cpp-python", "is not installed: pip install llama-cpp-python")
