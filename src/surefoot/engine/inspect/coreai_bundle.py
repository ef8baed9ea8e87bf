"""What a Core AI bundle says: the folder of a language model with its metadata.json, or an `.aimodel` on its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surefoot.core.eligibility import Refusal
from surefoot.core.errors import ConfigError, DamagedModel
from surefoot.engine.bounded import json_object
from surefoot.engine.inspect import mlir_bytecode, programs
from surefoot.engine.inspect.findings import Evidence, Facts, Found, Lookup, Objection, Size, shown
from surefoot.engine.inspect.programs import Program

_METADATA = "metadata.json"
_PROGRAM = "main.mlirb"
_SUFFIXES = (".aimodel", ".aimodelc", ".aimodelx")
_NO_TEXT = ("speech", "asr", "tts", "ocr", "transcri", "whisper", "parakeet")


def find(path: Path) -> bool:
    """Whether this is such a bundle."""
    return path.suffix in _SUFFIXES or any(True for _ in _assets(path))


def read(path: Path) -> Facts:
    """What the bundle says. Raises: DamagedModel where it is damaged or incomplete."""
    outer = {} if path.suffix in _SUFFIXES else json_object(path / _METADATA)
    asset = path if path.suffix in _SUFFIXES else _main(path, outer)
    program = asset / _PROGRAM
    file = f"{asset.name}/{_PROGRAM}"
    if not program.is_file():
        if asset.suffix != ".aimodel":
            raise ConfigError(f"{asset} is compiled for one device: give the .aimodel that it was made from")
        raise DamagedModel(f"{asset} holds no {_PROGRAM}: fetch it again")
    signatures = mlir_bytecode.read(program)
    # The same function is also there with its states as plain arrays.
    kept = [each for each in signatures or () if each.states] or list(signatures or ())
    functions = [
        Program(f"function {number}", each.inputs, each.outputs, each.states) for number, each in enumerate(kept, 1)
    ]
    head = programs.head_of(functions, file)
    stated = list(programs.objections_of(functions, head, file)) if functions else []
    if not functions:
        reason = Refusal("format", "holds a program of a version whose signature is not known here")
        stated.append(Objection(reason, (Evidence(file, "dialect", "not the known one"),)))
    n_bytes, kinds = programs.size_of(path)
    states = programs.states_of(functions, file)
    language = outer.get("language")
    language = language if isinstance(language, Mapping) else {}
    lookup, why = _lookup(outer, functions, file)
    return Facts(
        format="coreai",
        path=path,
        files=(program,),
        size=Found(Size(n_bytes, None, kinds), (Evidence(path.name, "files", f"{n_bytes} bytes"),)),
        architecture=_text(outer.get("source"), "hf_model_id", "source"),
        rows=programs.rows_of(functions, file),
        head=head,
        vocabulary=_count(language, "vocab_size") or programs.vocabulary_of(functions, file),
        context=_count(language, "max_context_length"),
        layers=programs.layers_of(states),
        states=states,
        lookup=lookup,
        lookup_text=why,
        stated=tuple(stated),
        settings=outer,
    )


def _assets(path: Path) -> list[Path]:
    if not path.is_dir():
        return []
    return sorted(entry for entry in path.iterdir() if entry.suffix in _SUFFIXES and entry.is_dir())


def _main(path: Path, outer: Mapping[str, Any]) -> Path:
    """The program that the bundle names as its main one, or the only one."""
    assets = outer.get("assets")
    name = assets.get("main") if isinstance(assets, Mapping) else None
    if isinstance(name, str) and name:
        # A name that leads out of the bundle is not followed.
        asset = path / Path(name).name
        if asset.is_dir():
            return asset
        raise DamagedModel(f"{path / _METADATA} names {shown(name)}, which is not in {path}: fetch it again")
    found = _assets(path)
    if len(found) != 1:
        names = ", ".join(each.name for each in found[:4])
        raise ConfigError(f"{path} holds {len(found)} Core AI programs, name one of them: {names}")
    return found[0]


def _count(language: Mapping[str, Any], key: str) -> Found[int] | None:
    value = language.get(key)
    if type(value) is not int or not 0 < value < 1 << 40:
        return None
    return Found(value, (Evidence(_METADATA, f"language.{key}", str(value)),))


def _text(part: object, key: str, at: str) -> Found[str] | None:
    value = part.get(key) if isinstance(part, Mapping) else None
    return Found(value, (Evidence(_METADATA, f"{at}.{key}", shown(value)),)) if isinstance(value, str) else None


def _lookup(outer: Mapping[str, Any], functions: list[Program], file: str) -> tuple[Found[Lookup] | None, str]:
    kind = outer.get("kind")
    words = " ".join(str(outer.get(key, "")) for key in ("kind", "name")).lower()
    if any(word in words for word in _NO_TEXT):
        why = "it hears, speaks or reads pictures, and none of that is in the prompt's tokens"
        return Found("cannot work", (Evidence(_METADATA, "kind", shown(kind)),)), why
    if any(programs.ids_of(function) for function in functions):
        where = Evidence(_METADATA, "kind", shown(kind)) if kind else Evidence(file, "inputs", "tokens")
        return Found("can work", (where,)), "what is written may repeat the prompt"
    return None, ""
