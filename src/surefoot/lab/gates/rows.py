"""Gate rows: whether a row of a block is the row that one token alone gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from surefoot.core.ports import Session, Target
from surefoot.core.types import Caps, Floats, Ids, RowClass, as_ids
from surefoot.engine.generator import Model
from surefoot.lab.gates.inputs import inputs
from surefoot.lab.gates.progress import Progress
from surefoot.lab.gates.writing import longest_draft, plain
from surefoot.lab.records import Gate

LIMIT_DELTA = 0.5
"""Units: logits, of the top logit, 99th percentile. chosen: a nudge of more than that is no rounding."""

ROUNDING = 1e-3
"""Of a row's spread. chosen: a wrong mask or position moves rows by a tenth of the spread and more, float32 rounding by
under 1e-5; a leak that is too weak to turn over a top token is still far above it."""

_ORDER: Sequence[RowClass] = ("row-dependent", "near-tie", "identical")

_EXACT: Mapping[str, str] = {
    "openvino": "runtime.cache_precision=f32, runtime.precision=f32 and runtime.activation_group=0 on the CPU",
    "hf": "runtime.dtype=float32 on a CPU",
    "llamacpp": "its defaults on a CPU, for the formats of docs/runtimes/llamacpp.md",
}
"""Settings that are known to be identical. Source: measured 2026-11-30 on two AVX2 cores, studies/openvino-rows.md and
targets/hf/load.py."""

_DECISIVE: Mapping[str, Sequence[str]] = {
    "openvino": ("KV_CACHE_PRECISION", "INFERENCE_PRECISION_HINT", "DYNAMIC_QUANTIZATION_GROUP_SIZE", "weights"),
    "hf": ("dtype", "attention", "float32_matmul"),
    "llamacpp": ("weights", "flash_attention", "cache", "repack", "max_rows", "min_rows"),
}
"""The settings that decide the class of a runtime's rows, by the names that it reports."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Every compared row. Shapes: all (n,). Units: deltas and gaps in logits.

    counts: rows of the block it stood in. deltas: by how much the block moved the logit of the single row's likeliest
    token. gaps: from that token to the second likeliest, in the single row. spreads: from the lowest logit to the
    highest, in the single row. moved: the argmax is another one. norms: relative difference of the norms of both rows.
    n_inputs: texts that the rows came from.
    """

    counts: npt.NDArray[np.int64]
    deltas: npt.NDArray[np.float64]
    gaps: npt.NDArray[np.float64]
    spreads: npt.NDArray[np.float64]
    moved: npt.NDArray[np.bool_]
    norms: npt.NDArray[np.float64]
    n_inputs: int

    @property
    def p99(self) -> float:
        """The 99th percentile of the deltas."""
        return float(np.percentile(self.deltas, 99)) if len(self.deltas) else float("inf")

    @property
    def rounding(self) -> bool:
        """Whether the rows differ by no more than rounding."""
        return bool(len(self.deltas) and np.percentile(self.deltas / np.maximum(self.spreads, 1e-30), 99) <= ROUNDING)

    @property
    def tolerance(self) -> float:
        """Top-two gaps below this may turn over. Source: both logits may move by the delta, against each other."""
        return 2 * self.p99

    @property
    def beyond(self) -> int:
        """Rows that differ where the two likeliest tokens do not nearly tie."""
        return int(np.count_nonzero(self.moved & (self.gaps >= self.tolerance)))


def class_of(rows: Rows) -> RowClass:
    """identical: no argmax differs, and nothing but rounding does. near-tie: each that differs was nearly a tie, and no
    row moves far. Else neither."""
    if not len(rows.moved) or not np.isfinite(rows.deltas).all():
        return "row-dependent"
    if not rows.moved.any() and rows.rounding:
        return "identical"
    return "near-tie" if rows.beyond == 0 and rows.p99 < LIMIT_DELTA else "row-dependent"


def weaker(one: RowClass, other: RowClass) -> bool:
    """Whether `one` promises less than `other`."""
    return _ORDER.index(one) < _ORDER.index(other)


def judge(rows: Rows, caps: Caps) -> Gate:
    """Passed when the class found is no weaker than the one that the target claims, and drafts are possible at all."""
    found, n_moved = class_of(rows), int(np.count_nonzero(rows.moved))
    exact = caps.row_class == "identical"
    passed = found != "row-dependent" and not weaker(found, caps.row_class)
    beyond = "" if rows.rounding else ", more than rounding does"
    seen = f"{n_moved} of {len(rows.moved)} rows differ, top logits move by {rows.p99:.2g} (99th percentile){beyond}"
    return Gate(
        name="rows",
        passed=passed,
        figure=float(n_moved if exact else rows.beyond),
        limit=0.0,
        unit="rows that differ" if exact else "rows that differ beyond a near tie",
        text=f"{found}: {seen}{_advice(found, caps)}",
        details={
            "row_class": found,
            "claimed": caps.row_class,
            "rows": len(rows.moved),
            "inputs": rows.n_inputs,
            "moved": n_moved,
            "beyond_near_tie": rows.beyond,
            "delta_p99": _finite(rows.p99),
            "delta_max": _finite(float(rows.deltas.max(initial=0.0))),
            "delta_limit": LIMIT_DELTA,
            "rounding": rows.rounding,
            "norm_difference_max": _finite(float(rows.norms.max(initial=0.0))),
            "smallest_gap": _finite(float(rows.gaps.min(initial=np.inf))),
            "by_rows": {
                str(count): {
                    "rows": int(np.count_nonzero(rows.counts == count)),
                    "moved": int(np.count_nonzero(rows.moved & (rows.counts == count))),
                    "delta_max": _finite(float(rows.deltas[rows.counts == count].max(initial=0.0))),
                }
                for count in np.unique(rows.counts).tolist()
            },
            "decided_by": deciding(caps),
        },
    )


def deciding(caps: Caps) -> dict[str, str]:
    """The settings that decide the class, as the runtime reports them."""
    names = _DECISIVE.get(caps.backend, tuple(caps.settings))
    return {name: caps.settings[name] for name in names if name in caps.settings} | {"device": caps.device}


def _advice(found: RowClass, caps: Caps) -> str:
    if found == "identical":
        # What held for these rows may not hold for others, and the target knows why it claims less.
        return "" if caps.row_class == "identical" else "; drafts still need --allow-near-ties with these settings"
    exact = _EXACT.get(caps.backend)
    named = ", ".join(f"{key} {value}" for key, value in deciding(caps).items())
    use = f"; identical are {exact}" if exact and caps.row_class != "identical" else ""
    if found == "row-dependent":
        return f"; drafts would change the text with {named}: choose other settings, or --drafts off{use}"
    if caps.row_class == "identical":
        return f"; these settings ({named}) were taken for identical: use drafts with --allow-near-ties only, or off"
    return f"; drafts need --allow-near-ties with {named}{use}"


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


# --- gathering -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Single:
    """What is kept of a row that one token alone gave."""

    token: int
    top: float
    gap: float
    spread: float
    norm: float


class Found(NamedTuple):
    """A row of a block against the single row, in the order of the columns of `Rows`."""

    rows: int
    delta: float
    gap: float
    spread: float
    moved: bool
    norm: float


def gather(
    model: Model, quick: bool, progress: Progress, *, n_inputs: int | None = None, most: int | None = None
) -> Rows:
    """Every row count in use, at every place of several texts, against the same rows one by one.

    n_inputs: texts, where not the usual number; most: rows of the widest block, where not that of the policy in use.
    """
    most = longest_draft(model) + 1 if most is None else most
    usual, windows = (2, 1) if quick else (6, 3)
    n_inputs = usual if n_inputs is None else n_inputs
    texts = inputs(model, n_inputs, most * windows + most)
    found: list[Found] = []
    for number, text in enumerate(texts):
        ids = np.concatenate([text.ids, as_ids(_continued(model, text.ids, most * windows))])
        start, stop = len(text.ids), len(ids)
        singles = _singles(model.target, ids, start)
        session = model.target.open()
        try:
            session.prefill(ids[:start])
            for place in range(start, stop - most + 1, most):
                found += _blocks(session, ids, place, most, singles[place - start :])
                progress(number * windows + (place - start) // most + 1, len(texts) * windows)
        finally:
            session.close()
    counts, deltas, gaps, spreads, moved, norms = (np.asarray(column) for column in zip(*found, strict=True))
    return Rows(counts, deltas, gaps, spreads, moved, norms, len(texts))


def _continued(model: Model, ids: Ids, n_tokens: int) -> list[int]:
    """`n_tokens` tokens as the model writes them; where it ends early, the text begins again."""
    text = list(plain(model, ids, n_tokens))
    return (text * (n_tokens // len(text) + 1))[:n_tokens]


def _singles(target: Target, ids: Ids, start: int) -> list[Single]:
    """The rows after ids[start:], one token a forward."""
    session = target.open()
    found = []
    try:
        session.prefill(ids[:start])
        for token in ids[start:].tolist():
            found.append(_single(session.extend(as_ids([token])).logits(0)))
            session.commit(1)
    finally:
        session.close()
    return found


def _single(row: Floats) -> Single:
    token = int(row.argmax())
    second, top = np.partition(row, -2)[-2:].tolist() if len(row) > 1 else (-np.inf, float(row[0]))
    return Single(token, top, top - second, top - float(row[np.isfinite(row)].min(initial=top)), _norm(row))


def _blocks(session: Session, ids: Ids, place: int, most: int, singles: Sequence[Single]) -> list[Found]:
    """Blocks of 1 to `most` rows, all at `place`; the longest is kept, the others are turned down."""
    found = []
    for count in range(1, most + 1):
        scores = session.extend(ids[place : place + count])
        picks = scores.argmax()
        for row, single in zip(range(count), singles, strict=False):
            logits = scores.logits(row)
            delta = abs(float(logits[single.token]) - single.top)
            norm = abs(_norm(logits) - single.norm) / single.norm if single.norm else 0.0
            found.append(Found(count, delta, single.gap, single.spread, int(picks[row]) != single.token, norm))
        session.commit(count if count == most else 0)
    return found


def _norm(row: Floats) -> float:
    return float(np.linalg.norm(row[np.isfinite(row)].astype(np.float64)))
