"""How llama.cpp cuts a text before the merges of a byte-level vocabulary, by the name that a GGUF file gives it.

Source: llama.cpp at build 11549, src/llama-vocab.cpp, llama_vocab::impl::load and llm_tokenizer_bpe. Splits that it
computes by code of its own, or that no model writing text has, are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Split:
    """Each regex cuts the pieces that the one before left; what it does not match is a piece too.

    With `whole`, a piece that is a token is that token, whatever its merges. With `adds_bos`, a text begins with the
    token `bos` where the file does not say otherwise.
    """

    regexes: tuple[str, ...]
    whole: bool = False
    adds_bos: bool = False


_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_SHORT = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_REST}"
_QWEN2 = rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_REST}"
_QWEN35 = (
    rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_UPPER, _LOWER = r"(?:(?=\p{L})[^a-z])", r"(?:(?=\p{L})[^A-Z])"
_PATHS = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_TEKKEN = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}|{_PATHS}"
_GPT4O = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_SHORT}?|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_SHORT}?"
    rf"|\p{{N}}{{1,3}}|{_PATHS}"
)
_DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_BAILING = (
    r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]"
    r"|\s+(?!\S)|\s+"
)
_SEED = rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
_MINICPM5 = rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}+|{_REST}"
_BLOOM = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"

_BY_NAMES: Mapping[str, Split] = {
    "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2": Split((_LLAMA3,), whole=True, adds_bos=True),
    "dbrx smaug-bpe glm4 chatglm-bpe": Split((_LLAMA3,)),
    "qwen2 deepseek-r1-qwen kormo megrez stablelm2 hunyuan solar-open grok-2": Split((_QWEN2,)),
    "qwen35": Split((_QWEN35,)),
    "tekken": Split((_TEKKEN,), whole=True, adds_bos=True),
    "gpt-4o llama4 kanana2 talkie minimax-m2": Split((_GPT4O,)),
    "gpt-2 phi-2 gigachat a.x-4.0 mellum mpt olmo jais trillion granite-docling exaone4": Split((_WORDS,)),
    "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2": Split((r"\p{N}", _WORDS)),
    "deepseek-coder": Split(
        (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff&&[^\\s]]+", r"\p{N}")
    ),
    "deepseek-v3 hunyuan-dense joyai-llm": Split(
        (r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", _DEEPSEEK3)
    ),
    "falcon": Split((r"[\p{P}\$\+<=>\^~\|`]+", _WORDS, "[0-9][0-9][0-9]")),
    "bailingmoe bailingmoe2 llada-moe": Split((_BAILING,)),
    "seed-coder": Split((_SEED,)),
    "minicpm5": Split((r"\p{N}{1,3}", _MINICPM5), whole=True),
    "bloom gpt3-finnish poro-chat": Split((_BLOOM,)),
    "viking": Split((_BLOOM, r"\p{N}")),
    "default": Split((r"[\p{P}\$\+<=>\^~\|]+", _WORDS, r"\p{N}+", "[0-9][0-9][0-9]")),
}
SPLITS: Mapping[str, Split] = {name: split for names, split in _BY_NAMES.items() for name in names.split()}
"""By the name in `ggml.pre`; the one for a file that names none is `default`."""
