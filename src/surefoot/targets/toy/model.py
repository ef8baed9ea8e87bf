"""What a toy is: its options, its hash and its logits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from surefoot.core.errors import ConfigError
from surefoot.core.types import Floats

U64 = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]

DISCIPLINES = ("truncate", "overwrite", "mask", "staged", "fixed", "snapshot")


@dataclass(frozen=True, slots=True)
class Options:
    """How large the toy is and how it keeps its cache."""

    discipline: str = field(default="truncate", metadata={"help": f"cache discipline: {', '.join(DISCIPLINES)}"})
    vocab_size: int = field(default=16, metadata={"help": "tokens in the vocabulary"})
    seed: int = field(default=0, metadata={"help": "which toy: another seed is another model"})
    max_length: int = field(default=512, metadata={"help": "capacity of the cache, in tokens"})
    max_rows: int = field(default=32, metadata={"help": "largest block, in rows"})
    order: int = field(default=2, metadata={"help": "tokens that the strong term looks at"})
    strength: float = field(default=3.0, metadata={"help": "scale of the strong term; the weak one has 0.3"})
    quantum: float = field(
        default=0.0, metadata={"help": "logits are rounded to multiples of this; 0 = not, ties rare"}
    )
    trees: bool = field(default=True, metadata={"help": "accept drafts that are trees"})
    stale_share: float = field(default=0.5, metadata={"help": "mask only: compact when more of the slots are stale"})

    def __post_init__(self) -> None:
        if self.discipline not in DISCIPLINES:
            raise ConfigError(f"the toy has no discipline {self.discipline!r}; it has {', '.join(DISCIPLINES)}.")
        if min(self.vocab_size, self.max_length, self.max_rows, self.order) < 1:
            raise ConfigError("vocab_size, max_length, max_rows and order of the toy must be at least 1.")


def hashed(tokens: npt.NDArray[Any], places: npt.NDArray[Any], salt: int) -> U64:
    """One word per (token, place). Shapes: broadcast together, at least one of them an array of one dimension.

    Source: the finaliser of SplitMix64.
    """
    x = tokens.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + places.astype(np.uint64)
    x += np.uint64(salt * 0xD1B54A32D192ED03 % 2**64)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def toy_logits(options: Options, local: U64, whole: U64) -> Floats:
    """(R, V) logits from what each row sees: `local` (R,) of its last tokens, `whole` (R,) of all."""
    words = hashed(np.arange(options.vocab_size), np.stack([local, whole])[:, :, None], options.seed + 3)
    strong, weak = _logistic(words)
    logits = options.strength * strong + 0.3 * weak
    if options.quantum:
        logits = np.round(logits / options.quantum) * options.quantum
    rounded: Floats = logits.astype(np.float32)
    return rounded


def _logistic(words: U64) -> npt.NDArray[np.float64]:
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return np.asarray(np.log(uniform / (1 - uniform)))
