"""A toy model on a machine whose rounds take known times on a virtual clock, and the world that tuning sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from tiny_tokenizers import byte_level

from surefoot.core.types import Caps, Ids, RowClass, as_ids
from surefoot.engine.config import Config, Part
from surefoot.engine.generator import Model
from surefoot.engine.models import ModelFiles
from surefoot.engine.tokenizer import Tokenizer
from surefoot.lab.machine import Reading, Watch
from surefoot.lab.tune import FULL, Begin, Kept, Size, Step, Tuned, World, tune
from surefoot.lab.tune.run import kept_depths, kept_rows
from surefoot.targets.toy import Options, ToySession, ToyTarget

VOCABULARY = 24
NOW = "2026-11-30T12:00:00Z"
SMALL = replace(FULL, rows=(*range(1, 10), 12), depths=(40, 160), workloads=("chat", "code"), tokens=64, gate_inputs=1,
                gate_rows=6, sweep_s=1e9, texts_s=1e9)  # fmt: skip


def truth(rows: int, depth: int) -> float:
    """Seconds of a round: plateaus of rows 1 to 3 and 4 to 8, then more; dearer with the depth."""
    level = 0.020 if rows <= 3 else 0.028 if rows <= 8 else 0.050
    return level + 1e-5 * depth * (1 + rows / 8)


class Letters:
    """A real tokenizer whose ids are folded into the few tokens of the toy. No text ends by itself."""

    has_template = False

    def __init__(self) -> None:
        self._inner = Tokenizer("toy", byte_level(), frozenset())

    def encode(self, text: str) -> Ids:
        return as_ids(self._inner.encode(text) % VOCABULARY)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Timed:
    """A toy session whose forwards take the time of `truth` on its machine."""

    def __init__(self, inner: ToySession, machine: Machine) -> None:
        self._inner, self._machine = inner, machine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def prefill(self, ids: Ids) -> Any:
        self._machine.now += self._machine.prefill_s(len(ids))
        return self._inner.prefill(ids)

    def extend(self, block: Ids, parents: Sequence[int] | None = None, width: int | None = None) -> Any:
        self._machine.spend(self._machine.cost(len(block) if width is None else width, self._inner.length))
        return self._inner.extend(block, parents, width)


@dataclass
class Machine:
    """A processor with a clock of its own. pace: how many times slower at a moment; noise: of each round."""

    cost: Callable[[int, int], float] = truth
    prefill_s: Callable[[int], float] = lambda tokens: 0.0
    pace: Callable[[float], float] = lambda now: 1.0
    noise: float = 0.0
    row_class: RowClass = "identical"
    settings: dict[str, str] = field(default_factory=lambda: {"threads": "1"})
    seed: int = 0
    max_length: int = 4096
    max_rows: int = 32
    now: float = 10.0
    forwards: int = 0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        options = Options(vocab_size=VOCABULARY, order=1, max_length=self.max_length, max_rows=self.max_rows)
        self._toy = ToyTarget(options)

    @property
    def caps(self) -> Caps:
        return replace(self._toy.caps, row_class=self.row_class, settings=self.settings)

    def open(self, taps: Sequence[str] = ()) -> Timed:
        return Timed(self._toy.open(taps), self)

    def clock(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.forwards += 1
        self.now += seconds * self.pace(self.now) * float(np.exp(self.rng.normal(0, self.noise)))

    def model(self, folder: Path, **changes: Any) -> Model:
        weights = folder / "weights.bin"
        if not weights.exists():
            weights.write_bytes(b"weights")
        files = ModelFiles("toy", weights, "gguf", (weights,))
        config = replace(Config(runtime=Part("toy")), **changes)
        return Model(files, weights, cast(Any, self), cast(Tokenizer, Letters()), config)


class Silent:
    """A probe that is told nothing."""

    def read(self) -> Reading:
        return Reading()


def begin(model: Model, size: Size = SMALL, at: float = 1e9) -> Begin:
    from surefoot.engine import plans

    owner = plans.owner_of(model.files, model.target.caps, model.config)
    return Begin(owner, kept_rows(model, size), kept_depths(model, size), size.quick, at)


def tuned(
    machine: Machine,
    folder: Path,
    *,
    size: Size = SMALL,
    show: Callable[[Step], None] = lambda step: None,
    check: Callable[[], None] = lambda: None,
    despite_noise: bool = False,
    samples_to: Path | None = None,
    at: float = 1e9,
    **changes: Any,
) -> Tuned:
    """What tuning finds on this machine; its cache folder is `folder`/cache."""
    model = machine.model(folder, **changes)
    world = World(machine.clock, lambda: NOW, show, check, lambda: Watch(Silent()))
    with Kept(folder / "cache" / "kept.jsonl", begin(model, size, at)) as kept:
        return tune(
            model, size, world, kept, folder / "cache", load_s=1.5, command=("tune", "toy"),
            despite_noise=despite_noise, samples_to=samples_to,
        )  # fmt: skip
