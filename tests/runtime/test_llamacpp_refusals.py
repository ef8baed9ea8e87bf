"""What the llama.cpp target refuses, each in one sentence that names what was found and what to do."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

import tiny_gguf
from surefoot.app.cli.errors import sentence
from surefoot.core.errors import ConfigError, DamagedModel, NotEligible, SurefootError, TargetError
from surefoot.engine.config import load_config
from surefoot.engine.generator import load
from surefoot.targets.llamacpp import Options, api, build, doors, layouts, memory
from surefoot.targets.llamacpp.settings import choose

pytest.importorskip("xllamacpp", reason="the llamacpp extra is not installed")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "llama.gguf", context=64)


def refused(error: type[SurefootError], words: str, make: Callable[[], object]) -> None:
    with pytest.raises(error) as caught:
        make()
    told = sentence(caught.value)
    assert re.search(words, told), told
    assert "\n" not in told.rstrip()
    assert len(told) < 400, told


def cut(source: Path, out: Path, size: int) -> Path:
    out.write_bytes(source.read_bytes()[:size])
    return out


def renamed(source: Path, out: Path, old: bytes, new: bytes) -> Path:
    """The file with other bytes of the same length in its header."""
    assert len(old) == len(new)
    out.write_bytes(source.read_bytes().replace(old, new))
    return out


def recurrent(path: Path, architecture: str) -> Path:
    """A model with a recurrent state, in the form that llama.cpp reads.

    Mamba's only layer has one, and so has the first of a hybrid's two, of which the second is attention.
    """
    width, inner, state, rank, conv, heads = 64, 128, 16, 4, 4, 4
    hybrid = architecture != "mamba"
    writer: Any = gguf.GGUFWriter(path, architecture)
    for add, value in (
        (writer.add_context_length, 64), (writer.add_embedding_length, width),
        (writer.add_block_count, 2 if hybrid else 1), (writer.add_feed_forward_length, inner if hybrid else 0),
        (writer.add_head_count, heads if hybrid else 0), (writer.add_head_count_kv, [0, heads] if hybrid else 0),
        (writer.add_ssm_conv_kernel, conv), (writer.add_ssm_inner_size, inner), (writer.add_ssm_state_size, state),
        (writer.add_ssm_time_step_rank, rank), (writer.add_layer_norm_rms_eps, 1e-5),
        (writer.add_shortconv_l_cache, conv),
    ):  # fmt: skip
        add(value)
    n_vocab = tiny_gguf.add_vocabulary(writer, "llama")
    norm = "token_embd_norm.weight" if architecture == "lfm2" else "output_norm.weight"
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (n_vocab, width), norm: (width,)}
    shapes |= {"blk.0.attn_norm.weight": (width,)}
    if architecture == "lfm2":
        shapes |= {
            "blk.0.shortconv.conv.weight": (width, conv), "blk.0.shortconv.in_proj.weight": (3 * width, width),
            "blk.0.shortconv.out_proj.weight": (width, width), "blk.1.attn_q_norm.weight": (width // heads,),
            "blk.1.attn_k_norm.weight": (width // heads,),
        }  # fmt: skip
    else:
        shapes |= {
            "blk.0.ssm_in.weight": (2 * inner, width), "blk.0.ssm_conv1d.weight": (inner, conv),
            "blk.0.ssm_conv1d.bias": (inner,), "blk.0.ssm_x.weight": (rank + 2 * state, inner),
            "blk.0.ssm_dt.weight": (inner, rank), "blk.0.ssm_dt.bias": (inner,), "blk.0.ssm_a": (inner, state),
            "blk.0.ssm_d": (inner,), "blk.0.ssm_out.weight": (width, inner),
        }  # fmt: skip
    if architecture == "jamba":
        shapes |= {
            f"blk.0.ssm_{part}_norm.weight": (size,) for part, size in (("dt", rank), ("b", state), ("c", state))
        }
    if hybrid:
        shapes |= {f"blk.1.attn_{part}.weight": (width, width) for part in ("q", "k", "v", "output")}
        shapes |= {"blk.1.attn_norm.weight": (width,)}
        for layer in (0, 1):
            shapes |= {f"blk.{layer}.ffn_norm.weight": (width,), f"blk.{layer}.ffn_down.weight": (width, inner)}
            shapes |= {f"blk.{layer}.ffn_{part}.weight": (inner, width) for part in ("gate", "up")}
    for name, shape in shapes.items():
        writer.add_tensor(name, np.full(shape, -0.1, np.float32))
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    return path


def test_a_file_that_is_cut_off(llama: Path, tmp_path: Path) -> None:
    size = llama.stat().st_size
    for at in (10, 300, size - 100):
        file = cut(llama, tmp_path / f"{at}.gguf", at)
        refused(DamagedModel, "is not a GGUF file|is damaged or cut off", lambda file=file: build(Options(), file))
        refused(DamagedModel, "cut off", lambda file=file: run(file, tmp_path))


def run(file: Path, cache: Path, **runtime: Any) -> object:
    return load(str(file), load_config(overrides={"runtime": {"name": "llamacpp", **runtime}}), cache_dir=cache)


def test_a_header_that_lies(llama: Path, tmp_path: Path) -> None:
    data = bytearray(llama.read_bytes())
    data[8:16] = (2**40).to_bytes(8, "little")
    (tmp_path / "lying.gguf").write_bytes(data)
    refused(DamagedModel, "and 1099511627776 tensors", lambda: run(tmp_path / "lying.gguf", tmp_path))
    refused(SurefootError, "lying.gguf", lambda: build(Options(), tmp_path / "lying.gguf"))


def test_an_unknown_architecture(llama: Path, tmp_path: Path) -> None:
    file = renamed(llama, tmp_path / "other.gguf", b"llama", b"lamma")
    refused(
        NotEligible, "does not know the architecture lamma .* install a newer binding", lambda: build(Options(), file)
    )


def test_a_vocabulary_without_weights(tmp_path: Path) -> None:
    file = tiny_gguf.write(tmp_path / "vocab.gguf", tensors=False)
    refused(NotEligible, "a vocabulary and no weights", lambda: build(Options(), file))
    refused(NotEligible, "a vocabulary and no weights", lambda: run(file, tmp_path))


def test_weights_that_are_missing(llama: Path, tmp_path: Path) -> None:
    file = renamed(llama, tmp_path / "hole.gguf", b"blk.1.ffn_down.weight", b"blk.1.ffn_dwon.weight")
    refused(NotEligible, r"cannot run .*tensor 'blk\.1\.ffn_down\.weight' not found", lambda: build(Options(), file))


def test_a_context_beyond_the_model(llama: Path) -> None:
    refused(NotEligible, "ctx_size is 65, and the model .* reads 64 tokens", lambda: build(Options(ctx_size=65), llama))


def test_a_cache_that_does_not_fit(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    refused(
        TargetError, "a cache of 112 tokens needs .* are free: give a smaller ctx_size", lambda: build(Options(), llama)
    )


def test_rearranged_weights_that_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The matrices of two layers and the head are 1.3 million weights of 4.5 bits."""
    file = tiny_gguf.write(tmp_path / "tiny.gguf", kind="Q4_0", width=256)
    rearranged = build(Options(threads=1), file)
    if "REPACK" not in rearranged.caps.settings["built_for"]:
        pytest.skip("this library rearranges no weights")
    assert rearranged.caps.settings["repack"] == "on"
    monkeypatch.setattr(memory, "available_bytes", lambda: 500_000)
    refused(
        TargetError,
        r"tiny\.gguf that llama\.cpp would rearrange do not fit .*need 0\.7 MB and 0\.5 MB are free\): .* repack off",
        lambda: build(Options(threads=1, repack="on"), file),
    )
    as_stored = build(Options(threads=1), file)
    assert as_stored.caps.settings["repack"] == "off"
    assert as_stored.caps.settings == build(Options(threads=1, repack="off"), file).caps.settings


def test_weights_that_stay_in_the_file_need_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tiny_gguf.write(tmp_path / "tiny.gguf", kind="F16", width=256)
    monkeypatch.setattr(memory, "available_bytes", lambda: 500_000)
    assert build(Options(threads=1, repack="on"), file).caps.settings["repack"] == "on"


@pytest.mark.parametrize("architecture", ["mamba", "jamba", "lfm2"])
def test_a_recurrent_state(architecture: str, tmp_path: Path) -> None:
    file = recurrent(tmp_path / "tiny.gguf", architecture)
    words = rf"\({architecture}\) cannot be used for drafts: its recurrent state cannot drop rejected tokens"
    refused(NotEligible, words, lambda: build(Options(threads=1), file))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cache_type_k": "f8"}, "cache_type_k must be one of f32, f16"),
        ({"cache_type_v": "q8_0", "flash_attn": "off"}, "cache_type_v q8_0 needs flash attention"),
        ({"flash_attn": "maybe"}, "flash_attn must be auto, on or off"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"ctx_size": 1}, "ctx_size must be at least 2"),
        ({"ubatch": 0}, "ubatch must be at least 1"),
        ({"ubatch": 2**33}, "ubatch must be .* at most 2147483647"),
        ({"threads": 513}, "threads must be .* at most 512"),
        ({"ctx_size": 2**40}, "ctx_size must be .* at most 2147483599"),
        ({"max_rows": 1}, "max_rows must be at least 2"),
        ({"gpu_layers": 2**40}, "gpu_layers must be .* at most 2147483647"),
        ({"max_rows": 49}, "max_rows must be at least 2 and at most 48; got 49"),
        ({"max_rows": 2, "min_rows": 3}, "max_rows is 2 and min_rows 3"),
        ({"repack": "yes"}, "repack must be auto, on or off"),
        ({"gpu_layers": -2}, "gpu_layers must be"),
        ({"binding": "llama"}, "binding is 'llama'; it is one of auto, xllamacpp"),
    ],
)
def test_options_that_no_model_takes(options: dict[str, Any], words: str, llama: Path) -> None:
    refused(ConfigError, words, lambda: build(Options(**options), llama))


def test_layers_for_a_graphics_processor_that_the_library_cannot_use(llama: Path) -> None:
    words = (
        r"gpu_layers is 4, and the library of xllamacpp .* built for the CPU alone: leave gpu_layers out, or install"
    )
    refused(NotEligible, words, lambda: build(Options(gpu_layers=4), llama))
    for everything_or_nothing in (-1, 0):
        assert build(Options(gpu_layers=everything_or_nothing), llama).caps.settings["gpu_layers"] == "0"


@pytest.mark.parametrize(("asked", "told"), [(-1, "all"), (0, "0"), (1, "1")])
def test_layers_for_a_graphics_processor_are_passed_through(
    asked: int, told: str, llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a library that says it can use one, and then computes on the CPU all the same."""
    library = api.open_api("auto")
    monkeypatch.setattr(library.fn, "llama_supports_gpu_offload", lambda: True)
    passed: list[Any] = []
    load_model = library.load_model
    monkeypatch.setattr(
        library, "load_model", lambda path, values, fits: passed.append(values) or load_model(path, values, fits)
    )
    caps = build(Options(threads=1, gpu_layers=asked), llama).caps
    assert passed[-1]["n_gpu_layers"] == asked
    assert caps.settings["gpu_layers"] == told
    assert (caps.device, caps.row_class) == (("gpu", "near-tie") if asked else ("cpu", "near-tie"))


def test_a_prompt_is_never_taken_in_larger_parts_than_the_cache_holds(llama: Path) -> None:
    for asked, told in ((1, "48"), (64, "64"), (2**31 - 1, "112")):
        assert build(Options(threads=1, ubatch=asked), llama).caps.settings["ubatch"] == told


@pytest.mark.parametrize("own", [600, 4096])
def test_the_rows_of_drafts_do_not_change_the_rotary_factors(own: int, tmp_path: Path) -> None:
    """A model with two sets of factors takes the second where its cache is longer than its first context."""

    def two_sets(writer: Any) -> None:
        writer.add_rope_scaling_orig_ctx_len(512)

    file = tiny_gguf.write(tmp_path / "long.gguf", "phi3", context=own, change=two_sets)
    refused(
        NotEligible,
        "ctx_size is 512, and 48 rows more .* above 512 tokens: give at most 464, or more than 512",
        lambda: build(Options(threads=1, ctx_size=512), file),
    )
    for asked in (464, 513, None):
        assert build(Options(threads=1, ctx_size=asked), file).caps.max_length == (asked or own)
    cut_short = tiny_gguf.write(
        tmp_path / "cut.gguf", "phi3", context=16_384, change=lambda writer: writer.add_rope_scaling_orig_ctx_len(8192)
    )
    assert build(Options(threads=1), cut_short).caps.max_length == 8192 - 48
    short = tiny_gguf.write(tmp_path / "short.gguf", "phi3", context=512, change=two_sets)
    assert build(Options(threads=1, ctx_size=512), short).caps.max_length == 512


def test_the_shortest_context_is_enough(llama: Path) -> None:
    assert build(Options(threads=1, ctx_size=2), llama).caps.max_length == 2


def test_a_cache_type_that_does_not_fit_the_heads(llama: Path) -> None:
    wanted = Options(threads=1, cache_type_k="q8_0", cache_type_v="q8_0")
    refused(NotEligible, r"cache of that type \(.*does not divide.*leave out", lambda: build(wanted, llama))


def test_a_name_that_is_not_utf_8(llama: Path, tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"stairs \xff.gguf")
    try:
        file.symlink_to(llama)
    except OSError:
        pytest.skip("this system takes names in UTF-8 only")
    assert build(Options(threads=1), file).caps.vocab_size > 0


def test_no_binding(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    refused(
        NotEligible,
        r'needs a binding to llama\.cpp: pip install "surefoot\[llamacpp\]"',
        lambda: build(Options(), llama),
    )
    wanted = Options(binding="llama-cpp-python")
    refused(NotEligible, "is not installed: pip install llama-cpp-python", lambda: build(wanted, llama))


def test_a_binding_that_does_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> doors.Door:
        raise OSError("libllama.so: GLIBC_2.38 not found\n(required by it)")

    monkeypatch.setattr(doors, "DOORS", {"xllamacpp": ("xllamacpp", broken)})
    refused(
        NotEligible, "xllamacpp cannot be loaded: libllama.so: GLIBC_2.38 not found", lambda: doors.open_door("auto")
    )


def test_a_build_whose_structs_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors.metadata, "version", lambda name: "2027.1.12999")
    refused(
        NotEligible,
        "xllamacpp 2027.1.12999 is a version whose structs are not known",
        lambda: doors.open_door("xllamacpp"),
    )


def moved(layout: layouts.Layout, start: int, more: int) -> layouts.Layout:
    """As if a field of so many bytes had come in at `start`."""
    fields = {name: (first + more * (first >= start), width) for name, (first, width) in layout.fields.items()}
    return layouts.Layout(layout.size + more, fields)


@pytest.mark.parametrize("kind", ["model", "context"])
def test_defaults_read_under_a_wrong_layout_are_seen(kind: str) -> None:
    door = doors.open_door("xllamacpp")
    asked = layouts.MODEL if kind == "model" else layouts.CONTEXT
    layout = door.model_params if kind == "model" else door.context_params
    make = getattr(door.library, f"llama_{kind}_default_params")
    make.restype = layout.type()
    params = make()
    assert layouts.reads_defaults(params, layout, asked)
    after = layout.fields["split_mode" if kind == "model" else "type_k"][0]
    for wrong in (moved(layout, after, 4), moved(layout, after, -4), moved(layout, after, -8)):
        assert not layouts.reads_defaults(params, wrong, asked)
        field = f"{kind}_params"
        words = r"xllamacpp .* has structs of another build than it says: pip install"
        refused(NotEligible, words, lambda field=field, wrong=wrong: api.Api(replace(door, **{field: wrong})))


def test_the_layout_of_an_older_build_is_seen() -> None:
    door = doors.open_door("xllamacpp")
    older = layouts.of_build(11067)
    assert older is not None
    refused(NotEligible, "structs of another build", lambda: api.Api(replace(door, context_params=older[1])))


@pytest.mark.parametrize(("kind", "field"), [("model", "use_extra_bufts"), ("context", "swa_full")])
def test_a_parameter_that_a_binding_lacks_is_named(kind: str, field: str) -> None:
    """Else the settings would say that it was used."""
    door = doors.open_door("xllamacpp")
    layout = door.model_params if kind == "model" else door.context_params
    lacking = replace(layout, fields={name: place for name, place in layout.fields.items() if name != field})
    words = rf"xllamacpp .* lacks {field}, a parameter that is set here: pip install"
    refused(NotEligible, words, lambda: api.Api(replace(door, **{f"{kind}_params": lacking})))


@pytest.mark.parametrize("kind", [layouts.MODEL, layouts.CONTEXT], ids=["model", "context"])
def test_every_parameter_that_is_set_is_asked_for(kind: layouts.Asked, llama: Path) -> None:
    chosen = choose(Options(), frozenset({"f32"}), on_cpu=True)
    given = {*chosen.model_values(), "vocab_only", "progress_callback"}
    assert set(kind.fields) == (given if kind is layouts.MODEL else set(chosen.context_values(64)))


def test_a_shard_of_another_name(tmp_path: Path) -> None:
    tiny_gguf.write(tmp_path / "tiny.gguf", shard_tensors=8)
    first, second, _ = sorted(tmp_path.glob("tiny-*.gguf"))
    link = tmp_path / "best.gguf"
    link.symlink_to(first)
    renamed_first = tmp_path / "first.gguf"
    renamed_first.write_bytes(first.read_bytes())
    for file in (link, second, renamed_first):
        words = (
            "is not the first part of its model, or .* rename the parts back to names that end in -00001-of-00003.gguf"
        )
        refused(DamagedModel, words, lambda file=file: build(Options(), file))
    words = "part 1 of 3 of a model, .* rename it back to a name that ends in -00001-of-00003.gguf"
    refused(DamagedModel, words, lambda: run(renamed_first, tmp_path))


def test_the_words_in_a_file_s_name_are_no_reason(tmp_path: Path) -> None:
    folder = tmp_path / "allocations, corrupt, unsupported"
    folder.mkdir()
    first = tiny_gguf.write(folder / "mlock.gguf", shard_tensors=8)
    sorted(folder.glob("mlock-*.gguf"))[-1].unlink()
    with pytest.raises(TargetError, match=r"llama\.cpp cannot load .*No such file"):
        build(Options(), first)


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_a_missing_shard_is_named(family: str, tmp_path: Path) -> None:
    file = tiny_gguf.write(tmp_path / "tiny-00001-of-00002.gguf", family)
    refused(DamagedModel, "1 of them are not in .*: tiny-00002-of-00002.gguf", lambda: run(file, tmp_path))


def test_the_table_of_structs_is_what_the_header_says() -> None:
    """The header is llama-cpp-py-sync's, read without its library, which wants a newer C library than many have."""
    cffi = pytest.importorskip(
        "llama_cpp_py_sync._cffi_bindings", reason="llama-cpp-py-sync, which has a header, is missing"
    )
    build = int(doors.metadata.version("llama-cpp-py-sync").split(".")[1])
    known = layouts.of_build(build)
    if known is None:
        pytest.skip(f"llama-cpp-py-sync is of build {build}, which is not in the table")
    for kind, layout in zip(("model", "context"), known, strict=True):
        assert layouts.of_cffi(cffi.ffi, f"struct llama_{kind}_params") == layout
