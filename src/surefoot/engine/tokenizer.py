"""Text to ids and back with the model's own tokenizer and chat template; torch is not needed for it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from surefoot.core.errors import ConfigError
from surefoot.core.types import Ids, Vocabulary, as_ids
from surefoot.engine.bounded import json_object
from surefoot.engine.gguf_tokenizer import read_gguf_tokenizer
from surefoot.engine.models import ModelFiles

Spelling = Literal["byte_level", "byte_fallback", "text"]
"""How tokens become text: each is bytes; some are one byte, as in <0xE4>; or only whole texts can be decoded."""

_NO_BYTE = 0x100
"""A code point that Latin-1 cannot encode."""

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True)
class Tokenizer:
    """A tokenizer of the transformers library, reduced to what writing text needs."""

    name: str
    library: Any
    eos_ids: frozenset[int]

    @property
    def vocab_size(self) -> int:
        """Ids that have a text, added ones included. The model may have more rows than that."""
        return len(self.library)

    @property
    def has_template(self) -> bool:
        return bool(self.library.chat_template)

    def encode(self, text: str, add_special: bool = True) -> Ids:
        """(n,) int32; with `add_special`, the tokens that this model wants around a text are added."""
        try:
            return as_ids(self.library.encode(text, add_special_tokens=add_special, verbose=False))
        except (TypeError, UnicodeError) as error:
            raise ConfigError("the prompt holds bytes that are not text: give it in UTF-8") from error

    def decode(self, ids: Sequence[int] | Ids, skip_special: bool = True) -> str:
        """Exactly what the tokens spell: spaces before punctuation are not tidied up."""
        plain = [int(i) for i in ids]
        if self._backend is not None:
            return str(self._backend.decode(plain, skip_special_tokens=skip_special))
        text = self.library.decode(plain, skip_special_tokens=skip_special, clean_up_tokenization_spaces=False)
        return str(text)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
    ) -> Ids:
        """(n,) int32: the conversation in the model's own chat template.

        Raises: ConfigError when the model has no template, or the template refuses the messages or ignores the tools.
        """
        if not self.has_template:
            raise ConfigError(f"{self.name} has no chat template: use --raw to give it the text as it is")
        text = self._rendered(messages, tools, add_generation_prompt)
        if tools and text == self._rendered(messages, None, add_generation_prompt):
            raise ConfigError(f"the chat template of {self.name} has no place for tools: describe them in a message")
        return self.encode(text, add_special=False)

    def _rendered(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        add_generation_prompt: bool,
    ) -> str:
        try:
            text = self.library.apply_chat_template(
                list(messages),
                tools=list(tools) if tools else None,
                add_generation_prompt=add_generation_prompt,
                tokenize=False,
            )
        except Exception as error:  # a template is a program: it can fail in any way
            raise ConfigError(
                f"the chat template of {self.name} refuses these messages ({error}): change them, or use --raw"
            ) from error
        return str(text)

    def token_bytes(self, token_id: int) -> bytes:
        """What one token spells on its own, in UTF-8; b"" for an id without a text."""
        token = self._token(token_id)
        if self.spelling == "byte_level":
            try:
                return token.translate(self._byte_level).encode("latin-1")
            except UnicodeEncodeError:
                return token.encode()
        if self.is_byte(token_id):
            return bytes([int(token[3:5], 16)])
        return token.replace("\u2581", " ").encode()

    def shown(self, token_id: int) -> str | bytes:
        """What a token adds to a text, noted in `known`: a string where that is ASCII, else bytes."""
        spelled = self.token_bytes(token_id)
        shown = self.known[token_id] = spelled.decode() if spelled.isascii() else spelled
        return shown

    @cached_property
    def known(self) -> dict[int, str | bytes]:
        """What `shown` gave so far, since texts repeat most of their tokens; "" for what `decode` leaves out."""
        return dict.fromkeys(self.special_ids, "")

    def is_byte(self, token_id: int) -> bool:
        """Whether this token stands for one byte, as <0xE4> does where `spelling` is byte_fallback."""
        return self.spelling == "byte_fallback" and _BYTE_TOKEN.fullmatch(self._token(token_id)) is not None

    def _token(self, token_id: int) -> str:
        """The entry in the vocabulary, "" where there is none."""
        if self._backend is not None:
            return self._backend.id_to_token(token_id) or ""
        return str(self.library.convert_ids_to_tokens(token_id)) if token_id < self.vocab_size else ""

    def token_text(self, token_id: int) -> str:
        """What one token spells on its own, U+FFFD where it holds part of a character only."""
        return self.token_bytes(token_id).decode(errors="replace")

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """What every token spells, in about a second for 250,000 of them."""
        bare = frozenset(self.special_ids)
        start = tuple(itertools.takewhile(bare.__contains__, self.encode("a").tolist()))
        ids = range(self.vocab_size)
        spelled = [self.token_bytes(token_id) for token_id in ids]
        return Vocabulary(spelled, bare, frozenset(filter(self.is_byte, ids)), start)

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Tokens that `decode` leaves out unless told otherwise."""
        return frozenset(i for i, token in self.library.added_tokens_decoder.items() if token.special)

    @cached_property
    def spelling(self) -> Spelling:
        decoder = getattr(self._backend, "decoder", None)
        kinds = set(re.findall(r'"type":\s*"(\w+)"', decoder.__getstate__().decode())) if decoder is not None else set()
        if kinds == {"ByteLevel"}:
            return "byte_level"
        return "byte_fallback" if "ByteFallback" in kinds else "text"

    @cached_property
    def _byte_level(self) -> dict[int, int]:
        """For `str.translate`: the byte behind each character of the byte-level alphabet. What is not of the alphabet
        goes where no byte is, whatever it was."""
        from transformers.convert_slow_tokenizer import bytes_to_unicode

        alphabet: Any = bytes_to_unicode
        return {**dict.fromkeys(range(256), _NO_BYTE), **{ord(char): byte for byte, char in alphabet().items()}}

    @cached_property
    def _backend(self) -> Any:
        """The tokenizers library's object, a tenth of the cost per call; None where transformers has only its own."""
        return getattr(self.library, "backend_tokenizer", None)


def load_tokenizer(files: ModelFiles) -> Tokenizer:
    """The tokenizer and chat template that lie with the weights."""
    try:
        if files.format != "gguf":
            return _from_folder(files)
        return Tokenizer(files.name, *read_gguf_tokenizer(files.path))
    except ImportError as error:
        raise ConfigError(f"{error.name or error} is needed to read text: pip install 'surefoot[text]'") from error


def _from_folder(files: ModelFiles) -> Tokenizer:
    from transformers import AutoTokenizer

    try:
        library = AutoTokenizer.from_pretrained(str(files.path), local_files_only=True, trust_remote_code=False)
    except ImportError:
        raise
    except Exception as error:  # whatever is wrong with its files, the tokenizer library fails in its own ways
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"the tokenizer in {files.path} cannot be loaded: {first}") from error
    settings = json_object(files.path / "generation_config.json") or json_object(files.path / "config.json")
    return Tokenizer(files.name, library, _ids(settings.get("eos_token_id"), library.eos_token_id))


def _ids(*values: object) -> frozenset[int]:
    """All ids in values that are an id, a list of ids, or missing."""
    flat = [item for value in values for item in (value if isinstance(value, list) else [value])]
    return frozenset(item for item in flat if isinstance(item, int))
