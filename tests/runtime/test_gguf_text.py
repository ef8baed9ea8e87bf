"""Ends, beginnings and ids of GGUF files: what llama.cpp makes of the same vocabulary, whatever runs the model."""

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
from surefoot.core.errors import DamagedModel, NotEligible
from surefoot.engine.gguf_rules import CONTROL, NORMAL, USER_DEFINED
from surefoot.engine.gguf_splits import SPLITS
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
    for i, kind in enumerate((CONTROL, NORMAL, USER_DEFINED)):
        check_ends(tmp_path / f"{i}.gguf", family, adding([*ENDS, *NO_ENDS], kind))


@pytest.mark.parametrize("text", [*ENDS, *FILES])
def test_a_token_ends_a_text_by_its_name(text: str, tmp_path: Path) -> None:
    for family, kind in itertools.product(("llama", "qwen2"), (CONTROL, NORMAL)):
        path = tmp_path / f"{family}-{kind}.gguf"
        ends = check_ends(path, family, adding([text, *NO_ENDS], kind))
        tokenizer = tokenizer_of(path)
        (token,) = tokenizer.encode(text, add_special=False)
        assert token in ends
        assert tokenizer.decode([token]) == ""


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
    kind = data.draw(st.sampled_from([CONTROL, NORMAL, USER_DEFINED]))
    family = data.draw(st.sampled_from(["llama", "qwen2"]))
    path = tmp_path_factory.mktemp("any") / "tiny.gguf"
    check_ends(path, family, adding(texts, kind, **ids))


def one_of_each() -> st.SearchStrategy[tuple[str | None, ...]]:
    """At most one name of each kind of token between files: which of several ends a text is llama.cpp's chance."""
    return st.tuples(*(st.none() | st.sampled_from(names) for names in (FILES[:5], FILES[5:10], FILES[10:])))


# ---- beginnings


def named(split: str | None, merging: bool = False, **said: bool) -> Callable[[Any], None]:
    """A change of a byte-level vocabulary: another split, or none, and pairs of all sorts of bytes to merge."""

    def change(writer: Any) -> None:
        del writer.kv_data[0]["tokenizer.ggml.pre"], writer.kv_data[0]["tokenizer.ggml.add_bos_token"]
        if split is not None:
            writer.add_tokenizer_pre(split)
        if "add_bos" in said:
            writer.add_add_bos_token(said["add_bos"])
        if merging:
            merge_pairs(writer)

    return change


@pytest.mark.parametrize("said", [None, False, True])
@pytest.mark.parametrize("split", [None, *SPLITS])
def test_a_text_begins_as_llamacpp_begins_it(split: str | None, said: bool | None, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    told = {} if said is None else {"add_bos": said}
    tiny_gguf.write(path, "qwen2", tensors=False, change=named(split, **told))
    ours = tokenizer_of(path).encode("he").tolist()
    with llamacpp_vocab(path) as theirs:
        assert ours == theirs.encode("he")
        assert (ours[0] == theirs.first) is (theirs.first is not None)


def test_a_sentencepiece_vocabulary_begins_a_text_where_the_file_does_not_say(tmp_path: Path) -> None:
    path = tiny_gguf.write(tmp_path / "tiny.gguf", tensors=False, change=adding(drop=["add_bos_token", "bos_token_id"]))
    with llamacpp_vocab(path) as theirs:
        assert tokenizer_of(path).encode("th").tolist() == theirs.encode("th")
        assert theirs.first == 1


def test_gemma_4_begins_every_text_whatever_its_file_says(tmp_path: Path) -> None:
    def change(writer: Any) -> None:
        writer.add_tokenizer_model("gemma4")
        writer.add_token_merges(["t h", "\u2581 th"])

    path = tiny_gguf.write(tmp_path / "tiny.gguf", "gemma3", tensors=False, change=change)
    with llamacpp_vocab(path) as theirs:
        assert tokenizer_of(path).encode("th").tolist() == theirs.encode("th")
        assert theirs.first == 1


def test_a_beginning_that_no_token_is(tmp_path: Path) -> None:
    def change(writer: Any) -> None:
        named("llama-bpe")(writer)
        del writer.kv_data[0]["tokenizer.ggml.bos_token_id"]

    path = tiny_gguf.write(tmp_path / "tiny.gguf", "qwen2", tensors=False, change=change)
    with pytest.raises(DamagedModel, match=r"before every text and does not say which \(tokenizer.ggml.bos_token_id\)"):
        tokenizer_of(path)


# ---- ids

TEXTS = (
    "",
    " ",
    "It's what I'LL do,  won't it? I'm sure they'Re here; we've 12 of 1234567 (and 0.5).\n\n\n",
    "\n\n   Then\t\tgo\r\n\r\n  on ",
    "   2024   a  1\n 1\n\n  22 333 4444 55555\n",
    "def f(x_1):\n    return {'a': [1, 2], \"b\": x**2}  # $5 + 3 <= ^7 | ~8 `c`\n\n",
    "na\u00efve \u00c9T\u00c9 \u00c4\u00d6\u00fc Stra\u00dfe \u00f1",
    "\u4f60\u597d\u3001\u4e16\u754c 1\uff12\u0663 \u3053\u3093 \uac00\ub098",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 e\u0301a\u0300 \u0928\u092e\u0938\u094d\u0924\u0947",
    "\u00bd \u2160\u2161 \u20ac5 \u2026\u3002\uff0c",
    "a\u00a0b\u2003 c\u3000\u3000d \u2028e \u0085f\u200b",
    "CamelCaseHTTPServer snake_case ALLCAPS'S mixedCASE/path/to//x \\n \"q\"'s",
    "http://a.b/c?d=e&f=%20#g !!! ... --- ??? \u00ab\u00bb \u201cx\u201d",
    "<|start|>he<|end|> the<|start|>\nhe  <|end|>",
)  # fmt: skip


def merge_pairs(writer: Any) -> None:
    """Merges of any two bytes that stand beside each other in the texts, so that every cut between them shows."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    alphabet: Any = bytes_to_unicode
    letters = alphabet()
    spelled = ["".join(letters[byte] for byte in text.encode()) for text in TEXTS]
    pairs = list(dict.fromkeys(a + b for text in spelled for a, b in itertools.pairwise(text)))
    tokens, kinds, merges = field(writer, "tokens"), field(writer, "token_type"), field(writer, "merges")
    merges[:] = [f"{pair[0]} {pair[1]}" for pair in pairs]
    known = set(tokens)
    new = [pair for pair in pairs if pair not in known]
    tokens += new
    kinds += [NORMAL] * len(new)


@pytest.mark.parametrize("split", [None, *SPLITS])
def test_a_split_gives_the_ids_of_llamacpp(split: str | None, tmp_path: Path) -> None:
    path = tiny_gguf.write(tmp_path / "tiny.gguf", "qwen2", tensors=False, change=named(split, merging=True))
    ours = tokenizer_of(path)
    with llamacpp_vocab(path) as theirs:
        for text in TEXTS:
            ids = ours.encode(text).tolist()
            assert ids == theirs.encode(text), text
            assert ours.decode(ids, skip_special=False).endswith(text)


@settings(max_examples=300)
@given(data=st.data())
def test_any_text_has_the_ids_of_llamacpp(data: st.DataObject, pairs: dict[str, tuple[Tokenizer, Any]]) -> None:
    ours, theirs = pairs[data.draw(st.sampled_from(sorted(pairs)))]
    parts = sorted({*itertools.chain.from_iterable(TEXTS), "'s", "  ", "\r\n", "12", "the"})
    text = "".join(data.draw(st.lists(st.sampled_from(parts), max_size=30)))
    assert ours.encode(text).tolist() == theirs.encode(text), text


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """By split: our tokenizer, and the vocabulary of llama.cpp."""
    import contextlib

    folder = tmp_path_factory.mktemp("pairs")
    with contextlib.ExitStack() as stack:
        found = {}
        for split in SPLITS:
            path = folder / f"{split}.gguf"
            tiny_gguf.write(path, "qwen2", tensors=False, change=named(split, merging=True))
            found[split] = (tokenizer_of(path), stack.enter_context(llamacpp_vocab(path)))
        yield found


@pytest.mark.parametrize("prefix", [None, False])
@pytest.mark.parametrize("family", ["llama", "mistral", "phi3"])
def test_a_sentencepiece_vocabulary_puts_spaces_where_llamacpp_does(
    family: str, prefix: bool | None, tmp_path: Path
) -> None:
    def change(writer: Any) -> None:
        if prefix is not None:
            writer.add_add_space_prefix(prefix)

    path = tiny_gguf.write(tmp_path / "tiny.gguf", family, tensors=False, change=change)
    ours = tokenizer_of(path)
    with llamacpp_vocab(path) as theirs:
        for text in (*TEXTS, " th", "  th", "th ", "a</s> th<s>\nth<unk>b"):
            ids = ours.encode(text).tolist()
            assert ids == theirs.encode(text), text
            if "<" not in text:
                assert ours.decode(ids) == text


def test_a_piece_that_is_a_token_needs_no_merges_where_llamacpp_wants_none(tmp_path: Path) -> None:
    def change(writer: Any) -> None:
        named("llama-bpe")(writer)
        adding(["\u0120whole"], NORMAL)(writer)

    path = tiny_gguf.write(tmp_path / "tiny.gguf", "qwen2", tensors=False, change=change)
    with llamacpp_vocab(path) as theirs:
        ids = tokenizer_of(path).encode("a whole").tolist()
        assert ids == theirs.encode("a whole")
        assert len(ids) == 3


def test_a_special_token_need_not_be_spelled_in_bytes(tmp_path: Path) -> None:
    """As those of DeepSeek, whose bars and underlines are none of the alphabet that stands for bytes."""
    names = ["<\uff5cUser\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>"]
    path = tiny_gguf.write(tmp_path / "tiny.gguf", "qwen2", tensors=False, change=adding(names))
    tokenizer = tokenizer_of(path)
    text = f"{names[0]}he{names[1]}"
    with llamacpp_vocab(path) as theirs:
        ids = tokenizer.encode(text).tolist()
        assert ids == theirs.encode(text)
    assert len(ids) == 3
    assert tokenizer.decode(ids) == "he"
    assert tokenizer.token_text(ids[0]) == names[0]


@pytest.mark.parametrize("split", ["no-such-rule", "kimi-k2"])
def test_a_split_that_is_not_known_is_refused(split: str, tmp_path: Path) -> None:
    path = tiny_gguf.write(tmp_path / "tiny.gguf", "qwen2", tensors=False, change=named(split))
    with pytest.raises(NotEligible, match=rf"by the rule '{split}' \(tokenizer.ggml.pre\), which is not known here"):
        tokenizer_of(path)
