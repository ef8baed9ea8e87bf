"""The OpenVINO export writes the same model that transformers reads, whole or not at all."""

from __future__ import annotations

import copy
import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openvino", reason="the openvino extra is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed, and it writes the models under test")

import openvino as ov  # noqa: E402
from openvino_run import ov_logits  # noqa: E402
from openvino_tiny import VARIANTS, expected_logits, tiny, write_gguf  # noqa: E402

import tiny_gguf  # noqa: E402
from surefoot.core.errors import ConfigError, DamagedModel, NotEligible  # noqa: E402
from surefoot.targets.openvino.core import compiling  # noqa: E402
from surefoot.targets.openvino.export import export  # noqa: E402
from surefoot.targets.openvino.names import is_exported  # noqa: E402
from surefoot.targets.openvino.weights import pack_nibbles, quantise  # noqa: E402

CACHES = ("state", "caller")
IDS = np.random.default_rng(3).integers(3, 211, 40).tolist()


def blocks_of(ids: list[int]) -> list[list[int]]:
    """A prefill, single tokens, a block, and one block of other tokens that is hidden afterwards."""
    return [ids[:21], ids[21:22], [9, 8, 7], ids[22:30], ids[30:31], ids[31:]]


def check(folder: Path, model: Any) -> None:
    found = ov_logits(folder, blocks_of(IDS), hidden=(2,))
    np.testing.assert_allclose(found, expected_logits(model, IDS), atol=1e-3, rtol=0)


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_safetensors_logits_are_those_of_transformers(variant: str, cache: Any, tmp_path: Path) -> None:
    model = tiny(variant)
    model.save_pretrained(tmp_path / "model")
    report = export(tmp_path / "model", tmp_path / "out", cache=cache)
    check(tmp_path / "out", model)
    assert report.parameters == sum(p.numel() for p in model.parameters() if p.ndim == 2)


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_gguf_logits_are_those_of_transformers(variant: str, cache: Any, tmp_path: Path) -> None:
    model = tiny(variant)
    if variant == "llama-biases":
        pytest.skip("llama.cpp's names have no place for the biases of a llama's output and feed-forward layers")
    write_gguf(model, tmp_path / "m.gguf")
    export(tmp_path / "m.gguf", tmp_path / "out", cache=cache)
    check(tmp_path / "out", model)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_every_stored_type_is_read(dtype: Any, tmp_path: Path) -> None:
    model = tiny("qwen3", torch.bfloat16 if dtype == torch.bfloat16 else torch.float16)
    copy.deepcopy(model).to(dtype).save_pretrained(tmp_path / "model", max_shard_size="40KB")
    assert len(list((tmp_path / "model").glob("*.safetensors"))) > 2
    export(tmp_path / "model", tmp_path / "out")
    # The tiniest bfloat16 weights lie below what a 16-bit float keeps in full, so those are rounded here as well.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half().float() if parameter.ndim == 2 else parameter)
    check(tmp_path / "out", model)


@pytest.mark.parametrize(("weights", "levels"), [("int8", 256), ("int4", 16)])
@pytest.mark.parametrize(("variant", "cache"), [("llama-tied", "state"), ("qwen2", "state"), ("qwen2", "caller")])
def test_compressed_weights_mean_what_the_codes_say(
    variant: str, cache: Any, weights: Any, levels: int, tmp_path: Path
) -> None:
    model = tiny(variant)
    model.save_pretrained(tmp_path / "model")
    export(tmp_path / "model", tmp_path / "out", weights, cache=cache)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2:
                rows, by_row = parameter.numpy(), levels == 256 or "embed" in name or "lm_head" in name
                groups = rows if by_row else rows.reshape(len(rows), -1, 64 if rows.shape[1] % 64 == 0 else 32)
                codes, scale, zero = quantise(groups, 256 if by_row else levels)
                value = (codes.astype(np.float32) - zero) * scale.astype(np.float32)
                parameter.copy_(torch.from_numpy(value.reshape(rows.shape)))
    check(tmp_path / "out", model)


def test_compressed_weights_stay_compressed(tmp_path: Path) -> None:
    tiny("llama").save_pretrained(tmp_path / "model")
    sizes = {}
    for weights in ("fp16", "int8", "int4"):
        export(tmp_path / "model", tmp_path / weights, weights)  # type: ignore[arg-type]
        sizes[weights] = (tmp_path / weights / "openvino_model.bin").stat().st_size
    assert sizes["int4"] < sizes["int8"] < 0.62 * sizes["fp16"]


def test_quantise_bounds_the_error_and_keeps_zero() -> None:
    rng = np.random.default_rng(0)
    matrix = np.concatenate([rng.normal(size=(50, 64)), rng.uniform(2, 3, (4, 64)), np.zeros((2, 64))])
    for levels in (16, 256):
        codes, scale, zero = quantise(matrix.astype(np.float32), levels)
        value = (codes.astype(np.float32) - zero) * scale.astype(np.float32)
        assert codes.max() < levels
        assert np.all(np.abs(value - matrix) <= scale.astype(np.float32) * (1.001 if levels == 16 else 1.2))
        assert np.all(value[-2:] == 0)
    assert pack_nibbles(np.array([1, 2, 15, 0], np.uint8)).tolist() == [0x21, 0x0F]


def test_a_quantised_gguf_is_read_as_its_own_numbers(tmp_path: Path) -> None:
    import gguf

    model = tiny("llama")
    write_gguf(model, tmp_path / "m.gguf", quantised=True)
    kind = gguf.GGMLQuantizationType.Q8_0
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                value = gguf.quants.dequantize(gguf.quants.quantize(parameter.numpy(), kind), kind)
                parameter.copy_(torch.from_numpy(value).half().float())
    export(tmp_path / "m.gguf", tmp_path / "out")
    check(tmp_path / "out", model)


def test_trees_take_one_line_of_slots_per_row(tmp_path: Path) -> None:
    model = tiny("llama")
    model.save_pretrained(tmp_path / "model")
    export(tmp_path / "model", tmp_path / "out", trees=True)
    settings = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    request = (
        compiling(mmap=True).compile_model(tmp_path / "out/openvino_model.xml", "CPU", settings).create_infer_request()
    )
    beam = np.zeros(1, np.int32)

    def infer(ids: list[int], positions: list[int], mask: np.ndarray) -> np.ndarray:
        feeds = {"input_ids": np.array([ids]), "position_ids": np.array([positions])}
        request.infer({**feeds, "attention_mask": mask[None, None].astype(bool), "beam_idx": beam})
        return request.get_tensor("logits").data[0].copy()

    prompt = IDS[:10]
    infer(prompt, list(range(10)), np.tril(np.ones((10, 10))))
    # 10 -> 11 -> 12 and beside it 10 -> 21
    own = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 1]])
    found = infer([10, 11, 12, 21], [10, 11, 12, 11], np.concatenate([np.ones((4, 10)), own], 1))
    np.testing.assert_allclose(found[:3], expected_logits(model, [*prompt, 10, 11, 12])[10:], atol=1e-3)
    np.testing.assert_allclose(found[3], expected_logits(model, [*prompt, 10, 21])[-1], atol=1e-3)


def test_the_folder_carries_its_record_and_its_documents(tmp_path: Path) -> None:
    model = tiny("llama-yarn")
    model.save_pretrained(tmp_path / "model")
    (tmp_path / "model/tokenizer.json").write_text("{}")
    export(tmp_path / "model", tmp_path / "out", "int8", extra_files={"chat_template.jinja": b"x"})
    record = json.loads((tmp_path / "out/surefoot_export.json").read_text())
    assert (record["weights"], record["cache"]) == ("int8", "state")
    assert len(record["source"][0]["sha256"]) == 64
    names = {f.name for f in (tmp_path / "out").iterdir()}
    assert names == {
        "openvino_model.xml", "openvino_model.bin", "surefoot_export.json", "config.json", "generation_config.json",
        "tokenizer.json", "chat_template.jinja",
    }  # fmt: skip
    assert is_exported(tmp_path / "out")
    assert not is_exported(tmp_path / "model")


def test_layout_is_the_one_that_other_tools_read(tmp_path: Path) -> None:
    tiny("qwen3").save_pretrained(tmp_path / "model")
    export(tmp_path / "model", tmp_path / "out")
    graph = ov.Core().read_model(tmp_path / "out/openvino_model.xml")
    assert {
        i.get_any_name(): (i.get_partial_shape().rank.get_length(), i.get_element_type()) for i in graph.inputs
    } == {
        "input_ids": (2, ov.Type.i64),
        "attention_mask": (2, ov.Type.i64),
        "position_ids": (2, ov.Type.i64),
        "beam_idx": (1, ov.Type.i32),
    }
    assert [o.get_any_name() for o in graph.outputs] == ["logits"]
    ids = {s.get_variable_id() for s in graph.get_sinks()}
    assert "past_key_values.0.keypresent.0.key" in ids
    assert len(ids) == 6


def test_a_cache_that_the_caller_keeps_is_inputs_and_rows(tmp_path: Path) -> None:
    tiny("qwen3").save_pretrained(tmp_path / "model")
    report = export(tmp_path / "model", tmp_path / "out", cache="caller")
    assert (report.cache, report.trees) == ("caller", True)
    graph = ov.Core().read_model(tmp_path / "out/openvino_model.xml")
    shapes = {port.get_any_name(): str(port.get_partial_shape()) for port in (*graph.inputs, *graph.outputs)}
    assert len(shapes) == 4 + 3 * 4 + 1 + 3 * 2
    assert shapes["history.2.key"] == "[?,2,32,256]"
    assert shapes["history.2.value"] == "[?,2,256,32]"
    assert shapes["staged.0.key"] == shapes["rows.0.value"] == "[1,2,?,32]"
    assert graph.get_sinks() == []


def test_only_known_weights_and_caches_are_written(tmp_path: Path) -> None:
    tiny("llama").save_pretrained(tmp_path / "model")
    for wrong, words in (({"weights": "fp8"}, "'fp8' is not one of fp16"), ({"cache": "mine"}, "'mine' is not one of")):
        with pytest.raises(ConfigError, match=words):
            export(tmp_path / "model", tmp_path / "out", **wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def refuse(tmp_path: Path, model: Path, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        export(model, tmp_path / "out")
    left = [f.name for f in tmp_path.iterdir() if f.name.startswith((".out", "out"))]
    assert left == []


def test_refusals_leave_nothing_behind(tmp_path: Path) -> None:
    refuse(tmp_path, tmp_path / "none", ConfigError, "does not exist")
    model = tiny("llama")
    folder = tmp_path / "model"
    model.save_pretrained(folder)
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-100])
    refuse(tmp_path, folder, ConfigError, "damaged")
    weights.write_bytes(b"nonsense, not weights")
    refuse(tmp_path, folder, ConfigError, "damaged")
    weights.write_bytes(whole)
    config = json.loads((folder / "config.json").read_text())
    for change, kind, words in [
        ({"model_type": "gpt2"}, NotEligible, "optimum-cli"),
        ({"quantization_config": {"quant_method": "gptq"}}, NotEligible, "already quantised"),
        ({"hidden_act": "gelu"}, NotEligible, "gelu"),
        ({"rope_parameters": {"rope_type": "longrope"}}, NotEligible, "longrope"),
        ({"num_hidden_layers": 4}, ConfigError, "lacks the tensor model.layers.3"),
    ]:
        (folder / "config.json").write_text(json.dumps({**config, **change}))
        refuse(tmp_path, folder, kind, words)
    write_gguf(model, tmp_path / "m.gguf")
    whole = (tmp_path / "m.gguf").read_bytes()
    (tmp_path / "m.gguf").write_bytes(whole[: len(whole) // 2])
    refuse(tmp_path, tmp_path / "m.gguf", ConfigError, "damaged")
    (tmp_path / "m.gguf").write_bytes(b"not a model")
    refuse(tmp_path, tmp_path / "m.gguf", ConfigError, "damaged")


UNREADABLE = [
    ("num_attention_heads", None, "num_attention_heads is missing"),
    ("num_attention_heads", "four", "cannot read .*four"),
    ("num_attention_heads", [4, 4], "cannot read"),
    ("num_attention_heads", 0, "cannot read"),
    ("num_attention_heads", 3, "3 heads in 2 groups"),
    ("num_attention_heads", 2**31, "self_attn.q_proj.weight of shape"),
    ("num_key_value_heads", 1, "self_attn.k_proj.weight of shape"),
    ("num_hidden_layers", 0, "layers 0"),
    ("num_hidden_layers", 2**31, "lacks the tensor model.layers."),
    ("hidden_size", 1, "embed_tokens.weight of shape"),
    ("vocab_size", 7, "embed_tokens.weight of shape"),
    ("head_dim", 15, "an odd head_dim of 15"),
    ("head_dim", 2**33, "heads of 8589934592 values"),
    ("max_position_embeddings", 1, "a context of 1"),
    ("max_position_embeddings", "x", "cannot read"),
    ("rms_norm_eps", -1.0, "epsilon of -1"),
    ("rms_norm_eps", float("nan"), "epsilon of nan"),
    ("rope_parameters", "x", "cannot read"),
    ("rope_parameters", {"rope_type": "linear"}, "factor is missing"),
    ("rope_parameters", {"rope_type": "linear", "factor": 0}, "cannot read"),
    ("rope_parameters", {"rope_theta": 0}, "not finite"),
]


@pytest.mark.parametrize(("key", "value", "words"), UNREADABLE)
def test_settings_that_lie_are_refused(key: str, value: Any, words: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    tiny("llama").save_pretrained(folder)
    config = {**json.loads((folder / "config.json").read_text()), key: value}
    if value is None:
        del config[key]
    (folder / "config.json").write_text(json.dumps(config))
    refuse(tmp_path, folder, DamagedModel, words)


LYING = [
    ("attention.head_count", 4, 0, "cannot read"),
    ("attention.head_count", 4, 2, "self_attn.q_proj.weight of shape"),
    ("attention.head_count", 4, 3, "3 heads in 2 groups"),
    ("attention.head_count_kv", 2, 4, "self_attn.k_proj.weight of shape"),
    ("block_count", 2, 0, "layers 0"),
    ("block_count", 2, 2**31 - 1, "lacks the tensor model.layers."),
    ("embedding_length", 64, 32, "embed_tokens.weight of shape"),
    ("context_length", 64, 1, "a context of 1"),
]


@pytest.mark.parametrize(("key", "value", "claim", "words"), LYING)
def test_a_gguf_whose_numbers_lie_is_refused(key: str, value: int, claim: int, words: str, tmp_path: Path) -> None:
    file = tiny_gguf.write(tmp_path / "tiny.gguf", context=64)
    old, new = (f"llama.{key}".encode() + struct.pack("<II", 4, number) for number in (value, claim))
    assert old in file.read_bytes()
    file.write_bytes(file.read_bytes().replace(old, new))
    refuse(tmp_path, file, DamagedModel, words)


def test_a_gguf_without_a_size_or_with_one_of_another_type_is_refused(tmp_path: Path) -> None:
    whole = tiny_gguf.write(tmp_path / "whole.gguf", context=64).read_bytes()
    file = tmp_path / "tiny.gguf"
    file.write_bytes(whole.replace(b"llama.embedding_length", b"llama.embodding_length"))
    refuse(tmp_path, file, DamagedModel, "llama.embedding_length is missing")
    key, nan = b"llama.block_count", struct.pack("<If", 6, float("nan"))
    file.write_bytes(whole.replace(key + struct.pack("<II", 4, 2), key + nan))
    refuse(tmp_path, file, DamagedModel, "cannot read .*NaN")


def test_values_beyond_half_precision_are_refused(tmp_path: Path) -> None:
    model = tiny("llama")
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[3, 5] = 1e6
    model.save_pretrained(tmp_path / "model")
    refuse(tmp_path, tmp_path / "model", NotEligible, r"layers\.1\.mlp\.up_proj")


def test_an_existing_folder_is_not_overwritten(tmp_path: Path) -> None:
    tiny("llama").save_pretrained(tmp_path / "model")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("precious")
    with pytest.raises(ConfigError, match="exists already"):
        export(tmp_path / "model", tmp_path / "out")
    assert [f.name for f in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_a_sliding_window_bounds_the_context(tmp_path: Path) -> None:
    model = tiny("mistral")
    model.config.sliding_window = 100
    model.save_pretrained(tmp_path / "model")
    export(tmp_path / "model", tmp_path / "out")
    assert json.loads((tmp_path / "out/surefoot_export.json").read_text())["max_length"] == 100


LIMITED = """
import resource, signal, sys
from pathlib import Path
from surefoot.core.errors import ConfigError
from surefoot.targets.openvino.export import export
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
try:
    export(Path(sys.argv[1]), Path(sys.argv[2]))
except ConfigError as error:
    print(error)
    sys.exit(2)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a file size limit is set the POSIX way")
def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    tiny("llama").save_pretrained(tmp_path / "model")
    export(tmp_path / "model", tmp_path / "whole")
    sizes = [(tmp_path / "whole/openvino_model").with_suffix(end).stat().st_size for end in (".bin", ".xml")]
    for limit in (1000, min(sizes) // 2, min(sizes) - 64, max(sizes) - 64):
        command = [sys.executable, "-c", LIMITED, str(tmp_path / "model"), str(tmp_path / "out"), str(limit)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2, (limit, sizes, done.stderr)
        assert done.stdout.count("\n") == 1
        assert sorted(f.name for f in tmp_path.iterdir()) == ["model", "whole"]


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_killed_export_leaves_no_model_and_the_next_one_clears_up(tmp_path: Path) -> None:
    tiny("llama").save_pretrained(tmp_path / "model")
    code = (
        "import sys, time; from pathlib import Path; from surefoot.targets.openvino.export import export\n"
        "export(Path(sys.argv[1]), Path(sys.argv[2]), progress=lambda d, t: (print(d, flush=True), time.sleep(60)))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "model"), str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        os.kill(child.pid, signal.SIGKILL)
    assert not (tmp_path / "out").exists()
    assert len([f for f in tmp_path.iterdir() if f.name.startswith(".out")]) == 1
    export(tmp_path / "model", tmp_path / "out")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["model", "out"]


def test_what_a_killed_export_left_is_found_whatever_its_name(tmp_path: Path) -> None:
    tiny("llama").save_pretrained(tmp_path / "model")
    (tmp_path / f".stairs [v2] ß.{2**30}.abc").mkdir()  # no process has such a number
    export(tmp_path / "model", tmp_path / "stairs [v2] ß")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "stairs [v2] ß"]


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    tiny("llama").save_pretrained(tmp_path / "model")

    def interrupt(done: int, total: int) -> None:
        assert 0 < done <= total
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(tmp_path / "model", tmp_path / "out", progress=interrupt)
    assert [f.name for f in tmp_path.iterdir()] == ["model"]


def test_the_report_counts_with_the_clock_it_is_given(tmp_path: Path) -> None:
    tiny("llama").save_pretrained(tmp_path / "model")
    ticks = iter([10.0, 14.5])
    report = export(tmp_path / "model", tmp_path / "out", clock=lambda: next(ticks))
    assert report.seconds == 4.5
    assert report.model_bytes > 0
