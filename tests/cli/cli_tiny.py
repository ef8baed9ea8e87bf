"""Tiny models with everything that a command needs: weights, a byte-level tokenizer, a chat template."""

from __future__ import annotations

import json
from pathlib import Path

from surefoot.app.cli.probe import write_tiny_llama

CONTEXT = 4096
TEMPLATE = (
    "{% if tools %}<s>tools: {% for tool in tools %}{{ tool.function.name }} {% endfor %}</s>{% endif %}"
    "{% for message in messages %}<s>{{ message.role }}: {{ message.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant: {% endif %}"
)
SPECIAL = ("<s>", "</s>")


def write_model(folder: Path, *, template: str | None = TEMPLATE) -> Path:
    """A Llama of random weights that writes bytes; `</s>` (id 257) ends its text."""
    folder.mkdir(parents=True)
    write_tokenizer(folder, template)
    write_tiny_llama(folder, vocabulary=256 + len(SPECIAL), context=CONTEXT)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 257}))
    return folder


def write_tokenizer(folder: Path, template: str | None) -> None:
    """One token per byte and two special ones. Source: the byte-level alphabet of GPT-2."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [byte for byte in range(256) if byte not in printable]
    alphabet = {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(other)}
    vocabulary = {alphabet[byte]: byte for byte in range(256)} | {token: 256 + i for i, token in enumerate(SPECIAL)}
    added = [
        {"id": 256 + i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": True}
        for i, token in enumerate(SPECIAL)
    ]  # fmt: skip
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    if template is not None:
        settings["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def write_gguf(path: Path) -> Path:
    """A GGUF file with one tensor, whole as a file though no model."""
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_tensor("token_embd.weight", np.ones((64, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
