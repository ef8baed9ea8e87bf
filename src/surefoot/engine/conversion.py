"""Models turned into what OpenVINO reads, once, and kept in the cache folder."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from surefoot.core.errors import ConfigError, NotEligible
from surefoot.engine.gguf_header import read_header
from surefoot.engine.models import ModelFiles, identity
from surefoot.engine.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from surefoot.targets.openvino.export import ExportReport

_SMALL = 4 * 10**9
"""chosen: weights of up to 4 GB in fp16 fit beside everything else on a machine of 8 GB; larger ones become int8."""

WeightFormat = Literal["fp16", "int8", "int4"]
WEIGHTS: tuple[WeightFormat, ...] = ("fp16", "int8", "int4")

CacheKind = Literal["state", "caller"]
CACHES: tuple[CacheKind, ...] = ("state", "caller")

Progress = Callable[[int, int], None]


def openvino_folder(
    files: ModelFiles, cache_dir: Path, weights: str, progress: Progress | None = None, cache: str = "auto"
) -> Path:
    """The OpenVINO folder made from a GGUF file or a folder of safetensors; made now when the cache folder has none.

    `weights` is fp16, int8 or int4, or "auto": fp16 where that stays small, else int8. `cache`, where keys and values
    are kept, is state or caller, or "auto": state.
    Raises: ConfigError for a format that does not exist or a disk that is full; NotEligible for a family that cannot
    be exported.
    """
    from surefoot.targets.openvino.export import SCHEMA

    chosen = choose_weights(files, weights)
    kind = choose_cache(cache)
    made = chosen if kind == "state" else f"{chosen}-{kind}"
    out = cache_dir / "openvino" / f"{files.path.stem}-{made}-{SCHEMA}-{identity(files)}"
    try:
        if not out.is_dir():
            export_openvino(files, out, chosen, progress, kind)
    except ConfigError:
        # Another process may have put the same model there meanwhile.
        if not out.is_dir():
            raise
    return out


def export_openvino(
    files: ModelFiles, out: Path, weights: str, progress: Progress | None = None, cache: str = "auto"
) -> ExportReport:
    """The report of writing the model and its tokenizer as an OpenVINO folder at `out`, whole or not at all."""
    try:
        from surefoot.targets.openvino.export import export
        from surefoot.targets.openvino.gguf_source import check_fields
    except ImportError as error:
        raise NotEligible(f"{error.name or error} is needed to export: pip install 'surefoot[openvino]'.") from error
    if files.format == "gguf":
        # Before the tokenizer and the gguf package read the file, which takes both of them seconds where the vocabulary
        # is large: on the way to a runtime that can run it, nobody should wait for that.
        headers = [read_header(path) for path in files.weights]
        check_fields(headers[0].metadata, {tensor.name for header in headers for tensor in header.tensors}, files.path)
    chosen, kind = choose_weights(files, weights), choose_cache(cache)
    return export(files.path, out, chosen, cache=kind, extra_files=_tokenizer_files(files), progress=progress)


def choose_weights(files: ModelFiles, weights: str) -> WeightFormat:
    """The format to export in: `weights` itself, or what auto stands for. Raises: ConfigError for an unknown one."""
    if weights == "auto":
        return "fp16" if _fp16_bytes(files) <= _SMALL else "int8"
    for known in WEIGHTS:
        if weights == known:
            return known
    raise ConfigError(f"weights must be auto, {', '.join(WEIGHTS)}; got {weights}.")


def choose_cache(cache: str) -> CacheKind:
    """The kind of cache to export: `cache` itself, or what auto stands for. Raises: ConfigError for an unknown one."""
    if cache == "auto":
        return "state"
    for known in CACHES:
        if cache == known:
            return known
    raise ConfigError(f"cache must be auto, {' or '.join(CACHES)}; got {cache}.")


def _fp16_bytes(files: ModelFiles) -> int:
    """Bytes that the weights take in fp16, at the most: the file's bits per weight are at least 4 in a GGUF, 8 else."""
    held = sum(path.stat().st_size for path in files.weights)
    return held * (4 if files.format == "gguf" else 1)


def _tokenizer_files(files: ModelFiles) -> Mapping[str, bytes]:
    """The tokenizer, chat template and ends of text as files that transformers, Optimum and OpenVINO GenAI read."""
    if files.format != "gguf":
        return {}
    tokenizer = load_tokenizer(files)
    with tempfile.TemporaryDirectory(prefix="surefoot-") as folder:
        tokenizer.library.save_pretrained(folder)
        saved = {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}
    ids = {"bos_token_id": tokenizer.library.bos_token_id, "pad_token_id": tokenizer.library.pad_token_id}
    generation = {name: i for name, i in ids.items() if i is not None} | {"eos_token_id": sorted(tokenizer.eos_ids)}
    return {**saved, "generation_config.json": json.dumps(generation, indent=2).encode()}
