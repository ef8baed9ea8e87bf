"""Gate contamination: rejected drafts leave no trace, neither in the cache nor in the drafter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.core.ports import Drafter, Session
from surefoot.core.types import Floats, Ids, RowClass, as_ids
from surefoot.engine.config import Part
from surefoot.engine.generator import Model
from surefoot.lab.gates.inputs import inputs
from surefoot.lab.gates.progress import Progress
from surefoot.lab.gates.rows import ROUNDING
from surefoot.lab.gates.writing import drafter, drafts_in_use, longest_draft, other, plain
from surefoot.lab.records import Gate

SHARE_ELSE = 5e-2
"""Of a row's spread, where rounding is coarser than float32's. chosen: that of bfloat16 moves rows by about 1e-2."""

_STEPS = 24
"""chosen: tokens that a drafter is led along, each of them one forward."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row after a rejection, against a fresh prefill of the same tokens.

    draft_len: of the drafts in that run, 0 where there were none. right: how many of each were right. place: tokens
    behind the prompt. Units: delta, spread and gap in logits; spread from the lowest to the highest.
    """

    draft_len: int
    right: int
    place: int
    delta: float
    moved: bool
    spread: float
    gap: float


@dataclass(frozen=True, slots=True)
class Proposals:
    """How often a drafter whose every draft was rejected proposed what a new one does.

    compared: places where a new one proposed anything. first: tokens before the first place where the two differ.
    comparable: whether its drafts depend on the tokens alone, so that a new one has to propose the same.
    """

    name: str
    compared: int
    different: int
    first: int | None
    comparable: bool = True


def judge(rows: Sequence[Row], proposals: Proposals, row_class: RowClass) -> Gate:
    """Passed when every row is that of a fresh prefill, and the drafter proposes what a new one does.

    Bit for bit where single rows without any draft are, else within the share of the spread.
    """
    clean, after = [row for row in rows if row.draft_len == 0], [row for row in rows if row.draft_len > 0]
    exact = all(row.delta == 0 for row in clean)
    share = 0.0 if exact else ROUNDING if row_class == "identical" else SHARE_ELSE
    bad = [row for row in rows if not _holds(row, share, row_class)]
    worst = max(rows, key=lambda row: row.delta / (row.spread or 1.0))
    words = [f"{len(after)} rows after rejected drafts of 1 to {max(row.draft_len for row in after)} tokens"]
    if bad:
        row = bad[0]
        words.append(
            f"{len(bad)} differ from a fresh prefill, first by {row.delta:.3g} logits {row.place} tokens behind the "
            f"prompt, with {_shape(row)}: the cache does not hold what was committed"
        )
    else:
        words.append("equal to fresh prefills bit for bit" if exact else "equal to fresh prefills but for rounding")
    if proposals.different:
        words.append(
            f"{proposals.name} proposes something else after rejections than a new one does, first after "
            f"{proposals.first} tokens: it kept what was rejected"
        )
    elif not proposals.comparable:
        words.append(
            f"{proposals.name} is not compared with a new one, as its drafts depend on how the rounds fell by design"
        )
    elif proposals.compared:
        words.append(f"{proposals.name} proposes what a new one does at {proposals.compared} places")
    return Gate(
        name="contamination",
        passed=not bad and not proposals.different,
        figure=float(worst.delta) if np.isfinite(worst.delta) else float(np.finfo(np.float64).max),
        limit=share * worst.spread,
        unit="logits from a fresh prefill",
        text="; ".join(words),
        details={
            "rows": len(after),
            "rows_that_differ": len(bad),
            "share_of_spread": share,
            "delta_without_drafts": max((row.delta for row in clean if np.isfinite(row.delta)), default=0.0),
            "draft_lens": sorted({row.draft_len for row in after}),
            "drafter": proposals.name,
            "proposals": proposals.compared,
            "proposals_that_differ": proposals.different,
        },
    )


def _holds(row: Row, share: float, row_class: RowClass) -> bool:
    limit = share * row.spread
    near_tie = row_class != "identical" and row.gap < 2 * limit
    return row.delta <= limit and (not row.moved or near_tie)


def _shape(row: Row) -> str:
    if row.draft_len == 0:
        return "no drafts at all"
    return f"drafts of {row.draft_len}, {row.right} of them right"


# --- gathering -------------------------------------------------------------------------------------------------------


def gather(model: Model, quick: bool, progress: Progress) -> tuple[list[Row], Proposals]:
    """A text once without drafts, then with drafts of every length, none, half and all of each right."""
    most = longest_draft(model)
    places = 8 if quick else most + 8
    (text,) = inputs(model, 1, max(places + most + 2, _STEPS))
    script = _script(model, text.ids, places + most + 1)
    shapes = [(0, 0), *((length, right) for length in range(1, most + 1) for right in _rights(length))]
    references = _references(model, text.ids, script, places + 1)
    progress(1, len(shapes) + 2)
    rows: list[Row] = []
    for number, (length, right) in enumerate(shapes):
        rows += _run(model, text.ids, script, references, places, length, right)
        progress(number + 2, len(shapes) + 2)
    proposals = _proposals(model, drafts_in_use(model), text.ids, 6 if quick else 16)
    progress(len(shapes) + 2, len(shapes) + 2)
    return rows, proposals


def _rights(length: int) -> list[int]:
    return sorted({0, length // 2, length})


def _script(model: Model, ids: Ids, n_tokens: int) -> Ids:
    """The tokens of the run, as the model writes them; where it ends early, the text begins again."""
    text = list(plain(model, ids, n_tokens))
    return as_ids((text * (n_tokens // len(text) + 1))[:n_tokens])


def _references(model: Model, prompt: Ids, script: Ids, places: int) -> list[Floats]:
    """The row after each of the first tokens of the script, each from a fresh prefill."""
    whole = np.concatenate([prompt, script])
    rows: list[Floats] = []
    for place in range(places):
        session = model.target.open()
        try:
            rows.append(np.array(session.prefill(whole[: len(prompt) + place + 1]).logits(0)))
        finally:
            session.close()
    return rows


def _run(
    model: Model, prompt: Ids, script: Ids, references: Sequence[Floats], places: int, length: int, right: int
) -> Iterator[Row]:
    """The rows of a run along the script, each block a token of it and a draft of `length`, the first `right` right."""
    session = model.target.open()
    try:
        session.prefill(prompt)
        place = 0
        while place < places:
            n_right = min(right, places - place - 1)
            draft = script[place + 1 : place + 1 + length].copy()
            draft[n_right:] = other(draft[n_right:], model.target.caps.vocab_size)
            yield from _block(session, script, references, place, draft, n_right, (length, right))
            session.commit(n_right + 1)
            place += n_right + 1
        yield from _block(session, script, references, place, script[:0], 0, (length, right))
    finally:
        session.close()


def _block(
    session: Session,
    script: Ids,
    references: Sequence[Floats],
    place: int,
    draft: Ids,
    n_right: int,
    shape: tuple[int, int],
) -> Iterator[Row]:
    """The rows of one block that follow the script, each against its reference."""
    scores = session.extend(np.concatenate([script[place : place + 1], draft]))
    picks = scores.argmax()
    for row in range(n_right + 1):
        found, due = scores.logits(row), references[place + row]
        second, top = np.partition(due, -2)[-2:].tolist() if len(due) > 1 else (-np.inf, float(due[0]))
        finite = due[np.isfinite(due)]
        yield Row(
            draft_len=shape[0],
            right=shape[1],
            place=place + row,
            delta=_difference(found, due),
            moved=int(picks[row]) != int(due.argmax()),
            spread=float(finite.max() - finite.min()) if len(finite) else 0.0,
            gap=top - second,
        )


def _proposals(model: Model, part: Part, prompt: Ids, n_checks: int) -> Proposals:
    """What one drafter proposes along a text, each draft turned down, against new ones begun here and there.

    The text is the end of `prompt` twice, its second half read token by token as if it were written: there lookup finds
    something whatever the model.
    """
    live, fresh = drafter(model, part), drafter(model, part)
    if not live.needs.history_only:
        return Proposals(part.name, 0, 0, None, comparable=False)
    half = prompt[-_STEPS:]
    text, start = np.concatenate([half, half]), len(half)
    checks = set(np.linspace(start, len(text) - 1, n_checks + 1).astype(int)[1:].tolist())
    budget = longest_draft(model)
    compared, wrong = 0, list[int]()
    session = model.target.open(live.needs.taps)
    try:
        live.begin(text[:start], int(text[start]), session.prefill(text[:start]))
        for root in range(start, len(text) - 1):
            live.propose(budget)
            scores = session.extend(text[root : root + 1])
            session.commit(1)
            live.observe([int(text[root + 1])], scores)
            if root + 1 in checks:
                due, found = _begun(model, fresh, text, root + 1, budget), live.propose(budget)
                compared += bool(len(due))
                if not np.array_equal(due, found.ids):
                    wrong.append(root + 1)
    finally:
        session.close()
    return Proposals(part.name, compared, len(wrong), wrong[0] if wrong else None)


def _begun(model: Model, fresh: Drafter, text: Ids, root: int, budget: int) -> Ids:
    """What a drafter proposes that begins at this root."""
    session = model.target.open(fresh.needs.taps)
    try:
        fresh.begin(text[:root], int(text[root]), session.prefill(text[:root]))
        return fresh.propose(budget).ids
    finally:
        session.close()


def _difference(found: Floats, due: Floats) -> float:
    """The largest difference of two rows; 0 only when they are equal bit for bit, infinite logits included."""
    if np.array_equal(found, due):
        return 0.0
    with np.errstate(invalid="ignore"):
        delta = np.abs(found.astype(np.float64) - due.astype(np.float64))
    return float(np.where(np.isnan(delta), np.where(found == due, 0.0, np.inf), delta).max())
