"""Generated toy cases: what is asked of the loop, what plain decoding says, and every identity a run must keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from hypothesis import strategies as st

from surefoot.core.judge import make_judge
from surefoot.core.limits import Limits
from surefoot.core.loop import generate
from surefoot.core.ports import Drafter, Session
from surefoot.core.sampling import Sampling
from surefoot.core.types import Finish, Round, as_ids
from surefoot.drafters.lookahead import LookaheadDrafter
from surefoot.drafters.lookahead import Options as LookaheadOptions
from surefoot.drafters.ngram import NgramDrafter
from surefoot.drafters.ngram import Options as NgramOptions
from surefoot.drafters.suffix.drafter import SuffixDrafter
from surefoot.drafters.suffix.options import Options as SuffixOptions
from surefoot.drafters.union.drafter import Union
from surefoot.drafters.union.member import Member
from surefoot.drafters.union.options import Seat
from surefoot.targets.toy import DISCIPLINES, Options, ToyTarget
from surefoot.testing.drafter_suite import Budgets, written
from surefoot.testing.drafters import Guesser, adversary, branching_adversary, oracle, right_then_wrong
from surefoot.testing.toytext import PieceScanner, first_stop

VOCAB = 6
PIECES = ("a", "b", "ab", "ba", "c", "abc")
LONGEST = 28


def _suffix(branches: int) -> Drafter:
    return SuffixDrafter(SuffixOptions(min_match=1, branches=branches))


def _union(*members: Drafter) -> Drafter:
    return Union([Member(Seat("member", {}), member) for member in members], "value", None)


LOOKUPS: Mapping[str, Callable[[], Drafter]] = {
    "ngram": lambda: NgramDrafter(NgramOptions(min_n=1, max_n=3)),
    "suffix": lambda: _suffix(1),
    "suffix_tree": lambda: _suffix(3),
    "lookahead": lambda: LookaheadDrafter(LookaheadOptions()),
    "union": lambda: _union(LOOKUPS["ngram"](), LOOKUPS["suffix"](), LOOKUPS["lookahead"]()),
    "union_tree": lambda: _union(LOOKUPS["lookahead"](), LOOKUPS["suffix_tree"]()),
}
CHAINS = ("ngram", "oracle", "adversary", "right_then_wrong")


@dataclass(frozen=True, slots=True)
class Case:
    """One generation: a toy, a prompt, a drafter, and where it must end."""

    toy: Options
    prompt: tuple[int, ...]
    drafter: str
    drafter_seed: int
    lengths: tuple[int, ...]
    max_tokens: int
    stop_ids: frozenset[int] = frozenset()
    stops: tuple[str, ...] = ()
    pieces: tuple[str, ...] = PIECES
    sampling: Sampling = field(default_factory=Sampling)
    widen: int = 0


STRINGS = st.lists(st.sampled_from("abc"), min_size=1, max_size=5).map("".join)
PROMPTS = ((0,), (5, 5), (1, 2, 3), (2, 0, 2, 0), (4, 1, 4, 1, 4), (3, 3, 3, 0, 1, 2), (0, 1, 2, 3, 4, 5, 0, 1))


@st.composite
def cases(
    draw: st.DrawFn,
    drafters: Sequence[str] = CHAINS,
    stops: bool = False,
    ends: bool = False,
) -> Case:
    """`stops` adds stop ids and stop strings, `ends` small contexts and small largest blocks."""
    prompt = draw(st.sampled_from(PROMPTS))
    max_tokens = draw(st.integers(1, LONGEST - 4))
    toy = Options(
        discipline=draw(st.sampled_from(DISCIPLINES)),
        vocab_size=VOCAB,
        seed=draw(st.integers(0, 5)),
        order=draw(st.integers(1, 2)),
        quantum=draw(st.sampled_from([0.0, 2.0, 4.0])),
        max_length=len(prompt) + draw(st.integers(0, 20)) if ends else 64,
        max_rows=draw(st.integers(1, 18)) if ends else 32,
        stale_share=draw(st.sampled_from([0.2, 0.9])),
    )
    return Case(
        toy=toy,
        prompt=prompt,
        drafter=draw(st.sampled_from(drafters)),
        drafter_seed=draw(st.integers(0, 50)),
        lengths=tuple(draw(st.lists(st.integers(0, 16), min_size=1, max_size=4))),
        max_tokens=max_tokens,
        stop_ids=draw(st.frozensets(st.integers(0, VOCAB - 1), max_size=2)) if stops else frozenset(),
        stops=tuple(draw(st.lists(STRINGS, max_size=2))) if stops else (),
        widen=draw(st.integers(0, 4)) if toy.discipline == "fixed" else 0,
    )


@lru_cache(maxsize=20_000)
def plain(toy: Options, prompt: tuple[int, ...]) -> tuple[int, ...]:
    """LONGEST tokens of greedy text, one extend a token, without the loop."""
    session = ToyTarget(toy).open()
    out = [int(session.prefill(as_ids(prompt)).argmax()[0])]
    while len(out) < LONGEST:
        scores = session.extend(as_ids(out[-1:]))
        session.commit(1)
        out.append(int(scores.argmax()[0]))
    return tuple(out)


def reference(case: Case) -> tuple[int, ...]:
    """The plain text of a case, as if nothing ended it; every discipline and size writes the same."""
    toy = replace(case.toy, discipline="truncate", max_length=64, max_rows=32, stale_share=0.5, trees=False)
    return plain(toy, case.prompt)


def due(case: Case, text: Sequence[int]) -> tuple[list[int], Finish]:
    """What is written of `text`, and why it ends there: the first cause in token order, a stop before a limit."""
    scanned = first_stop(case.pieces, case.stops, text) if case.stops else None
    room = case.toy.max_length - len(case.prompt) + 1
    for n, token in enumerate(text, start=1):
        if token in case.stop_ids or n == scanned:
            return list(text[:n]), "stop"
        if n == case.max_tokens:
            return list(text[:n]), "length"
        if n == room:
            return list(text[:n]), "context"
    raise AssertionError("nothing ends the text; make LONGEST longer")


def make_drafter(case: Case, text: Sequence[int]) -> Drafter:
    whole = (*case.prompt, *text)
    seed = case.drafter_seed
    if case.drafter in LOOKUPS:
        return LOOKUPS[case.drafter]()
    if case.drafter == "branches":
        return Guesser(branching_adversary(whole, VOCAB, seed), trees=True)
    guesses = {
        "oracle": oracle(whole),
        "adversary": adversary(whole, VOCAB, seed),
        "right_then_wrong": right_then_wrong(whole, seed % 8, VOCAB),
    }
    return Guesser(guesses[case.drafter])


def run(case: Case, drafter: Drafter, session: Session, judge: str = "match") -> list[Round]:
    """The rounds; after each one the length of the session is what it must be."""
    target = ToyTarget(case.toy)
    emitted = 0
    rounds = []
    for round_ in generate(
        session,
        as_ids(case.prompt),
        caps=target.caps,
        drafter=drafter,
        policy=Budgets(case.lengths),
        judge=make_judge(judge, case.sampling),
        limits=Limits(case.max_tokens, case.stop_ids, PieceScanner(case.pieces, case.stops) if case.stops else None),
        clock=lambda: 0.0,
        width=lambda rows, depth: min(rows + case.widen, case.toy.max_rows) if case.widen else rows,
    ):
        emitted += len(round_.new_ids)
        assert session.length == len(case.prompt) + emitted - 1
        rounds.append(round_)
    return rounds


def check(case: Case) -> list[Round]:
    """The text is that of plain decoding, ends where and why it must, the rounds add up, the session lives on."""
    text = reference(case)
    session = ToyTarget(case.toy).open()
    rounds = run(case, make_drafter(case, text), session)
    ids, finish = due(case, text)
    assert (written(rounds), rounds[-1].finish) == (ids, finish)
    check_identities(case, rounds)
    if session.length < case.toy.max_length and len(ids) < len(text):
        scores = session.extend(as_ids(ids[-1:]))
        assert scores.argmax()[0] == text[len(ids)], "the session does not go on where the text ended"
        session.commit(0)
    return rounds


def check_identities(case: Case, rounds: Sequence[Round]) -> None:
    """The rounds add up: depth, rows, budgets, accepted, and only the last one has a reason to end."""
    first, *rest = rounds
    assert (first.source, first.drafted, first.accepted, first.rows, first.depth) == ("prefill", 0, 0, 1, 0)
    ceiling = min(case.max_tokens, case.toy.max_length - len(case.prompt) + 1)
    emitted = 1
    for turn, round_ in enumerate(rest):
        room = min(ceiling - emitted - 1, case.toy.max_rows - 1)
        assert 0 <= round_.drafted <= max(0, min(case.lengths[turn % len(case.lengths)], room))
        assert round_.cut == 0
        assert round_.rows == round_.drafted + 1 <= round_.width
        assert round_.depth == len(case.prompt) + emitted - 1
        assert 0 <= round_.accepted <= round_.evaluated
        assert len(round_) == len(Round._fields)
        assert len(round_.new_ids) - round_.accepted in ((0, 1) if round_.finish == "stop" else (1,))
        emitted += len(round_.new_ids)
    assert all(round_.finish is None for round_ in rounds[:-1])
    assert emitted <= ceiling
