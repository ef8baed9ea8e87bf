"""The tokenizer in a GGUF file, without torch, which transformers needs to read it there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surefoot.core.errors import ConfigError, DamagedModel, NotEligible
from surefoot.engine.gguf_header import read_header
from surefoot.engine.gguf_rules import end_ids, kinds


def read_gguf_tokenizer(path: Path) -> tuple[Any, frozenset[int]]:
    """A tokenizer of the transformers library, and every id that ends a text.

    Source: transformers 5.24, integrations/gguf/gguf_tokenizer_mapping.py, get_gguf_tokenizer.
    Raises: NotEligible for a kind of tokenizer that is not known; DamagedModel for a vocabulary that means nothing.
    """
    from transformers import TokenizersBackend
    from transformers.integrations.gguf import gguf_tokenizer_mapping as mapping

    header = read_header(path)
    about = {key[10:]: value for key, value in header.metadata.items() if key.startswith("tokenizer.")}
    tokens = about.get("ggml.tokens")
    if not tokens:
        raise ConfigError(f"{path} holds no tokenizer: use a GGUF file that has one")
    kind = about.get("ggml.model")
    if kind not in mapping.GGUF_TOKENIZER_TYPES:
        known = ", ".join(mapping.GGUF_TOKENIZER_TYPES)
        raise NotEligible(f"the tokenizer in {path} is of the kind {kind!r}, and transformers reads {known}")
    try:
        ends = end_ids(about)
        about["ggml.token_type"] = kinds(about, ends)
        parts, settings = (
            {name: about[key] for key, name in mapping.GGUF_TOKENIZER_MAPPING[group].items() if key in about}
            for group in ("tokenizer", "tokenizer_config")
        )
        if kind == "llama":
            settings.setdefault("add_bos_token", True)
        elif kind == "gemma4":
            settings["add_bos_token"] = False
        for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
            token_id = about.get(f"ggml.{key}_token_id")
            settings[f"{name}_token"] = None if token_id is None else tokens[token_id]
        backend, _ = mapping.convert_gguf_tokenizer(header.architecture, parts)
        build: Any = TokenizersBackend
        return build(tokenizer_object=backend, **settings), ends
    except Exception as error:  # damaged or unknown vocabularies fail in the library's own ways
        raise DamagedModel(f"the tokenizer in {path} cannot be loaded: {error}") from error
