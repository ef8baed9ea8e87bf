"""Small real tokenizers of every spelling, built in the test with the tokenizers library."""

from __future__ import annotations

from typing import Any

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend
from transformers import PreTrainedTokenizerFast

from surefoot.engine.tokenizer import Tokenizer

WORDS = ["a", "b", "c", "ab", "bc", "stop", "\u2581", "\u2581a", "\u2581stop", "\u2581\u2581", ".", "\ufffd", "\u4f60"]
TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[a]{% endif %}"
)


def wrap(backend: Any, *, template: str | None = None, **special: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=backend, chat_template=template, **special)


def sentencepiece(*, strip: bool = True) -> PreTrainedTokenizerFast:
    """As Llama 2 has it: spaces as U+2581, bytes as <0x00>, one leading space dropped (Gemma drops none)."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *WORDS, "\u4f60"]
    vocab = {token: i for i, token in enumerate(tokens)}
    merges = [("a", "b"), ("b", "c"), ("\u2581", "a")]
    backend = Backend(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if strip else steps)
    return wrap(backend, unk_token="<unk>", bos_token="<s>", eos_token="</s>", template=TEMPLATE)


def metaspace() -> PreTrainedTokenizerFast:
    """As T5 has it: no bytes, the leading space dropped by the decoder."""
    vocab = [("<unk>", 0.0), ("</s>", 0.0), *((word, -float(i)) for i, word in enumerate([*WORDS, "\u4f60"]))]
    backend = Backend(models.Unigram(vocab, unk_id=0))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    return wrap(backend, unk_token="<unk>", eos_token="</s>")


def wordpiece() -> PreTrainedTokenizerFast:
    """As BERT has it: ## joins to the word before, and spaces before punctuation vanish."""
    tokens = ["[UNK]", "[SEP]", "a", "##a", "b", "##b", "stop", "##stop", ".", ",", "'", "n't", "do", "\ufffd"]
    backend = Backend(models.WordPiece({token: i for i, token in enumerate(tokens)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    return wrap(backend, unk_token="[UNK]", sep_token="[SEP]")


def byte_level() -> PreTrainedTokenizerFast:
    """As GPT-2 has it: every token is bytes; with tokens that end inside a character, and one added that is text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    spelled = {word: _spell(word) for word in ("stop", " stop", "ab", "\u4f60", " \u4f60", "\U0001f642", "\ufffd")}
    halves = [
        _spell(b"a\xe4"),
        _spell(b"\xbd\xa0b"),
        _spell(b"\xf0\x9f"),
        _spell(b"\x99\x82!"),
        _spell(b"\xbd\xa0\xe4"),
    ]
    tokens = list(dict.fromkeys([*alphabet, *spelled.values(), *halves]))
    backend = Backend(models.BPE({token: i for i, token in enumerate(tokens)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    library = wrap(backend, eos_token="<end>")
    library.add_tokens([AddedToken("<think \u4f60>", special=False, normalized=False)])
    return library


class PythonOnly:
    """The same tokenizer as transformers has it for models without a tokenizers backend: decode is all there is."""

    def __init__(self, library: PreTrainedTokenizerFast) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        if name == "backend_tokenizer":
            raise AttributeError(name)
        return getattr(self._library, name)

    def __len__(self) -> int:
        return len(self._library)


def _spell(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    table = dict(zip(_BYTES, _CHARS, strict=True))
    return "".join(table[byte] for byte in data)


# GPT-2's rule: printable Latin-1 stands for itself, the other bytes follow from U+0100 on.
_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
_BYTES = _PRINTABLE + _OTHERS
_CHARS = [chr(byte) for byte in _PRINTABLE] + [chr(0x100 + i) for i in range(len(_OTHERS))]

BUILDERS = {
    "sentencepiece": sentencepiece,
    "sentencepiece without strip": lambda: sentencepiece(strip=False),
    "metaspace": metaspace,
    "wordpiece": wordpiece,
    "byte_level": byte_level,
    "python only": lambda: PythonOnly(byte_level()),
}
SPELLINGS = {
    "sentencepiece": "byte_fallback",
    "sentencepiece without strip": "byte_fallback",
    "metaspace": "text",
    "wordpiece": "text",
    "byte_level": "byte_level",
    "python only": "text",
}


def build(kind: str) -> Tokenizer:
    library = BUILDERS[kind]()
    eos = library.eos_token_id
    return Tokenizer(kind, library, frozenset() if eos is None else frozenset({eos}))
