"""What fixed or dynamic programs with named arrays say: the rules that Core ML packages and Core AI bundles share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from surefoot.core.eligibility import OPEN, Refusal, Shape, of_head, spelled
from surefoot.core.errors import ConfigError
from surefoot.engine.inspect.findings import Evidence, Found, Head, LayerKind, Objection, Rows, State

IDS = ("input_ids", "inputids", "tokens", "token_ids", "tokenids", "ids", "token", "input_tokens")
_PART = ("hidden_states", "hidden", "inputs_embeds", "x")
_KEYS = re.compile(r"(?:^|[^a-z])(?:k|v|kv|key|value|keys|values)(?:$|[^a-z])|cache", re.IGNORECASE)
_CUMULATIVE = re.compile(r"conv|ssm|recurrent|mamba|gdn|delta|(?:^|_)rec(?:_|$)|linear", re.IGNORECASE)

_MAX_FILES = 10_000
"""chosen: a package has tens of files and folders."""


@dataclass(frozen=True, slots=True)
class Program:
    """One function. Shapes by name, -1 where open, () where not told. counts: numbers of rows that it is made for,
    where it lists them.
    """

    name: str
    inputs: Mapping[str, Shape]
    outputs: Mapping[str, Shape]
    states: Mapping[str, Shape]
    counts: tuple[int, ...] = ()


def ids_of(program: Program) -> tuple[str, Shape] | None:
    """The input of tokens."""
    return next(((name, shape) for name, shape in program.inputs.items() if name.lower() in IDS), None)


def rows_of(programs: Sequence[Program], file: str) -> Found[Rows] | None:
    """The numbers of rows that the functions are made for; any number where one of them is dynamic."""
    counts: set[int] = set()
    evidence = []
    for program in programs:
        found = ids_of(program)
        if found is None or not found[1]:
            continue
        name, shape = found
        evidence.append(Evidence(file, f"{program.name}: {name}", spelled(shape)))
        if program.counts:
            counts |= set(program.counts)
        elif shape[-1] == OPEN:
            return Found(Rows(), tuple(evidence))
        else:
            counts.add(shape[-1])
    return Found(Rows(tuple(sorted(counts))), tuple(evidence[:6])) if counts else None


def head_of(programs: Sequence[Program], file: str) -> Found[Head] | None:
    """Whether every row gets logits, from the functions that read more than one row."""
    for program in programs:
        ids, logits = ids_of(program), _logits(program)
        if ids is None or not ids[1] or logits is None or len(logits[1]) < 2:
            continue
        rows, given = ids[1][-1], logits[1][-2]
        here = (Evidence(file, f"{program.name}: {logits[0]}", spelled(logits[1])),)
        if rows != 1:
            return Found("last row" if given == 1 else "all rows", here)
    return None


def vocabulary_of(programs: Sequence[Program], file: str) -> Found[int] | None:
    """Columns of the logits."""
    for program in programs:
        logits = _logits(program)
        if logits is not None and logits[1] and logits[1][-1] > 1:
            return Found(logits[1][-1], (Evidence(file, f"{program.name}: {logits[0]}", spelled(logits[1])),))
    return None


def states_of(programs: Sequence[Program], file: str) -> Found[tuple[State, ...]] | None:
    """The arrays that the functions leave for each other."""
    states = {name: shape for program in programs for name, shape in program.states.items()}
    kept = {
        name: shape
        for program in programs
        for name, shape in program.inputs.items()
        if name.lower() not in IDS and _KEYS.search(name) and len(shape) > 2
    }
    found = [State(name, shape, "inside") for name, shape in states.items()]
    found += [State(name, shape, "by the caller") for name, shape in kept.items() if name not in states]
    evidence = tuple(Evidence(file, state.name, spelled(state.shape)) for state in found[:4])
    return Found(tuple(found), evidence) if found else None


def layers_of(states: Found[tuple[State, ...]] | None) -> Found[Mapping[LayerKind, int]] | None:
    """Layers that attend, where keys and values are two arrays whose first axis counts them.

    Source: apple/coreai-models, whose exports keep k_cache and v_cache as (layers, batch, heads, context, head_dim).
    """
    if states is None or len(states.value) != 2:
        return None
    one, other = states.value
    if {one.name, other.name} != {"k_cache", "v_cache"} or one.shape != other.shape or len(one.shape) != 5:
        return None
    n = one.shape[0]
    return Found({"full attention": n}, states.evidence) if 0 < n < 10_000 else None


def objections_of(programs: Sequence[Program], head: Found[Head] | None, file: str) -> tuple[Objection, ...]:
    """What stands against verification in the functions themselves; how many rows they score is judged elsewhere."""
    if all(ids_of(program) is None for program in programs):
        inputs = sorted({name for program in programs for name in program.inputs})
        what = "a part of a model" if any(name.lower() in _PART for name in inputs) else "no language model"
        text = f"is {what}: it reads {', '.join(inputs[:6]) or 'nothing'}"
        return (Objection(Refusal("no language model", text), (Evidence(file, "input", ", ".join(inputs[:6])),)),)
    found = []
    if head is not None and head.value == "last row":
        refusal = of_head((1, 1, 1))
        assert refusal is not None
        found.append(Objection(refusal, head.evidence))
    for program in programs:
        for name, shape in program.states.items():
            if _CUMULATIVE.search(name):
                text = f"has a state {name} of shape {spelled(shape)}, which cannot drop rejected tokens"
                found.append(Objection(Refusal("cumulative state", text), (Evidence(file, name, spelled(shape)),)))
                return tuple(found)
    return tuple(found)


def dense(states: Found[tuple[State, ...]] | None) -> bool:
    """Whether every state goes by a name of keys and values."""
    return states is not None and all(
        _KEYS.search(state.name) and not _CUMULATIVE.search(state.name) for state in states.value
    )


def size_of(folder: Path) -> tuple[int, Mapping[str, int]]:
    """Bytes of all files under a folder, and by ending; links are not followed. Raises: ConfigError for too many."""
    total = 0
    kinds: Counter[str] = Counter()
    for path in walk(folder):
        n_bytes = path.lstat().st_size
        total += n_bytes
        kinds[path.suffix.lstrip(".") or path.name] += n_bytes
    return total, dict(kinds)


def walk(folder: Path) -> Iterable[Path]:
    """Every file under a folder, links aside."""
    pending, seen = [folder], 0
    while pending:
        for entry in sorted(pending.pop().iterdir()):
            seen += 1
            if seen > _MAX_FILES:
                raise ConfigError(f"{folder} holds more than {_MAX_FILES} entries: it is no package of a model")
            if entry.is_symlink():
                continue
            if entry.is_dir():
                pending.append(entry)
            elif entry.is_file():
                yield entry


def _logits(program: Program) -> tuple[str, Shape] | None:
    named = [(name, shape) for name, shape in program.outputs.items() if "logits" in name.lower()]
    rest = [(name, shape) for name, shape in program.outputs.items() if len(shape) == 3]
    return (named or rest or [None])[0]
