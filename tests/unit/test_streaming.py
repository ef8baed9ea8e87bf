"""Text as it comes: equal to decoding everything at once, whatever the tokens and however they arrive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import tiny_tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.core.errors import ConfigError, LawError
from surefoot.engine.streaming import TextStream
from surefoot.engine.tokenizer import Tokenizer

KINDS = list(tiny_tokenizers.BUILDERS)
STOPS = (
    "stop",
    " stop",
    "top a",
    "a",
    "ab",
    "abc",
    "bca",
    "\u4f60",
    "\u4f60a",
    "a\u4f60",
    "\U0001f642",
    "\n",
    " ",
    ".",
)
# Byte tokens that make whole, half and impossible characters, in both byte vocabularies.
MIXED = [b"\xe4", b"\xbd", b"\xa0", b"\xf0", b"\x9f", b"\x99", b"\x82", b"\xff", b"\xef", b"\xbf", b"a", b" ", b"\n"]


@cache
def tokenizer(kind: str) -> Tokenizer:
    return tiny_tokenizers.build(kind)


@cache
def ids_of(kind: str) -> st.SearchStrategy[list[int]]:
    """Any ids, with those that meet at the borders of characters and words more often; one past the vocabulary too."""
    tok = tokenizer(kind)
    spelled = {tok.token_bytes(i): i for i in reversed(range(tok.vocab_size))}
    often = [spelled[data] for data in MIXED if data in spelled]
    late = range(max(0, tok.vocab_size - 24), tok.vocab_size + 1)
    return st.lists(st.sampled_from([*often, *late]) | st.integers(0, tok.vocab_size), max_size=24)


def one_by_one(tok: Tokenizer, ids: Sequence[int], stops: Sequence[str]) -> tuple[int | None, str]:
    """The law: after each token the whole text is decoded and searched. Right for stops without U+FFFD."""
    for n in range(1, len(ids) + 1):
        text = tok.decode(ids[:n])
        starts = [text.find(stop) for stop in stops if stop in text]
        if starts:
            return n, text[: min(starts)]
    return None, tok.decode(ids)


def streamed(
    tok: Tokenizer, ids: Sequence[int], stops: Sequence[str], blocks: Sequence[int]
) -> tuple[int | None, list[str]]:
    """Ids kept up to the stop string, and the pieces of text, when the ids come in blocks of these sizes."""
    stream, pieces, at = TextStream(tok, stops), [], 0
    sizes = [*blocks, *([1] * len(ids))]
    for size in sizes:
        kept = stream.scan(ids[at : at + size])
        pieces.append(stream.take())
        if kept is not None:
            return at + kept, [*pieces, stream.finish()]
        at += size
        if at >= len(ids):
            break
    return None, [*pieces, stream.finish()]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=400)
@given(data=st.data())
def test_streaming_equals_decoding_all_at_once(kind: str, data: st.DataObject) -> None:
    tok = tokenizer(kind)
    ids = data.draw(ids_of(kind))
    stops = data.draw(st.lists(st.sampled_from(STOPS), max_size=3, unique=True))
    blocks = data.draw(st.lists(st.integers(1, 7), max_size=24))
    kept, text = one_by_one(tok, ids, stops)
    streamed_kept, pieces = streamed(tok, ids, stops, blocks)
    assert (streamed_kept, "".join(pieces)) == (kept, text)


@pytest.mark.parametrize("kind", KINDS)
def test_spelling_is_recognised(kind: str) -> None:
    assert tokenizer(kind).spelling == tiny_tokenizers.SPELLINGS[kind]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=100)
@given(data=st.data())
def test_only_what_may_become_a_stop_string_is_held(kind: str, data: st.DataObject) -> None:
    tok, stops = tokenizer(kind), ("ab.", "stop a", "..b")
    whole_characters = [i for i in range(tok.vocab_size) if tok.token_bytes(i).isascii() and not tok.is_byte(i)]
    ids = data.draw(st.lists(st.sampled_from(whole_characters), min_size=1, max_size=12))
    stream, shown = TextStream(tok, stops), ""
    for n, token_id in enumerate(ids, 1):
        if stream.scan([token_id]) is not None:
            return
        shown += stream.take()
        text = tok.decode(ids[:n])
        held = [text[-k:] for stop in stops for k in range(1, len(stop)) if text.endswith(stop[:k])]
        assert shown == text[: len(text) - max(map(len, held), default=0)]


def bytes_ids(kind: str, *parts: bytes) -> list[int]:
    tok = tokenizer(kind)
    return [next(i for i in reversed(range(tok.vocab_size)) if tok.token_bytes(i) == part) for part in parts]


def test_half_a_character_is_never_shown() -> None:
    tok = tokenizer("byte_level")
    stream = TextStream(tok)
    shown = []
    for part in (b"a\xe4", b"\xbd", b"\xa0", b"\xf0\x9f", b"\x99\x82!"):
        stream.scan(bytes_ids("byte_level", part))
        shown.append(stream.take())
    assert shown == ["a", "", "\u4f60", "", "\U0001f642!"]


def test_a_character_that_never_came_is_shown_at_the_end_as_decoding_shows_it() -> None:
    stream = TextStream(tokenizer("byte_level"))
    stream.scan(bytes_ids("byte_level", b"a\xe4", b"\xbd"))
    assert (stream.take(), stream.finish()) == ("a", "\ufffd")


def test_a_run_of_byte_tokens_waits_for_its_end_because_one_bad_byte_changes_all_of_it() -> None:
    tok = tokenizer("sentencepiece")
    good = bytes_ids("sentencepiece", b"\xe4", b"\xbd", b"\xa0")
    bad = bytes_ids("sentencepiece", b"\xff")
    word = [tok.vocab_size - 4]
    stream = TextStream(tok)
    stream.scan(good)
    assert stream.take() == ""
    stream.scan(word)
    assert stream.take() == tok.decode(good + word)
    stream = TextStream(tok)
    stream.scan(good + bad)
    assert stream.take() + stream.finish() == "\ufffd" * 4


def test_a_stop_string_of_byte_tokens_is_seen_with_its_last_byte() -> None:
    ids = bytes_ids("sentencepiece", b"a", b"\xe4", b"\xbd", b"\xa0", b"\xe4")
    stream = TextStream(tokenizer("sentencepiece"), ["\u4f60"])
    assert stream.scan(ids) == 4
    assert stream.take() + stream.finish() == "a"


@pytest.mark.parametrize("kind", ["byte_level", "sentencepiece", "python only"])
def test_an_unfinished_character_is_no_replacement_character_to_stop_at(kind: str) -> None:
    good = bytes_ids("byte_level" if kind == "python only" else kind, b"\xe4", b"\xbd", b"\xa0")
    stream = TextStream(tokenizer(kind), ["\ufffd"])
    assert stream.scan(good) is None
    assert stream.take() + stream.finish() == "\u4f60"


def test_a_run_of_byte_tokens_knows_nothing_of_the_run_before() -> None:
    good = bytes_ids("sentencepiece", b"\xe4", b"\xbd", b"\xa0")
    word = tokenizer("sentencepiece").library.convert_tokens_to_ids("ab")
    stream = TextStream(tokenizer("sentencepiece"), ["b\ufffd"])
    assert stream.scan([good[0], word, *good]) is None
    assert stream.take() + stream.finish() == "\ufffdab\u4f60"


def test_the_earliest_beginning_wins_among_stops_of_one_token() -> None:
    tok = tokenizer("byte_level")
    a, stop = bytes_ids("byte_level", b"a", b" stop")
    for stops in (["top", " st"], [" st", "top"], ["a stop", "top"]):
        stream = TextStream(tok, stops)
        assert stream.scan([a, stop, a]) == 2
        assert stream.take() + stream.finish() == ("" if "a stop" in stops else "a")


def test_text_before_a_stop_in_the_same_token_is_shown() -> None:
    stop = bytes_ids("byte_level", b" stop")
    stream = TextStream(tokenizer("byte_level"), ["op"])
    assert stream.scan(stop) == 1
    assert (stream.take(), stream.finish()) == (" st", "")


def test_what_looked_like_a_stop_is_shown_when_it_is_none() -> None:
    stream = TextStream(tokenizer("byte_level"), ["abc"])
    shown = []
    for part in (b"a", b"a", b"b", b"d"):
        assert stream.scan(bytes_ids("byte_level", part)) is None
        shown.append(stream.take())
    assert shown == ["", "a", "", "abd"]


def test_held_text_is_shown_when_the_end_comes_otherwise() -> None:
    stream = TextStream(tokenizer("byte_level"), ["abc"])
    stream.scan(bytes_ids("byte_level", b"ab"))
    assert (stream.take(), stream.finish(), stream.finish()) == ("", "ab", "")


def test_a_stop_string_that_names_a_special_token_stops_at_that_token() -> None:
    tok = tokenizer("byte_level")
    (eos,) = tok.eos_ids
    half = bytes_ids("byte_level", b"a\xe4")
    stream = TextStream(tok, ["<end>"])
    assert stream.scan([*half, eos, *half]) == 2
    assert stream.take() + stream.finish() == "a\ufffd"


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(ConfigError, match="stop string is empty"):
        TextStream(tokenizer("byte_level"), ["a", ""])


def test_nothing_may_come_after_the_end() -> None:
    stream = TextStream(tokenizer("byte_level"), ["a"])
    assert stream.scan(bytes_ids("byte_level", b"a")) == 1
    with pytest.raises(LawError):
        stream.scan([1])


class Counting:
    """A backend that counts the ids it is asked to decode."""

    def __init__(self, backend: Any) -> None:
        self._backend, self.n_decoded = backend, 0

    def decode(self, ids: Sequence[int], skip_special_tokens: bool) -> str:
        self.n_decoded += len(ids)
        return str(self._backend.decode(ids, skip_special_tokens=skip_special_tokens))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


class CountingLibrary:
    def __init__(self, library: Any) -> None:
        self._library, self.backend_tokenizer = library, Counting(library.backend_tokenizer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def __len__(self) -> int:
        return len(self._library)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "python only"])
@pytest.mark.parametrize("pattern", ["words", "blanks", "bytes"])
def test_work_per_token_does_not_grow_with_the_text(kind: str, pattern: str) -> None:
    tok = tokenizer(kind)
    if pattern == "bytes" and tok.spelling == "text":
        pytest.skip(f"{kind} has no byte tokens")
    wanted = {"words": (b"a", b" a", b"b", b"."), "blanks": (b" ",), "bytes": (b"\xe4", b"\xbd", b"\xa0", b"\xff")}
    cycle = [i for i in range(tok.vocab_size) if tok.token_bytes(i) in wanted[pattern]]
    if not cycle:
        pytest.skip(f"{kind} has no blank token")
    library = CountingLibrary(tok.library)
    stream = TextStream(replace(tok, library=library))
    for i in range(3000):
        stream.scan([cycle[i % len(cycle)]])
        stream.take()
    stream.finish()
    assert library.backend_tokenizer.n_decoded <= 60 * 3000
