"""What the studies of drafters share: the texts that `long_texts.py` wrote, drafts replayed over them, and intervals.

The target is not asked again: the match judge accepts a draft token exactly when it is the one that is written there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from common import RECORDS

from surefoot.core.cost import CostCurve, fit_curve, published
from surefoot.core.ports import Drafter
from surefoot.core.types import Ids, Round, as_ids
from surefoot.drafters.ngram import NgramDrafter
from surefoot.drafters.ngram import Options as NgramOptions
from surefoot.drafters.suffix.drafter import SuffixDrafter
from surefoot.drafters.suffix.options import Options as SuffixOptions
from surefoot.lab.replay import LONGEST, Trace, record, replay
from surefoot.policies.fixed import FixedPolicy
from surefoot.policies.fixed import Options as FixedOptions

TEMPERATURES = (0.0, 0.7)
WORKLOADS = ("chat", "code", "tools", "summary", "question", "translation", "retrieval")
CURVES = Path(__file__).resolve().parent.parent / "tests" / "data" / "cost-curves.json"

FLAT = fit_curve(published(dict.fromkeys(range(1, LONGEST + 2), 1.0), 0))
"""Where only tokens are counted, every round costs the same."""

LOOP_PERIOD = 128
LOOP_TOKENS = 8
"""chosen: a text is in a loop once it has repeated its last period twice, and at least eight tokens."""

RESAMPLES = 2000

MAKERS: Mapping[str, Callable[..., Drafter]] = {
    "ngram": lambda **options: NgramDrafter(NgramOptions(**options)),
    "suffix": lambda **options: SuffixDrafter(SuffixOptions(**options)),
}


@dataclass(frozen=True, slots=True)
class Text:
    """A text that was written without drafts. prompt (m,) int32; ids: its tokens, the root of the prefill first."""

    workload: str
    id: str
    temperature: float
    prompt: Ids
    ids: tuple[int, ...]


def record_of(temperature: float) -> Path:
    """Where the texts of a temperature are kept."""
    return RECORDS / f"long_texts_{temperature:g}.json"


def texts(temperature: float) -> list[Text]:
    """Those of two tokens and more, in the order of the prompts."""
    rows = json.loads(record_of(temperature).read_text(encoding="utf-8"))["rows"]
    return [
        Text(row["workload"], row["id"], temperature, as_ids(row["prompt"]), tuple(row["ids"]))
        for row in rows
        if len(row["ids"]) > 1
    ]


def offers(drafter: Drafter, text: Text) -> Trace:
    """What a drafter that goes by the tokens alone offers at each place of a text."""
    return record(drafter, text.prompt, text.ids, None)  # type: ignore[arg-type]  # lookups look at no scores


def head(trace: Trace, tokens: int) -> Trace:
    """The same as if the output limit had been so many tokens."""
    ids = trace.ids[:tokens]
    kept = [replace(each, right=min(each.right, len(ids) - at)) for at, each in enumerate(trace.offers[: len(ids)])]
    return Trace(trace.n_prompt, ids, tuple(kept))


def rounds(trace: Trace, draft_len: int) -> tuple[Round, ...]:
    """Those of a text whose drafts all have this length where the drafter has as much."""
    return replay(trace, FixedPolicy(FixedOptions(draft_len)), FLAT).rounds


def loops(ids: Sequence[int]) -> npt.NDArray[np.int_]:
    """(n,): the period that the text has been repeating for two periods when the token at this place comes; 0 where it
    does not repeat itself."""
    array, periods = np.asarray(ids), np.zeros(len(ids), np.int_)
    for period in range(min(LOOP_PERIOD, len(ids)), 0, -1):
        same = np.zeros(len(ids), np.bool_)
        same[period:] = array[period:] == array[:-period]
        breaks = np.maximum.accumulate(np.where(same, -1, np.arange(len(ids))))
        periods[np.arange(len(ids)) - breaks >= max(2 * period, LOOP_TOKENS)] = period
    return periods


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of two sums over texts, with the interval that resampled texts give."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def ratio(pairs: Iterable[Sequence[float]]) -> Ratio:
    """The first numbers of all texts by the second ones. Source: the percentile bootstrap over texts (B. Efron, 1979).

    Texts are drawn, not tokens: those of one text resemble each other. Of few texts it is too narrow (lab/stats.py).
    """
    array = np.asarray(list(pairs), dtype=np.float64).reshape(-1, 2)
    if not array[:, 1].sum():
        return Ratio(float("nan"), float("nan"), float("nan"))
    drawn = array[np.random.default_rng(1).integers(0, len(array), (RESAMPLES, len(array)))].sum(axis=1)
    drawn = drawn[drawn[:, 1] > 0]
    low, high = np.percentile(drawn[:, 0] / drawn[:, 1], [2.5, 97.5])
    return Ratio(float(array[:, 0].sum() / array[:, 1].sum()), float(low), float(high))


def curve(name: str) -> CostCurve:
    """A curve of the collection, in seconds; padding allowed where the runtime can."""
    collection = json.loads(CURVES.read_text(encoding="utf-8"))
    known = {each["id"]: each for each in [*collection["published"], *collection["measured"]["curves"]]}
    medians = {int(rows): cost * 1e-3 for rows, cost in known[name]["rows"].items()}
    return fit_curve(published(medians, known[name]["context"]), can_pad=not name.startswith("llama"))


def given(found: Sequence[Text]) -> dict[str, Any]:
    """Which texts a record is of."""
    return {
        "texts": [{"workload": text.workload, "id": text.id, "temperature": text.temperature} for text in found],
        "tokens": sum(len(text.ids) for text in found),
    }
