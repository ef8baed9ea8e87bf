"""Ends of text in GGUF files: what llama.cpp makes of the same vocabulary, whatever runs the model."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llamacpp_vocab import llamacpp_vocab

import tiny_gguf
from surefoot.engine.gguf_rules import CONTROL, NORMAL
from surefoot.engine.models import ModelFiles
from surefoot.engine.tokenizer import Tokenizer, load_tokenizer

pytest.importorskip("xllamacpp", reason="the llamacpp extra is not installed")

ENDS = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
    "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>",
    "<eos>", "<turn|>", "<|tool_response>", "<\uff5cend\u2581of\u2581sentence\uff5c>", "[e~[", "<|ifm|im_end|>",
)  # fmt: skip
FILES = (
    "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>",
    "<reponame>", "<|file_sep|>", "<|plamo:file_separator|>",
)  # fmt: skip
NO_ENDS = ("<|plamo:eos|>", "<|fim_prefix|>", "<|im_start|>", "<|eos|>", "<|EOT|>", "<|start|>", "<unused>", "<pad>")


def field(writer: Any, name: str) -> Any:
    return writer.kv_data[0][f"tokenizer.ggml.{name}"].value


def adding(
    texts: Iterable[str] = (), kind: int = CONTROL, drop: Sequence[str] = (), **ids: str | int
) -> Callable[[Any], None]:
    """A change of the writer's vocabulary: tokens added, keys left out, ids given by number or by a token's text."""

    def change(writer: Any) -> None:
        tokens, kinds = field(writer, "tokens"), field(writer, "token_type")
        new = [text for text in texts if text not in tokens]
        tokens += new
        kinds += [kind] * len(new)
        if "tokenizer.ggml.scores" in writer.kv_data[0]:
            field(writer, "scores").extend(-1000.0 - i for i in range(len(new)))
        for name, token in ids.items():
            writer.kv_data[0].pop(f"tokenizer.ggml.{name}_token_id", None)
            writer.add_uint32(
                f"tokenizer.ggml.{name}_token_id", token if isinstance(token, int) else tokens.index(token)
            )
        for name in drop:
            del writer.kv_data[0][f"tokenizer.ggml.{name}"]

    return change


def check_ends(path: Path, family: str, change: Callable[[Any], None]) -> frozenset[int]:
    tiny_gguf.write(path, family, tensors=False, change=change)
    ours = tokenizer_of(path)
    with llamacpp_vocab(path) as theirs:
        assert ours.eos_ids == theirs.ends
    return ours.eos_ids


def tokenizer_of(path: Path) -> Tokenizer:
    return load_tokenizer(ModelFiles("tiny", path, "gguf", (path,)))


# ---- ends of text


@pytest.mark.parametrize("family", tiny_gguf.FAMILIES)
def test_every_family_ends_where_llamacpp_does(family: str, tmp_path: Path) -> None:
    for i, kind in enumerate((CONTROL, NORMAL, 4)):
        check_ends(tmp_path / f"{i}.gguf", family, adding([*ENDS, *NO_ENDS], kind))


@pytest.mark.parametrize("text", [*ENDS, *FILES])
def test_a_token_ends_a_text_by_its_name(text: str, tmp_path: Path) -> None:
    for family, kind in itertools.product(("llama", "qwen2"), (CONTROL, NORMAL)):
        path = tmp_path / f"{family}-{kind}.gguf"
        check_ends(path, family, adding([text, *NO_ENDS], kind))


@pytest.mark.parametrize(
    ("texts", "spared"),
    [
        (["<|end|>", "<|return|>", "<|call|>"], "<|end|>"),
        (["<|end|>", "<|flush|>", "<|calls|>"], "<|end|>"),
        (["<|end|>", "<|return|>", "<|flush|>"], None),
        (["</s>", "<|tool_response>"], "</s>"),
        (["</s>", "<|plamo:eos|>"], None),
    ],
)
def test_names_that_end_no_text_beside_others(texts: list[str], spared: str | None, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    check_ends(path, "qwen2", adding(texts, eos=texts[-1]))
    tokenizer = tokenizer_of(path)
    named = {text: int(tokenizer.encode(text, add_special=False)[0]) for text in texts}
    assert (spared is None) or (named[spared] not in tokenizer.eos_ids)


def test_a_tag_of_html_ends_no_text_where_the_eos_is_that_of_plamo(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    ends = check_ends(path, "qwen2", adding(["</s>", "<|plamo:eos|>"], NORMAL, eos="<|plamo:eos|>"))
    assert len(ends) == 3  # with the two names of the family itself


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_ids_that_the_file_does_not_name_or_that_are_none(family: str, tmp_path: Path) -> None:
    check_ends(tmp_path / "a.gguf", family, adding(drop=["eos_token_id"]))
    check_ends(tmp_path / "b.gguf", family, adding(["<|im_end|>"], eot=60_000, eom=70_000, fim_pad=80_000))
    check_ends(tmp_path / "c.gguf", family, adding(["<x>", "<y>", "<z>", "<PAD>"], eot="<x>", eom="<y>", fim_pad="<z>"))


@settings(max_examples=150)
@given(data=st.data())
def test_any_vocabulary_ends_where_llamacpp_does(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    texts = data.draw(st.lists(st.sampled_from([*ENDS, *NO_ENDS]), unique=True, max_size=12))
    texts += [group for group in data.draw(one_of_each()) if group]
    ids = {
        name: data.draw(st.sampled_from(texts) | st.integers(0, 250))
        for name in data.draw(st.sets(st.sampled_from(["eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep"])))
        if texts
    }
    kind = data.draw(st.sampled_from([CONTROL, NORMAL, 4]))
    family = data.draw(st.sampled_from(["llama", "qwen2"]))
    path = tmp_path_factory.mktemp("any") / "tiny.gguf"
    check_ends(path, family, adding(texts, kind, **ids))


def one_of_each() -> st.SearchStrategy[tuple[str | None, ...]]:
    """At most one name of each kind of token between files: which of several ends a text is llama.cpp's chance."""
    return st.tuples(*(st.none() | st.sampled_from(names) for names in (FILES[:5], FILES[5:10], FILES[10:])))
