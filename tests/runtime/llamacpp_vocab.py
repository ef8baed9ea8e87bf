"""What llama.cpp itself makes of the vocabulary of a GGUF file, for tests that compare ours with it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_bool, c_char_p, c_int32, c_void_p
from pathlib import Path
from typing import Any

from surefoot.targets.llamacpp.api import open_api

_PROTOTYPES = {
    "llama_vocab_is_eog": (c_bool, (c_void_p, c_int32)),
    "llama_vocab_get_add_bos": (c_bool, (c_void_p,)),
    "llama_vocab_bos": (c_int32, (c_void_p,)),
    "llama_tokenize": (c_int32, (c_void_p, c_char_p, c_int32, c_void_p, c_int32, c_bool, c_bool)),
}


class Theirs:
    """A vocabulary that llama.cpp has loaded."""

    def __init__(self, fn: Any, vocab: int) -> None:
        self._fn, self._vocab = fn, vocab

    @property
    def ends(self) -> set[int]:
        size = self._fn.llama_vocab_n_tokens(self._vocab)
        return {i for i in range(size) if self._fn.llama_vocab_is_eog(self._vocab, i)}

    @property
    def first(self) -> int | None:
        """The token that begins every text."""
        return self._fn.llama_vocab_bos(self._vocab) if self._fn.llama_vocab_get_add_bos(self._vocab) else None

    def encode(self, text: str, add_special: bool = True) -> list[int]:
        """As llama.cpp's server reads a prompt: names of special tokens are those tokens."""
        data = text.encode()
        out = (c_int32 * (len(data) + 8))()
        n = self._fn.llama_tokenize(self._vocab, data, len(data), ctypes.byref(out), len(out), add_special, True)
        assert n >= 0
        return list(out[:n])


@contextmanager
def llamacpp_vocab(path: Path) -> Iterator[Theirs]:
    """The vocabulary of a file that llama.cpp takes."""
    api = open_api("xllamacpp")
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(api.fn, name)
        function.restype, function.argtypes = result, arguments
    with api.listening() as lines:
        model = api.load_model(str(path), {"vocab_only": 1})
    assert model, lines
    try:
        yield Theirs(api.fn, api.fn.llama_model_get_vocab(model))
    finally:
        api.fn.llama_model_free(model)
