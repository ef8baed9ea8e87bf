"""Which tokens of a GGUF file end a text, and whether one begins it, as llama.cpp has it.

The file names only some of them, and llama.cpp knows the rest by their texts. What a model writes must not depend on
the runtime, so this holds on all of them. `about` is the metadata without "tokenizer." before its keys.
Source: llama.cpp at build 11549, src/llama-vocab.cpp, llama_vocab::impl::load.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from surefoot.engine.gguf_splits import SPLITS

NORMAL, CONTROL, USER_DEFINED = 1, 3, 4
"""Kinds of tokens. Source: enum llama_token_type in include/llama.h."""

_ENDS = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
    "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>",
    "<eos>", "<turn|>", "<|tool_response>", "<\uff5cend\u2581of\u2581sentence\uff5c>", "[e~[", "<|ifm|im_end|>",
)  # fmt: skip
_FILES = {
    "fim_pad": ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    "fim_rep": ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "fim_sep": ("<|file_sep|>", "<|plamo:file_separator|>"),
}
"""What stood between files in training ends a text too: of each kind the one whose id is named, else one of these.

Of several, llama.cpp takes whichever it meets first; here it is the first in the vocabulary.
"""
_NAMES = frozenset((*_ENDS, *itertools.chain.from_iterable(_FILES.values())))

_EOS = {"llama": 2, "gpt2": 11, "t5": 1}
_BOS = {"llama": 1}
"""Ids where the file names none, by the kind of its tokenizer. llama.cpp has a `bos` for gpt2, too, of one model."""


def end_ids(about: Mapping[str, Any]) -> frozenset[int]:
    """Every id that ends a text."""
    tokens = about["ggml.tokens"]
    ids = {token: i for i, token in enumerate(tokens) if token in _NAMES}
    found = [ids.get(text) for text in _ENDS]
    for name, texts in _FILES.items():
        found.append(_id(about, name, min((ids[text] for text in texts if text in ids), default=None)))
    found += [_id(about, "eos", _EOS.get(about["ggml.model"])), _id(about, "eot"), _id(about, "eom")]
    ends = {i for i in found if i is not None}
    held, spared = {tokens[i] for i in ends}, set()
    if held & {"<|call|>", "<|calls|>"} and held & {"<|return|>", "<|flush|>"}:
        spared.add("<|end|>")  # of gpt-oss and Solar, where it ends a part of the answer
    if held & {"<|tool_response>", "<|plamo:eos|>"}:
        spared.add("</s>")  # of Gemma 4 and PLaMo, where it is a tag of HTML
    return frozenset(i for i in ends if tokens[i] not in spared)


def kinds(about: Mapping[str, Any], ends: frozenset[int]) -> list[int]:
    """The kind of every token: one that ends a text because of its name is a control token, whatever the file says."""
    tokens = about["ggml.tokens"]
    found = list(about.get("ggml.token_type") or [NORMAL] * len(tokens))[: len(tokens)]
    if len(found) < len(tokens):
        raise ValueError(f"it has {len(tokens)} tokens and only {len(found)} kinds of them")
    for i in ends:
        if tokens[i] in _NAMES:
            found[i] = CONTROL
    return found


def bos_id(about: Mapping[str, Any]) -> int | None:
    """The token that may begin a text; None where the file has none."""
    return _id(about, "bos", _BOS.get(about["ggml.model"]))


def adds_bos(about: Mapping[str, Any]) -> bool:
    """Whether a text that is given as it is begins with the token `bos`."""
    kind, said = about["ggml.model"], about.get("ggml.add_bos_token")
    if kind == "gemma4":
        return True  # some files say otherwise, and are wrong
    if isinstance(said, bool):
        return said
    split = SPLITS.get(str(about.get("ggml.pre"))) if kind == "gpt2" else None
    return kind == "llama" or (split is not None and split.adds_bos)


def _id(about: Mapping[str, Any], name: str, default: int | None = None) -> int | None:
    """The id that the file names, or the default; None where it is not in the vocabulary."""
    size = len(about["ggml.tokens"])
    named = about.get(f"ggml.{name}_token_id")
    return next((i for i in (named, default) if isinstance(i, int) and 0 <= i < size), None)
