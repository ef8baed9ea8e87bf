"""A5, A6: stop ids and strings, output limit and context limit at every index: 7,000 generated cases, and all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from law_cases import CHAINS, LONGEST, PIECES, VOCAB, Case, cases, check, due, reference

from surefoot.targets.toy import DISCIPLINES, Options
from surefoot.testing.drafter_suite import written
from surefoot.testing.toytext import PieceScanner, first_stop


@settings(max_examples=4000)
@given(cases(stops=True))
def test_stops_cut_where_plain_decoding_stops(case: Case) -> None:
    check(case)


@settings(max_examples=3000)
@given(cases(stops=True, ends=True))
def test_the_first_cause_in_token_order_ends_the_text(case: Case) -> None:
    check(case)


BASE = Case(
    toy=Options(vocab_size=VOCAB, seed=1, order=1, max_length=64),
    prompt=(0, 1, 2),
    drafter="oracle",
    drafter_seed=3,
    lengths=(5,),
    max_tokens=LONGEST - 4,
)


@pytest.mark.parametrize("drafter", [*CHAINS, "branches"])
@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_the_limits_hold_at_every_index(discipline: str, drafter: str) -> None:
    base = replace(BASE, drafter=drafter, toy=replace(BASE.toy, discipline=discipline))
    for n in range(1, LONGEST - 4):
        by_limit = check(replace(base, max_tokens=n))
        assert (len(written(by_limit)), by_limit[-1].finish) == (n, "length")
        full = replace(base, toy=replace(base.toy, max_length=len(base.prompt) + n - 1))
        by_context = check(full)
        assert (len(written(by_context)), by_context[-1].finish) == (n, "context")
        both = check(replace(full, max_tokens=n))
        assert both[-1].finish == "length"


@pytest.mark.parametrize("drafter", [*CHAINS, "branches"])
def test_stop_strings_that_come_again_and_again_hold_where_they_first_end(drafter: str) -> None:
    base = replace(BASE, drafter=drafter)
    text = reference(base)
    ends = set()
    for first in range(len(text) - 6):
        for n in range(1, 5):
            stop = "".join(PIECES[token] for token in text[first : first + n])
            case = replace(base, stops=(stop,))
            check(case)
            ends.add(len(due(case, text)[0]))
            at_the_limit = check(replace(case, max_tokens=len(due(case, text)[0])))
            assert at_the_limit[-1].finish == "stop"
    assert len(ends) > 4


EVERY = replace(
    BASE,
    toy=Options(vocab_size=512, seed=1, order=2, max_length=64),
    pieces=tuple(f"<{token}>" for token in range(512)),
)
"""No token comes twice in this text, so that each index can be the one where it ends."""


@pytest.mark.parametrize("length", [1, 5, 16])
@pytest.mark.parametrize("drafter", [*CHAINS, "branches"])
def test_stop_ids_and_stop_strings_hold_at_every_index(drafter: str, length: int) -> None:
    base = replace(EVERY, drafter=drafter, lengths=(length, 3))
    text = reference(base)
    assert len(set(text)) == len(text)
    for n in range(1, base.max_tokens + 1):
        before, last = ("".join(base.pieces[token] for token in part) for part in (text[: n - 1], text[n - 1 : n]))
        for ends in (
            {"stop_ids": frozenset({text[n - 1]})},
            {"stops": (last,)},
            {"stops": (f"{before[-4:]}{last[:2]}",)},  # begins in a token before and ends inside this one
        ):
            case = replace(base, **ends)
            rounds = check(case)
            assert (len(written(rounds)), rounds[-1].finish) == (n, "stop")
            assert check(replace(case, max_tokens=n))[-1].finish == "stop"


def test_a_scan_finds_what_looking_at_every_prefix_finds() -> None:
    text = reference(BASE)
    for stops in (("ca",), ("abab", "bc"), ("zz",), ("a",)):
        for size in (1, 2, 5):
            scan = PieceScanner(PIECES, stops)
            kept = None
            for start in range(0, len(text), size):
                found = scan(text[start : start + size])
                if found is not None:
                    kept = start + found
                    break
            assert kept == first_stop(PIECES, stops, text)
