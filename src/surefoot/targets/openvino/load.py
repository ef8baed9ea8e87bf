"""From an OpenVINO folder to a target that was compiled and tried out."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefoot.core.errors import ConfigError, DamagedModel, NotEligible
from surefoot.core.types import Caps, RowClass
from surefoot.targets import large_pages
from surefoot.targets.openvino.claims import reading
from surefoot.targets.openvino.layout import Layout, read_layout
from surefoot.targets.openvino.names import MODEL_FILE, RECORD_FILE, is_exported, reason

if TYPE_CHECKING:
    from surefoot.targets.openvino import Options
    from surefoot.targets.openvino.target import OpenvinoTarget

MAX_ROWS = 256
"""chosen: logits of 256 rows of a 152k vocabulary are 156 MB."""

_CACHE = ("auto", "f32", "f16", "bf16", "u8")
_ARITHMETIC = ("auto", "f32", "bf16", "f16")
_READ_BACK = (
    "INFERENCE_PRECISION_HINT",
    "KV_CACHE_PRECISION",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE",
    "ENABLE_CPU_PINNING",
)


def load(options: Options, folder: Path) -> OpenvinoTarget:
    """The target for the model in `folder`, compiled and tried out on one token."""
    _check_options(options)
    if importlib.util.find_spec("openvino") is None:
        raise NotEligible('the openvino target needs openvino: pip install "surefoot[openvino]"')
    from surefoot.targets.openvino.target import OpenvinoTarget

    _check_folder(folder)
    record, config = _read(folder / RECORD_FILE), _read(folder / "config.json")
    graph = _read_graph(folder)
    layout = read_layout(graph, folder, bool(record.get("trees", False)))
    if layout.pages is not None and options.cache_precision not in ("auto", "f32"):
        raise ConfigError(
            f"cache_precision is {options.cache_precision}, and the cache of {folder} is kept outside OpenVINO, in 32"
            " bits; leave the option out, or export the model with --cache state"
        )
    with reading(folder):
        window = None if record else _window(config)
        max_length = _max_length(options, record, config, window, folder)
        vocab = int(layout.vocab or config.get("vocab_size") or 0)
    if not vocab:
        raise NotEligible(f"{folder} does not say how large its vocabulary is, neither in its graph nor in config.json")

    device = options.device.upper()
    on_large_pages = options.large_pages and device == "CPU" and large_pages.available()

    def describe(compiled: Any) -> Caps:
        return _caps(options, layout, compiled, record, vocab, max_length, on_large_pages)

    return OpenvinoTarget(graph, layout, device, runtime_settings(options), describe, window, on_large_pages)


def runtime_settings(options: Options) -> dict[str, Any]:
    """The properties that the model is compiled with."""
    cpu = options.device.upper() == "CPU"
    settings: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY"}
    settings["KV_CACHE_PRECISION"] = "f32" if options.cache_precision == "auto" else options.cache_precision
    settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = options.activation_group
    if options.precision != "auto" or cpu:
        settings["INFERENCE_PRECISION_HINT"] = "f32" if options.precision == "auto" else options.precision
    if cpu:
        # Pinned threads, OpenVINO's default, wait for whatever else runs on their core: studies/openvino-pinning.md.
        settings["ENABLE_CPU_PINNING"] = False
    if options.threads is not None:
        settings["INFERENCE_NUM_THREADS"] = options.threads
    if options.cache_dir is not None:
        settings["CACHE_DIR"] = options.cache_dir
    return settings


def row_class(options: Options) -> RowClass:
    """What is known of these settings.

    Source: measured 2026-11-30, OpenVINO 2026.4, two x86 machines, studies/openvino-rows.md and openvino-form-b.md.
    """
    exact = options.cache_precision in ("auto", "f32") and options.precision in ("auto", "f32")
    return "identical" if exact and options.device.upper() == "CPU" and options.activation_group == 0 else "near-tie"


def _check_options(options: Options) -> None:
    if options.cache_precision not in _CACHE:
        raise ConfigError(f"cache_precision must be one of {', '.join(_CACHE)}; got {options.cache_precision!r}")
    if options.precision not in _ARITHMETIC:
        raise ConfigError(f"precision must be one of {', '.join(_ARITHMETIC)}; got {options.precision!r}")
    if options.threads is not None and options.threads < 1:
        raise ConfigError(f"threads must be at least 1; got {options.threads}")
    if options.ctx_size is not None and options.ctx_size < 2:
        raise ConfigError(f"ctx_size must be at least 2; got {options.ctx_size}")
    if options.activation_group < 0:
        raise ConfigError(f"activation_group must be 0 or a group length; got {options.activation_group}")
    if options.cache_dir is not None:
        try:
            Path(options.cache_dir).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"the cache folder {options.cache_dir} cannot be made: {error.strerror}; name another one"
            ) from error


def _check_folder(folder: Path) -> None:
    if is_exported(folder):
        return
    if not folder.exists():
        raise ConfigError(f"{folder} does not exist; name a folder with {MODEL_FILE}")
    if (folder / MODEL_FILE).is_file():
        raise DamagedModel(f"{folder} holds {MODEL_FILE} without its weights (.bin); copy the whole folder again")
    raise ConfigError(
        f"{folder} holds no OpenVINO model; make one with: surefoot export {folder} --to openvino --out FOLDER"
    )


def _read(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    return found if isinstance(found, dict) else {}


def _read_graph(folder: Path) -> Any:
    import openvino as ov

    file = folder / MODEL_FILE
    if b"<net " not in _head(file):  # OpenVINO would ask its readers of other formats, which print what they think
        raise DamagedModel(f"{file} cannot be read (it is no OpenVINO model); export or download it again")
    try:
        return ov.Core().read_model(file)
    except RuntimeError as error:
        raise DamagedModel(f"{file} cannot be read ({reason(error)}); export or download it again") from error


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4096)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error


def _window(config: Mapping[str, Any]) -> int | None:
    """The sliding window of another tool's export, which counts cache rows: stale ones would use it up unseen."""
    window = config.get("sliding_window")
    used = config.get("use_sliding_window", True)
    return int(window) if window and used else None


def context_of(config: Mapping[str, Any]) -> int | None:
    """Tokens that a config.json says the model reads; None where it is silent.

    A LongRoPE model ends at its original length: past that all positions are scaled anew, so that rows already in
    the cache differ from those of a fresh prefill.
    """
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if (rope.get("rope_type") or rope.get("type")) in ("longrope", "su"):
        original = rope.get("original_max_position_embeddings") or config.get("original_max_position_embeddings")
        if original:
            return int(original)
    longest = config.get("max_position_embeddings")
    return None if longest is None else int(longest)


def _max_length(
    options: Options, record: Mapping[str, Any], config: Mapping[str, Any], window: int | None, folder: Path
) -> int:
    own = record.get("max_length") or context_of(config)
    if own is None and options.ctx_size is None:
        raise ConfigError(f"{folder} has no config.json that says how long its context is; give ctx_size")
    longest = min(own or options.ctx_size or 0, window or 2**31)
    if longest < 2:
        raise DamagedModel(
            f"{folder} claims a context of {longest} tokens, and drafts need two at least: the files are damaged"
        )
    if options.ctx_size is not None and options.ctx_size > longest:
        raise NotEligible(f"ctx_size is {options.ctx_size}, and the model in {folder} reads {longest} tokens at most")
    return options.ctx_size or longest


def _caps(
    options: Options,
    layout: Layout,
    compiled: Any,
    record: Mapping[str, Any],
    vocab: int,
    max_length: int,
    on_large_pages: bool,
) -> Caps:
    import openvino as ov

    supported = set(compiled.get_property("SUPPORTED_PROPERTIES"))
    read = {name: _word(compiled.get_property(name)) for name in _READ_BACK if name in supported}
    if "INFERENCE_NUM_THREADS" in supported:
        read["threads"] = _word(compiled.get_property("INFERENCE_NUM_THREADS"))
    return Caps(
        backend="openvino",
        vocab_size=vocab,
        max_length=max_length,
        max_rows=min(MAX_ROWS, max_length),
        discipline=layout.discipline,
        can_pad=True,
        can_tree=layout.trees,
        tap_names=layout.tap_names,
        device=options.device.lower(),
        row_class=row_class(options),
        settings={"openvino": ov.__version__, "weights": str(record.get("weights", "as found")), **read}
        | ({"large_pages": "True"} if on_large_pages else {}),
    )


def _word(value: Any) -> str:
    """A property as its users write it."""
    name = getattr(value, "get_type_name", None)
    return str(name()) if name is not None else str(value)
