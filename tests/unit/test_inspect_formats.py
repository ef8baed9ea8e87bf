"""What each format's files say, with the place where it was read, and the reasons why not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import gguf_files
import pytest
from inspect_files import DATA, LLAMA, TENSORS, folder, ir, layer, port

from surefoot.core.errors import ConfigError
from surefoot.engine.inspect import Inspection, as_draft, inspect
from surefoot.engine.inspect.findings import Evidence, Experts


def look(path: Path, **options: Any) -> Inspection:
    return inspect(str(path), path, **options)


def answers(found: Inspection) -> dict[str, str]:
    return {each.runtime: each.answer for each in found.runtimes}


def kinds(found: Inspection) -> list[str]:
    return [each.refusal.kind for each in found.verdict.objections]


def value(found: Inspection, name: str) -> Any:
    finding = getattr(found.facts, name)
    assert finding is None or finding.evidence, f"{name} has no evidence"
    return None if finding is None else finding.value


# ---- transformers and MLX


def test_a_dense_folder_of_transformers(tmp_path: Path) -> None:
    found = look(folder(tmp_path / "m"))
    assert found.verdict.answer == "yes"
    assert answers(found)["hf"] == answers(found)["openvino"] == "yes"
    assert value(found, "layers") == {"full attention": 4}
    assert (value(found, "vocabulary"), value(found, "context")) == (211, 256)
    assert value(found, "states")[0].shape == (1, 2, -1, 16)
    assert value(found, "size").parameters == 211 * 64 + 64 * 64
    assert found.facts.vocabulary is not None
    assert found.facts.vocabulary.evidence == (Evidence("config.json", "vocab_size", "211"),)


@pytest.mark.parametrize(
    ("change", "layers"),
    [
        ({"sliding_window": 128}, {"sliding window": 4}),
        ({"sliding_window": 128, "use_sliding_window": False}, {"full attention": 4}),
        ({"sliding_window": 128, "sliding_window_pattern": 2}, {"sliding window": 2, "full attention": 2}),
        ({"sliding_window": 128, "max_window_layers": 3}, {"full attention": 3, "sliding window": 1}),
        ({"sliding_window": 128, "model_type": "gemma2"}, {"sliding window": 2, "full attention": 2}),
        ({"sliding_window": 128, "model_type": "gpt_oss"}, {"sliding window": 2, "full attention": 2}),
        (
            {"sliding_window": 128, "model_type": "gemma3_text", "num_hidden_layers": 26},
            {"sliding window": 22, "full attention": 4},
        ),
        ({"attention_chunk_size": 64}, {"chunked attention": 4}),
        ({"layer_types": ["full_attention"] * 3 + ["sliding_attention"]}, {"full attention": 3, "sliding window": 1}),
        ({"layer_types": ["linear_attention"] * 3 + ["full_attention"]}, {"recurrent": 3, "full attention": 1}),
        ({"attn_layer_period": 4, "attn_layer_offset": 2}, {"recurrent": 3, "full attention": 1}),
        ({"full_attention_interval": 4}, {"recurrent": 3, "full attention": 1}),
        ({"full_attn_idxs": [1, 3]}, {"recurrent": 2, "full attention": 2}),
        ({"hybrid_override_pattern": "M-M*"}, {"recurrent": 2, "other": 1, "full attention": 1}),
        ({"block_types": ["recurrent", "recurrent", "attention"]}, {"recurrent": 3, "full attention": 1}),
        ({"model_type": "mamba"}, {"recurrent": 4}),
    ],
)
def test_layers_by_kind(change: dict[str, Any], layers: dict[str, int], tmp_path: Path) -> None:
    found = look(folder(tmp_path / "m", {**LLAMA, **change}))
    assert value(found, "layers") == layers
    assert ("cumulative state" in kinds(found)) == ("recurrent" in layers)


def test_weights_that_know_of_a_recurrence_that_the_settings_do_not(tmp_path: Path) -> None:
    tensors = {**TENSORS, "model.layers.1.linear_attn.A_log": ("F32", (4,)), "model.layers.2.mamba.D": ("F32", (4,))}
    found = look(folder(tmp_path / "m", tensors=tensors))
    assert value(found, "layers") == {"recurrent": 2, "full attention": 2}
    assert "cumulative state" in kinds(found)
    assert answers(found)["hf"] == "no"


def test_experts_are_counted(tmp_path: Path) -> None:
    config = {**LLAMA, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    assert value(look(folder(tmp_path / "m", config)), "experts") == Experts(8, 2)


def test_an_encoder_decoder_is_out_and_look_up_has_nothing_to_find(tmp_path: Path) -> None:
    config = {**LLAMA, "model_type": "whisper", "is_encoder_decoder": True, "decoder_layers": 2}
    found = look(folder(tmp_path / "m", config))
    assert kinds(found) == ["encoder-decoder"]
    assert value(found, "lookup") == "cannot work"
    assert not found.works


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "can work"),
        ({"vision_config": {}}, "text only"),
        ({"audio_config": {}}, "text only"),
        ({"model_type": "got_ocr2", "vision_config": {}}, "cannot work"),
        ({"model_type": "qwen2_audio"}, "cannot work"),
    ],
)
def test_where_look_up_cannot_work(change: dict[str, Any], expected: str, tmp_path: Path) -> None:
    assert value(look(folder(tmp_path / "m", {**LLAMA, **change})), "lookup") == expected


def test_the_text_part_of_a_larger_configuration_is_read(tmp_path: Path) -> None:
    config = {"model_type": "gemma3", "architectures": ["GemmaForConditionalGeneration"], "text_config": dict(LLAMA)}
    found = look(folder(tmp_path / "m", config))
    assert value(found, "vocabulary") == 211
    assert found.facts.vocabulary is not None
    assert found.facts.vocabulary.evidence[0].key == "text_config.vocab_size"


def test_weights_without_a_head(tmp_path: Path) -> None:
    found = look(folder(tmp_path / "m", {**LLAMA, "architectures": ["BertModel"]}))
    assert kinds(found) == ["no language-model head"]


def test_a_vocabulary_that_nobody_states(tmp_path: Path) -> None:
    config = {key: each for key, each in LLAMA.items() if key != "vocab_size"}
    assert kinds(look(folder(tmp_path / "m", config))) == ["unknown vocabulary"]


def test_a_family_that_the_export_does_not_write(tmp_path: Path) -> None:
    found = look(folder(tmp_path / "m", {**LLAMA, "model_type": "gemma2"}))
    assert answers(found)["openvino"] == "no"
    openvino = next(each for each in found.runtimes if each.runtime == "openvino")
    assert openvino.objections[0].refusal.kind == "family"
    assert found.verdict.answer == "yes"


def test_weights_packed_by_mlx(tmp_path: Path) -> None:
    config = {**LLAMA, "quantization": {"group_size": 32, "bits": 4}}
    tensors = {
        "model.embed_tokens.weight": ("U32", (211, 8)),
        "model.embed_tokens.scales": ("F16", (211, 2)),
        "model.embed_tokens.biases": ("F16", (211, 2)),
    }
    found = look(folder(tmp_path / "m", config, tensors, {"format": "mlx"}))
    assert found.facts.format == "mlx"
    assert value(found, "size").parameters == 211 * 64
    assert found.verdict.answer == "yes"
    assert set(answers(found).values()) == {"no"}


def test_no_runtime_is_imported(tmp_path: Path) -> None:
    """Nor transformers: whatever is known comes from the files."""
    paths = [folder(tmp_path / "m"), DATA / "dynamic.onnx", DATA / "dynamic.aimodel", DATA / "range.mlpackage"]
    heavy = ("torch", "transformers", "openvino", "onnx", "coremltools", "mlx", "coreai", "llama_cpp", "tokenizers")
    program = (
        "import sys\nfrom pathlib import Path\nfrom surefoot.engine.inspect import inspect\n"
        "for path in sys.argv[1:]:\n    inspect(path, Path(path))\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, paths)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


# ---- GGUF


def test_a_gguf_file(tmp_path: Path) -> None:
    path = gguf_files.write(
        tmp_path / "m.gguf", llama__context_length=512, llama__block_count=2, llama__attention__head_count=4,
        llama__embedding_length=64, tokenizer__ggml__tokens=["a", "b", "c"],
    )  # fmt: skip
    found = look(path)
    assert (value(found, "context"), value(found, "vocabulary")) == (512, 3)
    assert value(found, "size").types == {"F32": 2}


def write_gguf(path: Path, arch: str, names: dict[str, tuple[int, ...]], **fields: int) -> Path:
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(path, arch)
    for name, number in fields.items():
        writer.add_uint32(f"{arch}.{name.replace('__', '.')}", number)
    for name, shape in names.items():
        writer.add_tensor(name, np.zeros(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_hybrid_gguf_file_by_the_tensors_of_its_blocks(tmp_path: Path) -> None:
    names = {"token_embd.weight": (32, 8), "blk.0.ssm_in.weight": (8, 8), "blk.1.attn_q.weight": (8, 8)}
    found = look(write_gguf(tmp_path / "m.gguf", "jamba", names, context_length=64, block_count=2))
    assert value(found, "layers") == {"recurrent": 1, "full attention": 1}
    assert kinds(found) == ["cumulative state"]
    assert value(found, "vocabulary") == 32


def test_a_window_and_experts_of_a_gguf_file(tmp_path: Path) -> None:
    names = {"token_embd.weight": (32, 8), **{f"blk.{i}.attn_q.weight": (8, 8) for i in range(6)}}
    found = look(
        write_gguf(
            tmp_path / "m.gguf", "gemma3", names, attention__sliding_window=64, expert_count=8, expert_used_count=2
        )
    )
    assert value(found, "layers") == {"sliding window": 5, "full attention": 1}
    assert value(found, "window") == 64
    assert value(found, "experts") == Experts(8, 2)


def test_an_encoder_in_a_gguf_file(tmp_path: Path) -> None:
    names = {"token_embd.weight": (32, 8), "enc.blk.0.attn_q.weight": (8, 8), "dec.blk.0.attn_q.weight": (8, 8)}
    found = look(write_gguf(tmp_path / "m.gguf", "t5", names))
    assert kinds(found) == ["encoder-decoder"]
    assert value(found, "lookup") == "cannot work"


# ---- OpenVINO


def decoder(ids: str = "-1", logits: str = "-1", state: tuple[int, ...] = (-1, 2, -1, 16), cut: str = "") -> str:
    """The layers of an IR with state: ids, mask, positions, one variable, a head."""
    n, m = int(ids), int(logits)
    parts = [
        layer(0, "Parameter", f"<output>{port(0, (-1, n), 'input_ids')}</output>"),
        layer(1, "Parameter", f"<output>{port(0, (-1, -1), 'attention_mask')}</output>"),
        layer(2, "Parameter", f"<output>{port(0, (-1, n), 'position_ids')}</output>"),
        layer(3, "ReadValue", f'<data variable_id="past.0"/><output>{port(1, state)}</output>'),
        layer(7, cut or "Add", f"<input>{port(0, (-1, n, 8))}</input><output>{port(1, (-1, m, 8))}</output>"),
        layer(4, "MatMul", f"<input>{port(0, (-1, m, 8))}</input><output>{port(2, (-1, m, 32), 'logits')}</output>"),
        layer(5, "Result", f"<input>{port(0, (-1, m, 32))}</input>"),
    ]
    return "".join(parts)


EDGES = (
    '<edge from-layer="7" from-port="1" to-layer="4" to-port="0"/>'
    '<edge from-layer="4" from-port="2" to-layer="5" to-port="0"/>'
)


def test_an_openvino_folder(tmp_path: Path) -> None:
    found = look(ir(tmp_path / "m", decoder(), EDGES, config=LLAMA))
    assert found.verdict.answer == answers(found)["openvino"] == "yes"
    assert answers(found)["hf"] == "no"
    assert (value(found, "vocabulary"), value(found, "head"), value(found, "rows").dynamic) == (32, "all rows", True)
    assert value(found, "states")[0].shape == (-1, 2, -1, 16)
    assert value(found, "layers") == {"full attention": 4}


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"ids": "1", "logits": "1"}, "static rows", "a single row a forward"),
        ({"ids": "8", "logits": "8"}, "static rows", "8 rows, no more and no fewer"),
        ({"logits": "1"}, "head on the last row", "last row only"),
        ({"state": (1, 2, 4, 16)}, "cumulative state", "does not grow by one row a token"),
    ],
)
def test_openvino_graphs_that_cannot_be_rolled_back(
    options: dict[str, Any], kind: str, words: str, tmp_path: Path
) -> None:
    found = look(ir(tmp_path / "m", decoder(**options), EDGES, config=LLAMA))
    assert kinds(found) == [kind]
    assert words in found.verdict.text
    assert found.verdict.objections[0].evidence[0].file == "openvino_model.xml"
    assert not found.works


def test_a_slice_before_the_head_leaves_it_open(tmp_path: Path) -> None:
    found = look(ir(tmp_path / "m", decoder(cut="Slice"), EDGES, config=LLAMA))
    assert found.facts.head is None
    assert found.verdict.answer == answers(found)["openvino"] == "not known"


# ---- ONNX


def test_an_onnx_file_and_its_weights_beside_it() -> None:
    found = look(DATA / "dynamic.onnx")
    assert found.verdict.answer == "yes"
    assert (value(found, "vocabulary"), value(found, "head"), value(found, "rows").dynamic) == (32, "all rows", True)
    assert value(found, "states")[0].shape == (-1, 2, -1, 4)
    assert value(found, "size").bytes == sum((DATA / f"dynamic.onnx{end}").stat().st_size for end in ("", ".data"))
    assert value(found, "size").parameters == 2 * 32 * 8
    assert set(answers(found).values()) == {"no"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("single", ["static rows"]),
        ("last", ["head on the last row"]),
        ("conv", ["cumulative state"]),
        ("window", []),
        ("merged", []),
    ],
)
def test_onnx_files_and_what_stands_against_them(name: str, expected: list[str]) -> None:
    found = look(DATA / f"{name}.onnx")
    assert kinds(found) == expected
    assert value(found, "window") == (128 if name == "window" else None)


def test_the_settings_of_onnx_runtime_genai(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes((DATA / "window.onnx").read_bytes())
    settings = {"model": {"type": "phi3", "vocab_size": 40, "context_length": 4096}}
    (tmp_path / "genai_config.json").write_text(json.dumps(settings))
    found = look(tmp_path)
    assert (value(found, "context"), value(found, "architecture"), value(found, "vocabulary")) == (4096, "phi3", 32)


# ---- Core ML


def test_a_core_ml_package_of_two_widths() -> None:
    found = look(DATA / "widths.mlpackage")
    assert value(found, "rows").counts == (1, 8)
    assert found.verdict.answer == "yes"
    assert "1, 8 rows" in found.verdict.text
    assert (value(found, "head"), value(found, "vocabulary")) == ("all rows", 32)


def test_a_core_ml_package_of_any_width() -> None:
    found = look(DATA / "range.mlpackage")
    assert value(found, "rows").dynamic
    assert found.verdict.answer == "yes"
    assert value(found, "states")[0].shape == (4, 1, 1, 16, 8)


@pytest.mark.parametrize(("name", "kind"), [("single", "static rows"), ("last", "head on the last row")])
def test_core_ml_packages_that_cannot_verify(name: str, kind: str) -> None:
    assert kinds(look(DATA / f"{name}.mlpackage")) == [kind]


# ---- Core AI


def test_a_core_ai_bundle() -> None:
    found = look(DATA / "dynamic.aimodel")
    assert found.verdict.answer == "yes"
    assert (value(found, "rows").dynamic, value(found, "head"), value(found, "vocabulary")) == (True, "all rows", 32)
    assert [state.name for state in value(found, "states")] == ["k_cache", "v_cache"]
    assert value(found, "layers") == {"full attention": 2}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("single", "static rows"), ("last", "head on the last row"), ("hybrid", "cumulative state")],
)
def test_core_ai_bundles_that_cannot_verify(name: str, kind: str) -> None:
    assert kinds(look(DATA / f"{name}.aimodel")) == [kind]


def test_the_bundle_of_a_language_model(tmp_path: Path) -> None:
    shutil.copytree(DATA / "dynamic.aimodel", tmp_path / "tiny.aimodel")
    metadata = {
        "kind": "llm",
        "assets": {"main": "tiny.aimodel"},
        "language": {"vocab_size": 32, "max_context_length": 4096},
        "source": {"hf_model_id": "somebody/tiny"},
    }
    (tmp_path / "metadata.json").write_text(json.dumps(metadata))
    found = look(tmp_path)
    assert (value(found, "context"), value(found, "architecture")) == (4096, "somebody/tiny")
    assert found.verdict.answer == "yes"


def test_a_program_of_another_version_is_not_guessed_at(tmp_path: Path) -> None:
    shutil.copytree(DATA / "dynamic.aimodel", tmp_path / "m.aimodel")
    program = tmp_path / "m.aimodel" / "main.mlirb"
    # The section of dialects: one, its name with a version, and the section of that version, which is 2.
    before, after = (bytes([0x03, 0x03, 0x07, 0x03, version << 1 | 1]) for version in (2, 9))
    data = program.read_bytes()
    assert data[:100].count(before) == 1
    program.write_bytes(data.replace(before, after, 1))
    found = look(tmp_path / "m.aimodel")
    assert found.facts.rows is None
    assert found.verdict.answer == "no"
    assert "not known here" in found.verdict.text


# ---- whichever


def test_a_folder_of_several_formats(tmp_path: Path) -> None:
    path = ir(folder(tmp_path / "m"), decoder(), EDGES, config=LLAMA)
    assert look(path).facts.format == "safetensors"
    assert look(path).facts.others == ("openvino",)
    assert look(path, wanted="openvino").facts.format == "openvino"
    with pytest.raises(ConfigError, match="not in the format onnx: it is safetensors, openvino"):
        look(path, wanted="onnx")


@pytest.mark.parametrize(
    ("draft", "answer", "words"),
    [
        ({}, "yes", "by the drafter model"),
        ({"vocab_size": 300}, "yes", "by the drafter model"),
        ({"vocab_size": 5000}, "yes", "by the drafter crossvocab: it has 5000 tokens"),
        ({"max_position_embeddings": 128}, "no", "cannot draft past that"),
        ({"vocab_size": None}, "not known", "vocabulary and context"),
    ],
)
def test_a_draft_model(draft: dict[str, int], answer: str, words: str, tmp_path: Path) -> None:
    target, other = look(folder(tmp_path / "t")), look(folder(tmp_path / "d", {**LLAMA, **draft}))
    found = as_draft(target, other)
    assert (found.answer, words in found.text) == (answer, True)
