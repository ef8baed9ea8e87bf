"""SmolLM2 on OpenVINO: our export and the vendor's, against transformers and against the vendor's own decoding."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("openvino", reason="the openvino extra is not installed")

from openvino_run import ov_logits

from surefoot.core.ports import Target
from surefoot.core.types import as_ids
from surefoot.targets.openvino import Options, build
from surefoot.targets.openvino.export import export

pytestmark = pytest.mark.model

PROMPTS = (
    "<|im_start|>user\nWrite a Python function that adds two numbers.<|im_end|>\n<|im_start|>assistant\n",
    "Copy this list: red, green, blue, red, green, blue, red, green,",
    "The history of the city begins",
)
SAME = {
    "INFERENCE_PRECISION_HINT": "f32",
    "KV_CACHE_PRECISION": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
    "ATTENTION_BACKEND": "SDPA",
}


@pytest.fixture(scope="module")
def vendor(smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that OpenVINO GenAI writes when it reads the GGUF file, its tokenizer included."""
    genai = pytest.importorskip("openvino_genai", reason="openvino-genai is not installed, and it writes the model")
    out = tmp_path_factory.mktemp("vendor")
    (out / smollm2_gguf.name).symlink_to(smollm2_gguf)
    genai.LLMPipeline(str(out / smollm2_gguf.name), "CPU", enable_save_ov_model=True)
    return out


@pytest.fixture(scope="module")
def exported(smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The model in int4; fp16 and int8 are held to more in test_openvino_same_text."""
    out = tmp_path_factory.mktemp("openvino") / "int4"
    export(smollm2_gguf, out, "int4")
    yield out
    shutil.rmtree(out)


def text_ids(folder: Path, text: str) -> list[int]:
    import openvino_genai as genai

    ids: list[int] = genai.Tokenizer(str(folder)).encode(text, add_special_tokens=False).input_ids.data[0].tolist()
    return ids


def greedy(target: Target, prompt: list[int], count: int, k: int, rng: np.random.Generator) -> list[int]:
    """`count` ids; with k > 0, drafts of k ids, of which about half hold and half do not."""
    session = target.open()
    written = [int(session.prefill(as_ids(prompt)).argmax()[0])]
    while len(written) < count:
        history = prompt + written
        at = next((j for j in range(len(history) - 2, 0, -1) if history[j - 1 : j + 1] == history[-2:]), None)
        draft = history[at + 1 : at + 1 + k] if at else rng.integers(0, 49152, k).tolist()
        said = session.extend(as_ids([written[-1], *draft])).argmax().tolist()
        held = next(
            (i for i, (guess, said_id) in enumerate(zip(draft, said, strict=False)) if guess != said_id), len(draft)
        )
        session.commit(held + 1)
        written += said[: held + 1]
    session.close()
    return written[:count]


def check_drafts_change_nothing(folder: Path, vendor: Path, count: int = 48) -> list[list[int]]:
    target, rng = build(Options(ctx_size=2048), folder), np.random.default_rng(0)
    texts = []
    for prompt in PROMPTS:
        ids = text_ids(vendor, prompt)
        plain = greedy(target, ids, count, 0, rng)
        for k in (1, 3, 7):
            assert greedy(target, ids, count, k, rng) == plain, (folder.name, prompt, k)
        texts.append(plain)
    return texts


def vendor_greedy(folder: Path, prompt: list[int], count: int) -> list[int]:
    import openvino as ov
    import openvino_genai as genai

    pipeline = genai.LLMPipeline(str(folder), "CPU", **SAME)
    config = genai.GenerationConfig(max_new_tokens=count, ignore_eos=True)
    found: list[int] = pipeline.generate(ov.Tensor(np.array([prompt])), config).tokens[0]
    return found


def test_logits_are_those_of_transformers(smollm2_gguf: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed, and it computes the expected logits")
    from transformers import AutoModelForCausalLM

    export(smollm2_gguf, tmp_path / "fp16")
    model = AutoModelForCausalLM.from_pretrained(smollm2_gguf.parent, gguf_file=smollm2_gguf.name, dtype=torch.float32)
    ids = np.random.default_rng(0).integers(0, 49152, 40).tolist()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half().float() if parameter.ndim == 2 else parameter)
        expected = model(torch.tensor([ids])).logits[0].numpy()
    found = ov_logits(tmp_path / "fp16", [ids[:25], ids[25:26], ids[26:34], [1, 2, 3], ids[34:]], hidden=(3,))
    np.testing.assert_allclose(found, expected, atol=1e-3, rtol=0)


def test_drafts_change_nothing_and_the_vendor_writes_the_same(exported: Path, vendor: Path) -> None:
    texts = check_drafts_change_nothing(exported, vendor)
    for file in vendor.glob("openvino_*tokenizer.*"):
        shutil.copy(file, exported)
    for prompt, text in zip(PROMPTS, texts, strict=True):
        assert vendor_greedy(exported, text_ids(vendor, prompt), len(text)) == text


def test_the_vendors_model_runs_and_drafts_change_nothing(vendor: Path) -> None:
    texts = check_drafts_change_nothing(vendor, vendor)
    for prompt, text in zip(PROMPTS, texts, strict=True):
        assert vendor_greedy(vendor, text_ids(vendor, prompt), len(text)) == text
