"""Which format a path is in. Only names are looked at, and the first bytes of none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from surefoot.core.errors import ConfigError
from surefoot.engine import hub, models
from surefoot.engine.embedded import Progress
from surefoot.engine.inspect import (
    checkpoint,
    coreai_bundle,
    coreml_package,
    gguf_file,
    onnx_file,
    openvino_ir,
)
from surefoot.engine.inspect.findings import FORMATS, Facts, Format
from surefoot.engine.safetensors_header import INDEX
from surefoot.targets.openvino.names import MODEL_FILE

_ENDINGS: Mapping[str, Format] = {
    ".gguf": "gguf",
    ".onnx": "onnx",
    ".mlpackage": "coreml",
    ".mlmodel": "coreml",
    ".mlmodelc": "coreml",
    ".aimodel": "coreai",
    ".aimodelc": "coreai",
    ".aimodelx": "coreai",
}


def read(name: str, cache_dir: Path, wanted: Format | None = None, progress: Progress | None = None) -> Facts:
    """What the files of the model called `name` say; `wanted` chooses among the formats of a folder.

    Raises: ConfigError when there is no such model, DamagedModel when its files are damaged; in one sentence.
    """
    path = Path(name).expanduser()
    if not name.strip() or not _is_local(path, name):
        return _resolved(name, cache_dir, wanted, progress)
    try:
        return _local(name, path, wanted)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error


def _is_local(path: Path, name: str) -> bool:
    try:
        return path.exists() and name != "smollm2-135m"
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"{name!r} is no path: {error}") from error


def _resolved(name: str, cache_dir: Path, wanted: Format | None, progress: Progress | None) -> Facts:
    """A model by its name: fetched where it is not here, of a folder of safetensors on the Hub the settings only."""
    place = models.on_hub(name)
    if place is not None and place[2] is None and wanted in (None, "safetensors", "mlx"):
        there = _sizes(place[0], place[1])
        weights = {file: n for file, n in there.items() if file.startswith("model") and file.endswith(".safetensors")}
        if weights:
            folder = hub.fetch_settings(place[0], place[1])
            here = all((folder / file).exists() for file in weights)
            return checkpoint.read(folder) if here else checkpoint.read_settings(folder, weights)
    known = [format_ for format_ in models.FORMATS if wanted in (None, format_)]
    if not known:
        raise ConfigError(f"--format {wanted} is looked for in files on this machine: give a path")
    files = models.resolve(name, cache_dir, formats=known, progress=progress)
    return _gguf(files.path) if files.format == "gguf" else _local(name, files.path, files.format)


def _sizes(repo: str, revision: str | None) -> Mapping[str, int]:
    """The files of a Hub model, so that its weights need not be fetched; nothing where the Hub cannot be asked.

    Then the model may still have been fetched before, and where it was not, that says why not.
    """
    try:
        return hub.sizes(repo, revision)
    except ConfigError:
        return {}


def _local(name: str, path: Path, wanted: Format | None) -> Facts:
    found = formats_of(path)
    if not found:
        raise ConfigError(_nothing(name, path))
    chosen = wanted or found[0]
    # MLX keeps its weights as safetensors, so which of the two it is shows inside.
    if chosen not in found and not (chosen == "mlx" and "safetensors" in found):
        raise ConfigError(f"{path} is not in the format {chosen}: it is {', '.join(found)}")
    facts = _READERS[chosen](path)
    return replace(facts, others=tuple(each for each in found if each != chosen))


def formats_of(path: Path) -> tuple[Format, ...]:
    """Every format that a file is, or a folder holds, in the order of FORMATS."""
    ending = path.suffix.lower()
    if ending in _ENDINGS:
        return (_ENDINGS[ending],)
    if not path.is_dir():
        return ()
    found: list[Format] = []
    if (path / "model.safetensors").exists() or (path / INDEX).exists() or any(path.glob("model-*.safetensors")):
        found.append("safetensors")
    if any(path.glob("*.gguf")):
        found.append("gguf")
    if (path / MODEL_FILE).exists():
        found.append("openvino")
    if onnx_file.find(path) is not None:
        found.append("onnx")
    if len(list(path.glob("*.mlpackage"))) == 1:
        found.append("coreml")
    if coreai_bundle.find(path):
        found.append("coreai")
    return tuple(sorted(found, key=list(FORMATS).index))


def _gguf(path: Path) -> Facts:
    """A GGUF file with its shards, or the only one in a folder."""
    return gguf_file.read(models.resolve(str(path), path, formats=("gguf",)).weights)


def _onnx(path: Path) -> Facts:
    file = path if path.is_file() else onnx_file.find(path)
    assert file is not None
    return onnx_file.read(file)


def _coreml(path: Path) -> Facts:
    package = path if path.suffix in _ENDINGS else next(path.glob("*.mlpackage"))
    return coreml_package.read(package)


_READERS: Mapping[Format, Callable[[Path], Facts]] = {
    "safetensors": checkpoint.read,
    "mlx": checkpoint.read,
    "gguf": _gguf,
    "openvino": openvino_ir.read,
    "onnx": _onnx,
    "coreml": _coreml,
    "coreai": coreai_bundle.read,
}


def _nothing(name: str, path: Path) -> str:
    """What is there instead of a model."""
    if path.suffix == ".safetensors":
        return f"{path} is one weight file: give the folder that holds it and config.json"
    if path.is_file():
        return f"{path} is in no format that is known here: {', '.join(FORMATS.values())}"
    pickles = [each.name for ending in ("bin", "pt", "pth", "ckpt") for each in path.glob(f"*.{ending}")]
    if pickles:
        return (
            f"{path} holds weights as {pickles[0]} only, a pickle, which is not opened: use a version with safetensors"
        )
    entries = sorted(entry.name for entry in path.iterdir())
    there = f"it holds {', '.join(entries[:4])}{' ...' if len(entries) > 4 else ''}" if entries else "it is empty"
    return f"{path} holds no model that is known here: {there}"
