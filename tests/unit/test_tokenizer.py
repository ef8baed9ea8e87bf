"""Tokenizers and chat templates out of folders and GGUF files: transformers' own ids, and torch is not needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gguf_files
import pytest
import tiny_tokenizers
from tokenizers import AddedToken
from transformers import AutoTokenizer

from surefoot.core.errors import ConfigError, NotEligible
from surefoot.engine.models import ModelFiles
from surefoot.engine.tokenizer import Tokenizer, load_tokenizer

TEXTS = ["", "a", " a", "ab  bc", "stop.\n", "\u4f60\u597d \U0001f642", "<s>a</s>", "\ufffd", "a\tb"]
ALIKE = [text for text in TEXTS if not text.startswith((" ", "<"))]
"""Texts that transformers reads from a GGUF file as from the model's own tokenizer: no space is left out."""


def in_folder(folder: Path, library: Any, **settings: object) -> ModelFiles:
    folder.mkdir(exist_ok=True)
    library.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    for name, value in settings.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return ModelFiles("tiny", folder, "safetensors", ())


def in_gguf(path: Path, **changes: Any) -> ModelFiles:
    """A llama GGUF with a sentencepiece vocabulary that has two ends of text."""
    tokens = ["<unk>", "<s>", "</s>", "<end>", *(f"<0x{b:02X}>" for b in range(256)), *tiny_tokenizers.WORDS]
    about: dict[str, Any] = {
        "ggml__model": "llama",
        "ggml__tokens": tokens,
        "ggml__scores": [-float(i) for i in range(len(tokens))],
        "ggml__token_type": [2, 3, 3, 3, *[6] * 256, *[1] * len(tiny_tokenizers.WORDS)],
        "ggml__bos_token_id": 1,
        "ggml__eos_token_id": 2,
        "ggml__eot_token_id": 3,
        "chat_template": tiny_tokenizers.TEMPLATE,
        **changes,
    }
    fields = {f"tokenizer__{key}": value for key, value in about.items() if value is not None}
    sizes = {"block_count": 1, "context_length": 64, "embedding_length": 32, "feed_forward_length": 32}
    sizes |= {"attention__head_count": 2, "vocab_size": len(tokens)}
    gguf_files.write(path, **{f"llama__{key}": value for key, value in sizes.items()}, **fields)
    return ModelFiles("tiny", path, "gguf", (path,))


@pytest.fixture
def folder_tokenizer(tmp_path: Path) -> Tokenizer:
    return load_tokenizer(in_folder(tmp_path / "m", tiny_tokenizers.sentencepiece()))


@pytest.mark.parametrize("kind", ["sentencepiece", "metaspace", "wordpiece", "byte_level"])
def test_a_folder_gives_the_ids_and_texts_of_transformers(kind: str, tmp_path: Path) -> None:
    files = in_folder(tmp_path / "m", tiny_tokenizers.BUILDERS[kind]())
    tokenizer, library = load_tokenizer(files), AutoTokenizer.from_pretrained(files.path)
    assert tokenizer.vocab_size == len(library)
    for text in TEXTS:
        for special in (True, False):
            ids = tokenizer.encode(text, add_special=special)
            assert ids.dtype == "int32"
            assert ids.tolist() == library.encode(text, add_special_tokens=special)
            for skip in (True, False):
                assert tokenizer.decode(ids, skip_special=skip) == library.decode(
                    ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False
                )


@pytest.mark.parametrize("add_bos", [None, False, True])
def test_a_gguf_file_gives_the_ids_and_texts_of_transformers(add_bos: bool | None, tmp_path: Path) -> None:
    files = in_gguf(tmp_path / "m.gguf", ggml__add_bos_token=add_bos)
    tokenizer, library = load_tokenizer(files), AutoTokenizer.from_pretrained(tmp_path, gguf_file="m.gguf")
    assert tokenizer.vocab_size == len(library)
    assert tokenizer.special_ids == {i for i, token in library.added_tokens_decoder.items() if token.special}
    assert 3 in tokenizer.special_ids
    assert tokenizer.encode("a<end>b").tolist().count(3) == 1
    for text in ALIKE:
        ids = tokenizer.encode(text)
        assert ids.tolist() == library.encode(text)
        assert tokenizer.decode(ids) == library.decode(ids, skip_special_tokens=True)
    assert (1 in tokenizer.encode("a")) is (add_bos is not False)
    messages = [{"role": "user", "content": "ab"}]
    rendered = library.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    assert tokenizer.render(messages).tolist() == rendered


def test_the_spellings(folder_tokenizer: Tokenizer, tmp_path: Path) -> None:
    assert folder_tokenizer.spelling == "byte_fallback"
    assert load_tokenizer(in_gguf(tmp_path / "m.gguf")).spelling == "byte_fallback"


# ---- ends of text


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {2}),
        ({"generation_config": {"eos_token_id": [5, 7]}}, {2, 5, 7}),
        ({"generation_config": {"eos_token_id": 5}}, {2, 5}),
        ({"config": {"eos_token_id": 9}}, {2, 9}),
        ({"config": {"eos_token_id": 9}, "generation_config": {"eos_token_id": 5}}, {2, 5}),
        ({"generation_config": {"eos_token_id": None}}, {2}),
    ],
)
def test_every_end_of_text_that_a_folder_names(settings: Any, expected: set[int], tmp_path: Path) -> None:
    files = in_folder(tmp_path / "m", tiny_tokenizers.sentencepiece(), **settings)
    assert load_tokenizer(files).eos_ids == expected


def test_every_end_of_text_that_a_gguf_file_names(tmp_path: Path) -> None:
    assert load_tokenizer(in_gguf(tmp_path / "m.gguf")).eos_ids == {2, 3}
    assert load_tokenizer(in_gguf(tmp_path / "n.gguf", ggml__eot_token_id=None, ggml__eom_token_id=5)).eos_ids == {2, 5}


# ---- chat templates


def test_messages_are_rendered_as_transformers_renders_them(folder_tokenizer: Tokenizer) -> None:
    messages = [{"role": "user", "content": "ab"}, {"role": "assistant", "content": "c"}]
    for prompt in (True, False):
        ids = folder_tokenizer.render(messages, add_generation_prompt=prompt)
        expected = folder_tokenizer.library.apply_chat_template(messages, add_generation_prompt=prompt)["input_ids"]
        assert ids.tolist() == expected


def test_tools_reach_the_template(tmp_path: Path) -> None:
    library = tiny_tokenizers.sentencepiece()
    library.chat_template = "{% for tool in tools or [] %}{{ tool.name }}{% endfor %}"
    tokenizer = load_tokenizer(in_folder(tmp_path / "m", library))
    messages = [{"role": "user", "content": "a"}]
    assert tokenizer.decode(tokenizer.render(messages, [{"name": "stop"}])).strip() == "stop"
    assert tokenizer.decode(tokenizer.render(messages, [])).strip() == ""


def test_tools_that_the_template_would_drop_are_refused(tmp_path: Path) -> None:
    library = tiny_tokenizers.sentencepiece()
    library.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    tokenizer = load_tokenizer(in_folder(tmp_path / "m", library))
    with pytest.raises(ConfigError, match="no place for tools"):
        tokenizer.render([{"role": "user", "content": "a"}], [{"name": "stop"}])


def test_a_model_without_a_template_points_to_raw(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(in_folder(tmp_path / "m", tiny_tokenizers.byte_level()))
    assert not tokenizer.has_template
    with pytest.raises(ConfigError, match="has no chat template: use --raw"):
        tokenizer.render([{"role": "user", "content": "a"}])


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[7].content }}", "no element 7"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{% for %}", "Expected"),
        ("{{ messages.append(1) }}", ""),
    ],
)
def test_a_template_that_refuses_is_quoted(template: str, said: str, tmp_path: Path) -> None:
    library = tiny_tokenizers.sentencepiece()
    library.chat_template = template
    tokenizer = load_tokenizer(in_folder(tmp_path / "m", library))
    with pytest.raises(ConfigError, match="refuses these messages") as caught:
        tokenizer.render([{"role": "user", "content": "a"}])
    assert said in str(caught.value)


# ---- single tokens


def test_the_bytes_of_single_tokens(folder_tokenizer: Tokenizer) -> None:
    convert = folder_tokenizer.library.convert_tokens_to_ids
    assert folder_tokenizer.token_bytes(convert("<0xE4>")) == b"\xe4"
    assert folder_tokenizer.token_text(convert("<0xE4>")) == "\ufffd"
    assert folder_tokenizer.token_bytes(convert("\u2581stop")) == b" stop"
    assert folder_tokenizer.token_text(convert("</s>")) == "</s>"
    assert folder_tokenizer.token_bytes(folder_tokenizer.vocab_size + 5) == b""
    byte_level = tiny_tokenizers.build("byte_level")
    joined = b"".join(byte_level.token_bytes(i) for i in byte_level.encode("a \u4f60\U0001f642!"))
    assert joined == "a \u4f60\U0001f642!".encode()


def test_an_added_token_is_text_where_its_characters_are_no_bytes() -> None:
    """U+00A0 is a byte in Latin-1, and no letter of the byte-level alphabet."""
    tokenizer = tiny_tokenizers.build("byte_level")
    tokenizer.library.add_tokens([AddedToken("a\u00a0b", special=False, normalized=False)])
    assert tokenizer.token_bytes(tokenizer.library.convert_tokens_to_ids("a\u00a0b")) == "a\u00a0b".encode()


def test_a_prompt_that_is_not_text(folder_tokenizer: Tokenizer) -> None:
    with pytest.raises(ConfigError, match="bytes that are not text"):
        folder_tokenizer.encode("a\udcff")


# ---- what is broken


@pytest.mark.parametrize("damage", ["{", "[]", '{"model": {"type": "BPE"}}', None])
def test_a_damaged_tokenizer_in_a_folder(damage: str | None, tmp_path: Path) -> None:
    files = in_folder(tmp_path / "m", tiny_tokenizers.sentencepiece())
    (files.path / "tokenizer.json").unlink()
    if damage is not None:
        (files.path / "tokenizer.json").write_text(damage)
    with pytest.raises(ConfigError, match="cannot be loaded") as caught:
        load_tokenizer(files)
    assert "\n" not in str(caught.value)


def test_a_tokenizer_that_wants_its_own_code_is_not_run(tmp_path: Path) -> None:
    files = in_folder(tmp_path / "m", tiny_tokenizers.sentencepiece())
    (files.path / "tokenizer.json").unlink()
    config = {"auto_map": {"AutoTokenizer": ["own.Own", None]}, "tokenizer_class": "Own"}
    (files.path / "tokenizer_config.json").write_text(json.dumps(config))
    (files.path / "own.py").write_text("raise SystemExit('code of a model was run')")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        load_tokenizer(files)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ggml__tokens": None}, "holds no tokenizer"),
        ({"ggml__eos_token_id": 99_999}, "cannot be loaded"),
        ({"ggml__scores": None}, "cannot be loaded"),
    ],
)
def test_a_damaged_tokenizer_in_a_gguf_file(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        load_tokenizer(in_gguf(tmp_path / "m.gguf", **changes))


def test_a_kind_of_tokenizer_in_a_gguf_file_that_nobody_here_reads(tmp_path: Path) -> None:
    with pytest.raises(NotEligible, match=r"of the kind 'rwkv', and transformers reads .*llama"):
        load_tokenizer(in_gguf(tmp_path / "m.gguf", ggml__model="rwkv"))


WITHOUT_TORCH = """
import importlib.util, sys
from pathlib import Path
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name.split(".")[0] == "torch" else find(name, package)
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, NoTorch())
from surefoot.engine.models import ModelFiles
from surefoot.engine.tokenizer import load_tokenizer
for path, format in zip(sys.argv[1::2], sys.argv[2::2]):
    tokenizer = load_tokenizer(ModelFiles("tiny", Path(path), format, ()))
    print(*tokenizer.encode("ab  stop"), *tokenizer.render([{"role": "user", "content": "a"}]))
assert "torch" not in sys.modules
"""


def test_torch_is_not_needed(tmp_path: Path) -> None:
    cases = [in_folder(tmp_path / "m", tiny_tokenizers.sentencepiece()), in_gguf(tmp_path / "m.gguf")]
    args = [text for files in cases for text in (str(files.path), files.format)]
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for line, files in zip(done.stdout.splitlines(), cases, strict=True):
        tokenizer = load_tokenizer(files)
        ids = [*tokenizer.encode("ab  stop"), *tokenizer.render([{"role": "user", "content": "a"}])]
        assert [int(word) for word in line.split()] == ids
