"""A model file turned into an OpenVINO folder: written beside its place, then moved there in one step."""

from __future__ import annotations

import glob
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from surefoot.core.errors import ConfigError
from surefoot.targets.openvino.claims import count_weights
from surefoot.targets.openvino.gguf_source import GgufSource
from surefoot.targets.openvino.names import MODEL_FILE, RECORD_FILE, CacheKind, is_exported, reason
from surefoot.targets.openvino.safetensors_source import SafetensorsSource
from surefoot.targets.openvino.spec import ModelSpec, Source
from surefoot.targets.openvino.weights import Scratch, WeightFormat, Weights

if TYPE_CHECKING:
    from surefoot.targets.openvino.graph import Cache

SCHEMA = 3
"""Of the record and of the graph: raise it with any change to what is written, so that kept exports are made anew."""

Progress = Callable[[int, int], None]
"""progress(done, total), in weights."""


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export wrote.

    Units: seconds wall clock; bytes. `peak_bytes` is the highest resident size of this process so far, mapped file
    pages included, which the system can take back at any time; None where it keeps no such count.
    """

    path: str
    weights: str
    cache: str
    trees: bool
    parameters: int
    model_bytes: int
    seconds: float
    peak_bytes: int | None


def export(
    model: Path,
    out: Path,
    weights: WeightFormat = "fp16",
    *,
    cache: CacheKind = "state",
    trees: bool = False,
    extra_files: Mapping[str, bytes] | None = None,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> ExportReport:
    """The report of writing `model` (a GGUF file or a transformers folder) as an OpenVINO folder at `out`.

    `cache` says who keeps keys and values: "state", the model itself, in the layout that other tools read; or
    "caller", in arrays that only Surefoot feeds. `trees` widens the input attention_mask of a model with state to one
    line per row, which Surefoot needs for draft trees and other tools do not expect; without state it is always so.
    `extra_files` are written beside the model, a tokenizer of a GGUF file for example.
    Raises: ConfigError where something is missing, damaged, in the way or does not fit on the disk; NotEligible
    for a model that the export cannot write.
    """
    if weights not in get_args(WeightFormat):
        raise ConfigError(f"weight format {weights!r} is not one of {', '.join(get_args(WeightFormat))}")
    if cache not in get_args(CacheKind):
        raise ConfigError(f"cache {cache!r} is not one of {', '.join(get_args(CacheKind))}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} exists already; name another folder or remove it first")
    started, trees = clock(), trees or cache == "caller"
    source = open_source(model)
    total = count_weights(source)
    with _new_folder(out) as folder, _disk_errors(out):
        _write_model(source, folder, weights, _make_cache(source.spec, cache, trees), total, progress)
        for name, content in {**source.documents, **(extra_files or {})}.items():
            (folder / Path(name).name).write_bytes(content)
        _write_record(folder, source, weights, cache, trees)
    return ExportReport(
        path=str(out),
        weights=weights,
        cache=cache,
        trees=trees,
        parameters=total,
        model_bytes=sum(f.stat().st_size for f in out.iterdir()),
        seconds=clock() - started,
        peak_bytes=peak_resident_bytes(),
    )


def open_source(model: Path) -> Source:
    """The weights behind a path. Raises: ConfigError for a path that is no model."""
    if model.is_file() and model.suffix.lower() == ".gguf":
        return GgufSource(model)
    if model.is_dir() and is_exported(model):
        raise ConfigError(f"{model} is an OpenVINO model already; use it as it is")
    if model.is_dir():
        return SafetensorsSource(model)
    found = "is no GGUF file and no model folder" if model.exists() else "does not exist"
    raise ConfigError(f"{model} {found}; name a .gguf file or a folder with config.json and safetensors files")


def peak_resident_bytes() -> int | None:
    """The highest resident size of this process so far, in bytes; None on Windows."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _make_cache(spec: ModelSpec, kind: CacheKind, trees: bool) -> Cache:
    """The inputs of a graph with that kind of cache, and its attention."""
    from surefoot.targets.openvino.cache_caller import CallerCache
    from surefoot.targets.openvino.cache_state import StateCache

    return CallerCache(spec) if kind == "caller" else StateCache(spec, trees)


def _write_model(
    source: Source, folder: Path, weights: WeightFormat, cache: Cache, total: int, progress: Progress | None
) -> None:
    import openvino as ov

    from surefoot.targets.openvino.graph import build

    done = 0

    def made(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, total)

    scratch_path = folder / "weights.scratch"
    scratch = Scratch(scratch_path)
    made_weights = Weights(source, scratch, weights, made)
    try:
        graph = build(source, made_weights, cache)
        ov.save_model(graph, folder / MODEL_FILE, compress_to_fp16=False)
        # A file cut short by a full disk shows here, where it costs a mapping, not in somebody's session.
        ov.Core().read_model(folder / MODEL_FILE)
    except RuntimeError as error:
        free = shutil.disk_usage(folder).free
        raise ConfigError(
            f"OpenVINO could not write the model under {folder.parent}, where {free} bytes are free"
            f" ({reason(error)}); nothing was left behind, so make room and try again"
        ) from error
    finally:
        scratch.close()
    scratch_path.unlink()


def _write_record(folder: Path, source: Source, weights: WeightFormat, cache: CacheKind, trees: bool) -> None:
    spec = asdict(source.spec)
    del spec["rope"]
    record = {
        "schema": SCHEMA,
        "surefoot": importlib.metadata.version("surefoot"),
        "openvino": importlib.metadata.version("openvino"),
        "weights": weights,
        "cache": cache,
        "trees": trees,
        "max_length": source.spec.max_length,
        "model": spec,
        "source": [{"name": f.name, "bytes": f.stat().st_size, "sha256": _sha256(f)} for f in source.files],
    }
    (folder / RECORD_FILE).write_text(json.dumps(record, indent=2) + "\n", "utf-8")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _new_folder(out: Path) -> Iterator[Path]:
    """A temporary folder that becomes `out`, on disk for good, when the block ends well, and vanishes otherwise."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _sweep(out)
        folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.{os.getpid()}.", dir=out.parent))
    except OSError as error:
        raise ConfigError(f"cannot write to {out.parent}: {error.strerror}") from error
    try:
        yield folder
        folder.chmod(0o755)
        for file in (*folder.iterdir(), folder):
            _sync(file)
        folder.replace(out)
        _sync(out.parent)
    except OSError as error:
        raise ConfigError(f"cannot write {out}: {error.strerror}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(out: Path) -> None:
    """Remove what killed exports to the same place left behind."""
    for left in out.parent.glob(f".{glob.escape(out.name)}.*"):
        match = re.fullmatch(re.escape(f".{out.name}.") + r"(\d+)\.\w+", left.name)
        if match and not _alive(int(match[1])):
            shutil.rmtree(left, ignore_errors=True)


def _alive(pid: int) -> bool:
    if sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _sync(path: Path) -> None:
    if sys.platform == "win32" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _disk_errors(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"cannot write {out}: {error.strerror}; nothing was left behind") from error
