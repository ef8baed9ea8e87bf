"""Which kind of checkpoint a path is, and what is refused by its name alone.

That the files are whole is the engine's to check; what transformers itself cannot read is refused where it is loaded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from surefoot.core.errors import ConfigError, DamagedModel, NotEligible

_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_SHARD = re.compile(r"-\d{5}-of-(\d{5})\.gguf$")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model on disk. `gguf` names the file in `folder`; None stands for safetensors."""

    folder: Path
    gguf: str | None

    @property
    def path(self) -> Path:
        """What the user named."""
        return self.folder if self.gguf is None else self.folder / self.gguf

    @property
    def format(self) -> str:
        """The weight format in a word."""
        return "safetensors" if self.gguf is None else "gguf"


def inspect(model: Path) -> Checkpoint:
    """The checkpoint at `model`. Raises: ConfigError or NotEligible, in one sentence."""
    try:
        if not model.exists():
            raise ConfigError(f"model {model} does not exist: give a model folder or a .gguf file")
        return _folder(model) if model.is_dir() else _file(model)
    except OSError as error:
        raise ConfigError(f"model {model} cannot be read ({error.strerror or error}): check its permissions") from error


def _file(path: Path) -> Checkpoint:
    if path.suffix.lower() in _PICKLES:
        raise ConfigError(_no_pickle(path.name))
    if path.suffix.lower() == ".safetensors":
        raise ConfigError(f"{path.name} is one weight file: give the folder that holds it and config.json")
    with path.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise DamagedModel(
            f"{path.name} starts with {magic!r} where a GGUF file starts with b'GGUF': "
            "give a .gguf file, or a folder with config.json and safetensors"
        )
    shard = _SHARD.search(path.name)
    if shard and int(shard.group(1)) > 1:
        raise NotEligible(
            f"{path.name} is one of {int(shard.group(1))} GGUF shards and transformers reads single files: "
            "merge them with llama-gguf-split --merge"
        )
    return Checkpoint(path.parent, path.name)


def _folder(folder: Path) -> Checkpoint:
    names = sorted(entry.name for entry in folder.iterdir())
    ggufs = [name for name in names if name.endswith(".gguf")]
    if "config.json" not in names:
        hint = f"to run {ggufs[0]}, give that file itself" if ggufs else "a model folder has one beside its weights"
        raise ConfigError(f"{folder} has no config.json: {hint}")
    if not {"model.safetensors", "model.safetensors.index.json"} & set(names):
        pickles = [name for name in names if Path(name).suffix in _PICKLES]
        raise ConfigError(_no_pickle(pickles[0]) if pickles else f"{folder} holds no model.safetensors: fetch it")
    return Checkpoint(folder, None)


def _no_pickle(name: str) -> str:
    return (
        f"{name} is a pickle, which can run code when it is opened: convert it with "
        "model.save_pretrained(folder), which writes safetensors, and give that folder"
    )
