"""The tokenizer in a GGUF file, without torch, which transformers needs to read it there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from surefoot.core.errors import ConfigError, DamagedModel, NotEligible
from surefoot.engine.gguf_header import read_header
from surefoot.engine.gguf_rules import CONTROL, USER_DEFINED, adds_bos, bos_id, end_ids, kinds
from surefoot.engine.gguf_splits import SPLITS, Split


def read_gguf_tokenizer(path: Path) -> tuple[Any, frozenset[int]]:
    """A tokenizer of the transformers library, and every id that ends a text.

    Source: transformers 5.24, integrations/gguf/gguf_tokenizer_mapping.py, get_gguf_tokenizer.
    Raises: NotEligible for a kind of tokenizer or a split that is not known; DamagedModel for a vocabulary that means
    nothing.
    """
    from transformers import TokenizersBackend
    from transformers.integrations.gguf import gguf_tokenizer_mapping as mapping

    header = read_header(path)
    about = {key[10:]: value for key, value in header.metadata.items() if key.startswith("tokenizer.")}
    if not about.get("ggml.tokens"):
        raise ConfigError(f"{path} holds no tokenizer: use a GGUF file that has one")
    kind = about.get("ggml.model")
    if kind not in mapping.GGUF_TOKENIZER_TYPES:
        known = ", ".join(mapping.GGUF_TOKENIZER_TYPES)
        raise NotEligible(f"the tokenizer in {path} is of the kind {kind!r}, and transformers reads {known}")
    split = _split(path, about) if kind == "gpt2" else None
    try:
        ends = end_ids(about)
        about["ggml.token_type"] = kinds(about, ends)
        if split is not None:
            backend = _byte_level(about, split)
        else:
            names = mapping.GGUF_TOKENIZER_MAPPING["tokenizer"]
            parts = {name: about[key] for key, name in names.items() if key in about}
            backend, _ = mapping.convert_gguf_tokenizer(header.architecture, parts)
        if kind == "llama" and not header.architecture.startswith("gemma"):
            _space_words(backend, bool(about.get("ggml.add_space_prefix", True)))
        build: Any = TokenizersBackend
        return build(tokenizer_object=backend, **_settings(about)), ends
    except Exception as error:  # damaged or unknown vocabularies fail in the library's own ways
        raise DamagedModel(f"the tokenizer in {path} cannot be loaded: {error}") from error


def _settings(about: Mapping[str, Any]) -> dict[str, Any]:
    """What transformers wants to know beside the vocabulary."""
    tokens, names = about["ggml.tokens"], {"bos": bos_id(about)}
    for name, key in (("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        names[name] = about.get(f"ggml.{key}_token_id")
    settings: dict[str, Any] = {f"{name}_token": None if i is None else tokens[i] for name, i in names.items()}
    settings["add_bos_token"] = adds_bos(about)
    if settings["add_bos_token"] and settings["bos_token"] is None:
        raise ValueError("it wants a token before every text and does not say which (tokenizer.ggml.bos_token_id)")
    settings["add_eos_token"] = about.get("ggml.add_eos_token", about["ggml.model"] == "t5")
    return settings | {"chat_template": about.get("chat_template")}


def _split(path: Path, about: Mapping[str, Any]) -> Split:
    """How a byte-level vocabulary cuts texts. Raises: NotEligible where that is not known."""
    name = about.get("ggml.pre") or "default"
    split = SPLITS.get(str(name))
    if split is None:
        raise NotEligible(
            f"the tokenizer in {path} cuts texts by the rule {name!r} (tokenizer.ggml.pre), which is not known here: "
            "its tokens would be wrong. Use the model in safetensors, whose tokenizer lies with it"
        )
    return split


def _space_words(backend: Any, prefix: bool) -> None:
    """Put a space before every text and behind every special token, as llama.cpp does, unless the file has no `prefix`.

    So do the tokenizers that came with Llama 2 and Mistral. transformers, reading a GGUF file, leaves it out where the
    text begins with a space, and behind special tokens.
    """
    from tokenizers import decoders, normalizers

    spaces: list[Any] = [normalizers.Prepend("\u2581")] if prefix else []
    backend.normalizer = normalizers.Sequence([*spaces, normalizers.Replace(" ", "\u2581")])
    backend.pre_tokenizer = None
    if not prefix:  # then no space is taken from the beginning of what was written, either
        steps: list[Any] = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
        backend.decoder = decoders.Sequence(steps)


def _byte_level(about: Mapping[str, Any], split: Split) -> Any:
    """A tokenizer of the tokenizers library whose tokens spell bytes."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    alphabet: Any = bytes_to_unicode
    letters: dict[int, str] = alphabet()
    tokens: Sequence[str] = about["ggml.tokens"]
    kinds_of = about["ggml.token_type"]
    special = [token for token, kind in zip(tokens, kinds_of, strict=True) if kind == CONTROL]
    added = [token for token, kind in zip(tokens, kinds_of, strict=True) if kind == USER_DEFINED]
    named, known = {*special, *added}, set(letters.values())
    ids = {
        # Some files hold a text of its own characters where others spell its bytes.
        token if token in named or known.issuperset(token) else "".join(letters[byte] for byte in token.encode()): i
        for i, token in enumerate(tokens)
    }
    if "ggml.merges" not in about:
        raise ValueError("it has no merges (tokenizer.ggml.merges)")
    merges = [tuple(merge.split(" ")) for merge in about["ggml.merges"]]
    backend: Any = Tokenizer(models.BPE(vocab=ids, merges=merges, ignore_merges=split.whole))
    cuts = [pre_tokenizers.Split(Regex(regex), behavior="isolated") for regex in split.regexes]
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    backend.add_tokens([AddedToken(token, normalized=False) for token in added])
    return backend
