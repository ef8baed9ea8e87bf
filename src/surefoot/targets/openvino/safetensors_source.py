"""Weights of a transformers folder, mapped from its safetensors files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from surefoot.core.errors import ConfigError, DamagedModel, NotEligible
from surefoot.core.types import Floats
from surefoot.targets.openvino.claims import check_spec, reading
from surefoot.targets.openvino.spec import FAMILIES, ModelSpec, rope_from_config

_KINDS: dict[str, npt.DTypeLike] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}

_BESIDE = ("config.json", "generation_config.json", "tokenizer*", "special_tokens_map.json", "added_tokens.json")
_BESIDE_TEXT = ("vocab.json", "merges.txt", "chat_template*", "LICENSE*", "NOTICE*")


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """One mapped tensor. BF16 is mapped as its upper 16 bits."""

    data: npt.NDArray[Any]
    bf16: bool


class SafetensorsSource:
    """A folder with config.json and safetensors files, as a `Source`."""

    def __init__(self, folder: Path) -> None:
        config = read_json(folder / "config.json")
        self._spec = spec_from_config(config, folder)
        self._files = weight_files(folder)
        self._tensors: dict[str, Tensor] = {}
        for file in self._files:
            self._tensors.update(map_file(file))
        patterns = (*_BESIDE, *_BESIDE_TEXT)
        beside = sorted({f for p in patterns for f in folder.glob(p) if f.is_file()})
        self._documents = {f.name: f.read_bytes() for f in beside}

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    @property
    def files(self) -> tuple[Path, ...]:
        return self._files

    @property
    def block(self) -> int:
        return 128

    @property
    def documents(self) -> Mapping[str, bytes]:
        return self._documents

    def has(self, name: str) -> bool:
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._tensors[name].data.shape)

    def rows(self, name: str, start: int, stop: int) -> Floats:
        tensor = self._tensors[name]
        piece = tensor.data[start:stop]
        if tensor.bf16:
            return (piece.astype(np.uint32) << 16).view(np.float32)
        return piece.astype(np.float32)


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in the file. Raises: ConfigError where it is missing or is none."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path} holds no JSON object")
    return found


def spec_from_config(config: Mapping[str, Any], folder: Path) -> ModelSpec:
    """The sizes in a transformers configuration.

    Raises: NotEligible for what the export cannot write; DamagedModel for settings that mean nothing.
    """
    with reading(folder):
        return check_spec(_read_spec(config, folder), folder)


def _read_spec(config: Mapping[str, Any], folder: Path) -> ModelSpec:
    family = str(config.get("model_type"))
    if family not in FAMILIES:
        raise NotEligible(
            f"{folder} holds a {family!r} model; the OpenVINO export writes {', '.join(FAMILIES)}"
            " (for others: optimum-cli export openvino --model MODEL OUT)"
        )
    if config.get("quantization_config"):
        method = dict(config["quantization_config"]).get("quant_method", "unknown")
        raise NotEligible(f"{folder} is already quantised ({method}); export the original weights instead")
    if config.get("hidden_act", "silu") != "silu":
        raise NotEligible(f"{folder} uses activation {config['hidden_act']!r}; the OpenVINO export writes silu only")
    heads = int(config["num_attention_heads"])
    head_dim = int(config.get("head_dim") or config["hidden_size"] // heads)
    return ModelSpec(
        family=family,
        layers=int(config["num_hidden_layers"]),
        hidden=int(config["hidden_size"]),
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=head_dim,
        vocab=int(config["vocab_size"]),
        eps=float(config.get("rms_norm_eps", 1e-6)),
        rope=rope_from_config(config, head_dim),
        max_length=_max_length(config),
        tied=bool(config.get("tie_word_embeddings", False)),
    )


def _max_length(config: Mapping[str, Any]) -> int:
    """The longest text over which full attention is this model's attention: never past a sliding window."""
    longest = int(config.get("max_position_embeddings") or 2048)
    window = config.get("sliding_window")
    windowed = config.get("use_sliding_window", config["model_type"] == "mistral")
    return min(longest, int(window)) if window and windowed else longest


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The folder's safetensors files, shards in order. Raises: ConfigError where there is none,
    DamagedModel where one is missing."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = sorted({str(v) for v in dict(read_json(index)["weight_map"]).values()})
        files = tuple(folder / n for n in names)
    else:
        files = tuple(sorted(folder.glob("*.safetensors")))
    if not files:
        raise ConfigError(f"{folder} has no safetensors file; save the model with save_pretrained(safe_serialization)")
    missing = [f.name for f in files if not f.is_file()]
    if missing:
        raise DamagedModel(f"{folder} lacks the weight file {missing[0]} that its index names; download it again")
    return files


def map_file(path: Path) -> dict[str, Tensor]:
    """Every tensor of the file, mapped, nothing read. Raises: DamagedModel for a damaged or foreign file."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(size - 8, 100_000_000):
                raise ValueError("no header of a plausible length")
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        body = np.memmap(path, np.uint8, "r", offset=8 + length) if size > 8 + length else np.zeros(0, np.uint8)
        return {name: _map_tensor(body, entry) for name, entry in header.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedModel(f"{path} is damaged or no safetensors file ({error}); download it again") from error


def _map_tensor(body: npt.NDArray[np.uint8], entry: Mapping[str, Any]) -> Tensor:
    kind = str(entry["dtype"])
    if kind not in _KINDS:
        raise NotEligible(f"weights of type {kind} cannot be exported; F32, F16 and BF16 can")
    begin, end = entry["data_offsets"]
    if end > len(body):
        raise ValueError(f"it ends at byte {len(body)} of {end}")
    data: npt.NDArray[Any] = body[begin:end].view(np.dtype(_KINDS[kind]))
    return Tensor(data.reshape(entry["shape"]), kind == "BF16")
