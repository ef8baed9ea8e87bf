"""SmolLM2's own tokenizer: ids and ends of text as in llama.cpp, and streams that equal decoding at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.engine.models import ModelFiles
from surefoot.engine.streaming import TextStream
from surefoot.engine.tokenizer import Tokenizer, load_tokenizer

pytestmark = pytest.mark.model

HARD = (
    "naïve  \n\n\t你好、世界 👩\u200d👩\u200d👧\u200d👦 <|im_end|>x<|im_start|> \ufffd 0123456789 "
    "{'a': [1, 2]}\r\n    def f(x):\n        return x"
)
STOPS = ["\n", "the", " you", "好", "👩", "\ufffd好", "def f", "  ", "1, 2"]


@pytest.fixture(scope="module")
def tokenizer(smollm2_gguf: Path) -> Tokenizer:
    return load_tokenizer(ModelFiles("smollm2-135m", smollm2_gguf, "gguf", (smollm2_gguf,)))


def test_its_ids_and_ends_are_those_of_llamacpp(tokenizer: Tokenizer, smollm2_gguf: Path) -> None:
    """Where a run of spaces or lines meets a digit, what transformers reads from the file has other ids."""
    pytest.importorskip("xllamacpp", reason="the llamacpp extra is not installed")
    from llamacpp_vocab import llamacpp_vocab
    from transformers import AutoTokenizer

    library = AutoTokenizer.from_pretrained(smollm2_gguf.parent, gguf_file=smollm2_gguf.name)
    text = HARD + Path(__file__).read_text(encoding="utf-8") + "\n\n1. one\n\n   22\t333"
    messages = [{"role": "user", "content": text}]
    rendered = library.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    with llamacpp_vocab(smollm2_gguf) as theirs:
        assert tokenizer.eos_ids == theirs.ends
        assert tokenizer.encode(text).tolist() == theirs.encode(text)
        assert tokenizer.encode(text).tolist() != library.encode(text)
        assert tokenizer.render(messages).tolist() == theirs.encode(rendered, add_special=False)
    assert tokenizer.library.special_tokens_map == library.special_tokens_map


def test_it_ends_where_it_names_an_end_and_nowhere_else_in_what_was_recorded(tokenizer: Tokenizer) -> None:
    assert {tokenizer.token_text(i) for i in tokenizer.eos_ids} == {"<|im_end|>", "<|endoftext|>", "<reponame>"}
    recorded = json.loads((resources.files("surefoot.lab") / "data" / "texts.json").read_text())["texts"]
    for text in recorded:
        assert tokenizer.eos_ids.isdisjoint(text["ids"][:-1])


def test_the_bytes_of_all_tokens_are_the_text(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(HARD)
    assert b"".join(tokenizer.token_bytes(int(i)) for i in ids) == HARD.encode()


def one_by_one(tokenizer: Tokenizer, ids: Sequence[int], stops: Sequence[str]) -> tuple[int | None, str]:
    """The law: after each token the whole text is decoded and searched, but for an unfinished character."""
    for n in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[:n])
        starts = [text.find(stop) for stop in stops if stop in text]
        if starts:
            return n, text[: min(starts)]
    return None, tokenizer.decode(ids)


@settings(max_examples=400)
@given(data=st.data())
def test_streaming_equals_decoding_all_at_once(tokenizer: Tokenizer, data: st.DataObject) -> None:
    real = tokenizer.encode(HARD).tolist()
    token = st.integers(0, tokenizer.vocab_size + 3) | st.sampled_from(real) | st.integers(0, 400)
    start = data.draw(st.integers(0, len(real)))
    ids = data.draw(st.lists(token, max_size=12)) + real[start : start + 40] + data.draw(st.lists(token, max_size=12))
    stops = data.draw(st.lists(st.sampled_from(STOPS), max_size=3, unique=True))
    stream, at, kept, pieces = TextStream(tokenizer, stops), 0, None, []
    while at < len(ids) and kept is None:
        size = data.draw(st.integers(1, 9))
        kept = stream.scan(ids[at : at + size])
        pieces.append(stream.take())
        at += size if kept is None else kept
    pieces.append(stream.finish())
    n, text = one_by_one(tokenizer, ids, stops)
    assert (None if kept is None else at, "".join(pieces)) == (n, text)
