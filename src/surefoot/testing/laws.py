"""The law of the text: computed plainly without loop or judge, and enumerated through them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from surefoot.core.history import History
from surefoot.core.judge import Judge, make_judge
from surefoot.core.law import best, next_law
from surefoot.core.limits import Limits
from surefoot.core.loop import generate
from surefoot.core.noise import Sampler
from surefoot.core.ports import Drafter, Scan, Target
from surefoot.core.sampling import Sampling
from surefoot.core.types import Floats, as_ids
from surefoot.testing.drafter_suite import Budgets, written
from surefoot.testing.enumerator import outcomes
from surefoot.testing.references import fresh_logits

TextLaw = Mapping[Hashable, float]
"""Probability by (ids, finish)."""

MakeJudge = Callable[[str, Sampling, Sampler], Judge]


@dataclass(slots=True)
class FreshRows:
    """Logits after a prefix, each from a fresh prefill. Holds changing state: a cache of what was computed."""

    target: Target
    known: dict[tuple[int, ...], Floats] = field(default_factory=dict)

    def __call__(self, ids: Sequence[int]) -> Floats:
        key = tuple(ids)
        if key not in self.known:
            self.known[key] = fresh_logits(self.target, ids)
        return self.known[key]


def output_law(
    target: Target,
    prompt: Sequence[int],
    sampling: Sampling,
    n_tokens: int,
    *,
    stop_ids: frozenset[int] = frozenset(),
    make_scan: Callable[[], Scan] | None = None,
) -> TextLaw:
    """The probability of every text of at most `n_tokens` tokens, by the chain rule over fresh prefills.

    No session is extended, nothing is committed, no judge is asked. `make_scan` gives a new scanner per text, which
    is fed one token at a time.
    """
    rows = FreshRows(target)
    law: dict[Hashable, list[float]] = defaultdict(list)
    room = target.caps.max_length - len(prompt) + 1

    def write(out: tuple[int, ...], chance: float) -> None:
        for token, p in _next(rows([*prompt, *out]), prompt, out, sampling):
            text = (*out, token)
            if token in stop_ids or (make_scan and _stopped(make_scan(), text)):
                law[text, "stop"].append(chance * p)
            elif len(text) == n_tokens:
                law[text, "length"].append(chance * p)
            elif len(text) == room:
                law[text, "context"].append(chance * p)
            else:
                write(text, chance * p)

    write((), 1.0)
    return {text: math.fsum(parts) for text, parts in law.items()}


def _next(logits: Floats, prompt: Sequence[int], out: Sequence[int], sampling: Sampling) -> list[tuple[int, float]]:
    history = History(as_ids(prompt))
    for token in out:
        history.push(token)
    if sampling.greedy:
        return [(best(logits, sampling, history), 1.0)]
    probs = next_law(logits, sampling, history).dense(len(logits))
    return [(token, p) for token, p in enumerate(probs.tolist()) if p > 0]


def _stopped(scan: Scan, text: Sequence[int]) -> bool:
    return [scan((token,)) for token in text][-1] is not None


def walked_law(
    target: Target,
    prompt: Sequence[int],
    sampling: Sampling,
    n_tokens: int,
    *,
    judge: str,
    make_drafter: Callable[[Sampler], Drafter],
    lengths: Sequence[int] = (2,),
    stop_ids: frozenset[int] = frozenset(),
    make_scan: Callable[[], Scan] | None = None,
    make_judge: MakeJudge = make_judge,
) -> TextLaw:
    """The probability of every text that the loop writes, every branch of every random choice walked.

    `make_drafter` is given the walker, so that a drafter which draws has branches of its own. `lengths` are the draft
    lengths asked for, over and over.
    """

    def run(walker: Sampler) -> Hashable:
        drafter = make_drafter(walker)
        rounds = generate(
            target.open(drafter.needs.taps),
            as_ids(prompt),
            caps=target.caps,
            drafter=drafter,
            policy=Budgets(lengths),
            judge=make_judge(judge, sampling, walker),
            limits=Limits(n_tokens, stop_ids, make_scan() if make_scan else None),
            clock=lambda: 0.0,
        )
        done = list(rounds)
        return tuple(written(done)), done[-1].finish

    return outcomes(run)


def assert_same_law(found: TextLaw, due: TextLaw, tolerance: float = 1e-12) -> None:
    """Raises: AssertionError when a probability differs by more than `tolerance`; the sentence names the worst text."""

    def off(text: Hashable) -> float:
        delta = abs(found.get(text, 0.0) - due.get(text, 0.0))
        return math.inf if math.isnan(delta) else delta

    worst = max(found.keys() | due.keys(), key=off)
    delta = off(worst)
    if delta > tolerance:
        raise AssertionError(
            f"the text {worst} has probability {found.get(worst, 0.0)!r}; {due.get(worst, 0.0)!r} was due "
            f"(off by {delta:.3g})"
        )
