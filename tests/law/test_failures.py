"""A9: whatever fails, and wherever, the session stands at its last committed length and goes on from there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from law_cases import CHAINS, Case, cases, make_drafter, reference

from surefoot.core import judge as judge_module
from surefoot.core import law as law_module
from surefoot.core import limits as limits_module
from surefoot.core import loop as loop_module
from surefoot.core.errors import TargetError
from surefoot.core.judge import make_judge
from surefoot.core.limits import Limits
from surefoot.core.loop import generate
from surefoot.core.ports import Scores, Session
from surefoot.core.types import Ids, Round, as_ids
from surefoot.targets.toy import Options, ToyTarget
from surefoot.testing.drafter_suite import Budgets
from surefoot.testing.references import fresh_logits

VERBS = (
    "session.prefill", "session.extend", "session.commit", "drafter.begin", "drafter.propose", "drafter.observe",
    "policy.budget", "policy.cut", "policy.learn", "judge.pick", "judge.judge", "limits.clip", "clock", "cancelled",
)  # fmt: skip
ERRORS: tuple[type[BaseException], ...] = (RuntimeError, KeyboardInterrupt, MemoryError, TargetError, GeneratorExit)


class Planned(Exception):
    """Only raised by these tests."""


@dataclass
class Bomb:
    """Raises at the n-th call of one verb, before or after the call itself was made."""

    verb: str
    call: int
    late: bool
    error: BaseException
    calls: int = 0

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        if name != self.verb:
            return function

        def wrapped(*args: Any, **named: Any) -> Any:
            self.calls += 1
            due = self.calls == self.call
            if due and not self.late:
                raise self.error
            result = function(*args, **named)
            if due:
                raise self.error
            return result

        return wrapped


class Armed:
    """An object of which every method may be the bomb's."""

    def __init__(self, inner: Any, name: str, bomb: Bomb) -> None:
        self._inner, self._name, self._bomb = inner, name, bomb

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(self._inner, attribute)
        return self._bomb.wrap(f"{self._name}.{attribute}", value) if callable(value) else value


class Record:
    """A session that writes down which tokens it has committed."""

    def __init__(self, inner: Session) -> None:
        self.inner = inner
        self.committed: list[int] = []
        self.tail: list[int] = []

    @property
    def length(self) -> int:
        return self.inner.length

    def prefill(self, ids: Ids) -> Scores:
        scores = self.inner.prefill(ids)
        self.committed += ids.tolist()
        return scores

    def extend(self, block: Ids, parents: Sequence[int] | None = None, width: int | None = None) -> Scores:
        scores = self.inner.extend(block, parents, width)
        self.tail += block.tolist()
        return scores

    def commit(self, keep: int | Sequence[int]) -> None:
        self.inner.commit(keep)
        self.committed += [self.tail[place] for place in (range(keep) if isinstance(keep, int) else keep)]
        self.tail = []

    def reset(self, keep: int = 0) -> None:
        self.inner.reset(keep)
        self.committed, self.tail = self.committed[:keep], []

    def close(self) -> None:
        self.inner.close()


def assert_usable(case: Case, session: Record) -> None:
    """The session holds what was committed, no tail, and scores the next token as a fresh one does."""
    assert session.length == len(session.committed)
    if session.length == case.toy.max_length:
        session.reset(session.length - 1)
    if session.committed:
        row = session.inner.extend(as_ids([1])).logits(0)
        assert np.array_equal(row, fresh_logits(ToyTarget(case.toy), [*session.committed, 1]))
        session.inner.commit(0)
    session.inner.reset()
    session.inner.prefill(as_ids([0]))


def armed_rounds(case: Case, session: Session, bomb: Bomb) -> Iterator[Round]:
    return generate(
        Armed(session, "session", bomb),
        as_ids(case.prompt),
        caps=ToyTarget(case.toy).caps,
        drafter=Armed(make_drafter(case, reference(case)), "drafter", bomb),
        policy=Armed(Budgets(case.lengths), "policy", bomb),
        judge=Armed(make_judge("match", case.sampling), "judge", bomb),
        limits=Armed(Limits(case.max_tokens, case.stop_ids), "limits", bomb),
        clock=bomb.wrap("clock", lambda: 0.0),
        cancelled=bomb.wrap("cancelled", lambda: False),
    )


@settings(max_examples=1500)
@given(
    cases(drafters=(*CHAINS, "branches"), ends=True),
    st.sampled_from(VERBS),
    st.integers(1, 6),
    st.booleans(),
    st.sampled_from(ERRORS),
)
def test_an_exception_anywhere_leaves_the_session_usable(
    case: Case, verb: str, call: int, late: bool, kind: type[BaseException]
) -> None:
    session = Record(ToyTarget(case.toy).open())
    error = TargetError("planned", backend="toy", operation=verb) if kind is TargetError else kind("planned")
    bomb = Bomb(verb, call, late, error)
    shown, raised = 0, None
    try:
        for round_ in armed_rounds(case, session, bomb):
            shown += len(round_.new_ids)
    except BaseException as caught:
        raised = caught
    assert raised is (error if bomb.calls >= call else None), "the planned error was swallowed, or another came out"
    assert len(session.committed) >= (len(case.prompt) + shown - 1 if shown else 0)
    assert not session.tail, "a tail was left behind"
    assert_usable(case, session)


@settings(max_examples=500)
@given(cases(drafters=(*CHAINS, "branches")), st.integers(1, 12), st.sampled_from(["close", "throw", "drop"]))
def test_a_dropped_consumer_leaves_the_session_usable(case: Case, n_rounds: int, how: str) -> None:
    session = Record(ToyTarget(case.toy).open())
    rounds = armed_rounds(case, session, Bomb("none", 0, False, Planned()))
    shown = sum(len(round_.new_ids) for _, round_ in zip(range(n_rounds), rounds, strict=False))
    if how == "close":
        rounds.close()
    elif how == "throw":
        with pytest.raises((Planned, StopIteration)):
            rounds.throw(Planned())
    del rounds
    assert session.length == len(case.prompt) + shown - 1
    assert_usable(case, session)


@settings(max_examples=300)
@given(cases(drafters=(*CHAINS, "branches")), st.integers(0, 8))
def test_a_cancel_ends_after_the_round_in_progress(case: Case, n_rounds: int) -> None:
    session = Record(ToyTarget(case.toy).open())
    answers = iter([False] * n_rounds + [True] * 1000)
    emitted, ended = 0, None
    rounds = generate(
        session,
        as_ids(case.prompt),
        caps=ToyTarget(case.toy).caps,
        drafter=make_drafter(case, reference(case)),
        policy=Budgets(case.lengths),
        judge=make_judge("match", case.sampling),
        limits=Limits(case.max_tokens),
        clock=lambda: 0.0,
        cancelled=lambda: next(answers),
    )
    done: list[Round] = []
    while ended is None:
        try:
            done.append(next(rounds))
            emitted += len(done[-1].new_ids)
        except StopIteration as end:
            ended = end.value
    assert ended == (done[-1].finish or "cancel")
    assert len(done) <= n_rounds + 1
    assert session.length == len(case.prompt) + emitted - 1
    assert_usable(case, session)


LINES = {module.__file__ for module in (loop_module, judge_module, limits_module, law_module)}


@contextmanager
def interrupt_at_line(n: int) -> Iterator[None]:
    """A KeyboardInterrupt at the n-th line that is run of the loop, the judges, the limits and the law."""
    seen = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal seen
        if frame.f_code.co_filename not in LINES:
            return None
        if event == "line":
            seen += 1
            if seen == n:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


INTERRUPTED = Case(
    toy=Options(vocab_size=6, order=1, max_length=64),
    prompt=(0, 1, 2),
    drafter="right_then_wrong",
    drafter_seed=2,
    lengths=(3, 0),
    max_tokens=9,
)


@pytest.mark.parametrize("trees", [False, True])
@pytest.mark.parametrize("discipline", ["mask", "snapshot"])
def test_an_interrupt_at_any_line_leaves_the_session_usable(discipline: str, trees: bool) -> None:
    drafter = "branches" if trees else "right_then_wrong"
    toy = Options(discipline=discipline, vocab_size=6, order=1, max_length=64)
    case = Case(toy, (0, 1, 2), drafter, 2, (3, 0), 9)
    reference(case)
    for line in range(1, 2000):
        session = Record(ToyTarget(case.toy).open())
        rounds = armed_rounds(case, session, Bomb("none", 0, False, Planned()))
        shown = 0
        try:
            with interrupt_at_line(line):
                for round_ in rounds:
                    shown += len(round_.new_ids)
        except KeyboardInterrupt:
            assert session.length == len(session.committed) >= (len(case.prompt) + shown - 1 if shown else 0)
            assert not session.tail, f"a tail was left behind by an interrupt at line {line}"
            assert_usable(case, session)
        else:
            break
    assert line > 100, "the loop ran through before anything was interrupted"
    assert shown == case.max_tokens


def test_a_runtime_that_failed_inside_a_forward_closes_its_session() -> None:
    class Dying(Record):
        def extend(self, block: Ids, parents: Sequence[int] | None = None, width: int | None = None) -> Scores:
            self.inner.close()
            raise TargetError("planned", backend="toy", operation="extend")

    case = INTERRUPTED
    session = Dying(ToyTarget(case.toy).open())
    with pytest.raises(TargetError, match="planned"):
        list(armed_rounds(case, session, Bomb("none", 0, False, Planned())))
    with pytest.raises(TargetError, match="closed"):
        session.inner.commit(0)
