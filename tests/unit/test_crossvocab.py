"""D5: the surface map both ways, and a draft model that keeps reading the same text in its own tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.core.errors import ConfigError, NotEligible
from surefoot.core.noise import KeyedSampler
from surefoot.core.ports import Companion, Drafter, Target
from surefoot.core.sampling import Sampling
from surefoot.core.types import Vocabulary, as_ids
from surefoot.drafters.crossvocab.surface import MISS, SurfaceMap, surface_map
from surefoot.drafters.model.follower import Follower, Style
from surefoot.targets.toy import DISCIPLINES, Options, ToyTarget
from surefoot.testing.conformance import check_drafter
from surefoot.testing.drafter_suite import run, written
from surefoot.testing.drafters import Guesser, scripted
from surefoot.testing.workshops import ToyWorkshop

tiny = pytest.importorskip("tiny_tokenizers", reason="tokenizers is needed for tiny tokenizers")

LETTERS = Vocabulary([b"a", b"b", b"c", b"ab", b"bc", b"<end>"], control=frozenset({5}))
PROMPT = as_ids([0, 3, 4, 1, 2])


def toy(vocab_size: int = 6, **changes: object) -> ToyTarget:
    base = Options(vocab_size=vocab_size, order=2, strength=1.0, seed=2, max_length=128)
    return ToyTarget(replace(base, **changes))  # type: ignore[arg-type]


def spelled(vocabulary: Vocabulary, ids: list[int]) -> bytes:
    return b"".join(vocabulary.spelled[token] for token in ids if token not in vocabulary.control)


# --- the map ---------------------------------------------------------------------------------------------------------


def test_the_lowest_id_stands_for_a_text_but_not_a_byte_for_a_letter() -> None:
    second = Vocabulary([b"a", b"b", b"a", b"a", b"b", b"\xc3"], single=frozenset({0, 5}))
    crossing = surface_map(LETTERS, 6, second, 6)
    assert crossing.to_second.tolist() == [2, 1, MISS, MISS, MISS, MISS]
    assert crossing.to_target.tolist() == [0, 1, 0, 0, 1, MISS]
    assert crossing.read([0, 1]) == [2, 1]


def test_a_token_without_a_counterpart_is_read_in_the_longest_pieces() -> None:
    target = Vocabulary([b"abcab", b"cx", b"<end>", b""], control=frozenset({2}))
    second = Vocabulary([b"c", b"b", b"a", b"ab", b"abx"])
    crossing = surface_map(target, 5, second, 5)
    assert crossing.read([0]) == [3, 0, 3]
    assert crossing.read([1, 2, 3, 4]) == [0], "what cannot be spelled, control tokens and padding are left out"


def test_control_tokens_and_padding_are_misses() -> None:
    second = Vocabulary([b"<end>", b"a", b""], control=frozenset({0}))
    crossing = surface_map(LETTERS, 8, second, 5)
    assert crossing.to_target.tolist() == [MISS, 0, MISS, MISS, MISS]
    assert [crossing.named(token) for token in range(5)] == [None, 0, None, None, None]


def test_the_coverage_counts_what_spells_something() -> None:
    second = Vocabulary([b"<end>", b"a", b"", b"a", b"x"], control=frozenset({0}))
    coverage = surface_map(LETTERS, 6, second, 5).coverage
    assert (coverage.its_tokens, coverage.its_shared, coverage.tokens, coverage.shared) == (3, 2, 5, 1)
    assert (coverage.its_share, coverage.share) == (2 / 3, 1 / 5)


def test_a_row_has_the_logit_of_the_lowest_id_and_then_the_misses() -> None:
    second = Vocabulary([b"b", b"a", b"x", b"a"])
    crossing = surface_map(LETTERS, 6, second, 5)
    row = crossing.row(as_ids([10, 20, 30, 40, 50]).astype("float32"))
    assert row[[0, 1]].tolist() == [20, 10]
    assert row[6:].tolist() == [30, 50]
    assert all(row[2:6] < -1e8)


@pytest.mark.parametrize("ours", tiny.BUILDERS)
@pytest.mark.parametrize("its", tiny.BUILDERS)
def test_real_tokenizers_cross_to_the_same_text(ours: str, its: str) -> None:
    target, second = tiny.build(ours).vocabulary, tiny.build(its).vocabulary
    crossing = surface_map(target, len(target) + 3, second, len(second) + 1)
    if ours == its:
        texts = [t for t, text in enumerate(target.spelled) if text and t not in target.control]
        assert crossing.coverage.share == crossing.coverage.its_share == 1.0
        assert all(target.spelled[crossing.to_second[t]] == target.spelled[t] for t in texts)
    for token in range(len(target)):
        read = crossing.read([token])
        if token in target.control:
            assert read == []
        elif its == "byte_level":  # a vocabulary in which every byte has a token
            assert spelled(second, read) == target.spelled[token]
        its_id = int(crossing.to_second[token])
        assert its_id == MISS or crossing.to_target[its_id] != MISS
    for its_id in range(len(second) + 1):
        token_or_none = crossing.named(its_id)
        if token_or_none is not None:
            assert target.spelled[token_or_none] == second.spelled[its_id]
            assert len(crossing.read([token_or_none])) == 1


# --- the drafter -----------------------------------------------------------------------------------------------------


def follow(crossing: SurfaceMap, second: Target, sampling: Sampling, style: Style) -> Follower:
    return Follower(
        second,
        crossing.vocab_size,
        crossing,
        style,
        sampling,
        KeyedSampler(sampling.seed),
        open_session=lambda target: target.open(),
        pause=lambda seconds: None,
        clock=lambda: 0.0,
        note=lambda sentence: None,
    )


SECONDS = {
    "another order": Vocabulary([b"bc", b"ab", b"c", b"b", b"a", b"<s>"], control=frozenset({5}), start=(5,)),
    "letters alone": Vocabulary([b"c", b"b", b"a"]),
    "more than it needs": Vocabulary([b"abc", b"c", b"a", b"a", b"b", b"bca", b"x"], single=frozenset({2})),
    "one letter": Vocabulary([b"b", b"?", b"!"]),
}


HOLDS = [(name, "truncate") for name in SECONDS] + [("letters alone", other) for other in DISCIPLINES[1:]]


@pytest.mark.parametrize(("name", "discipline"), HOLDS)
def test_the_contract_holds(name: str, discipline: str) -> None:
    vocabulary = SECONDS[name]
    second = toy(len(vocabulary) + 1, discipline=discipline, seed=4)
    crossing = surface_map(LETTERS, 6, vocabulary, len(vocabulary) + 1)
    style = Style("crossvocab", "greedy" if name == "one letter" else "shared", 0.2)

    def make(target: Target) -> Drafter:
        return follow(crossing, second, Sampling(temperature=1.0, seed=3), style)

    check_drafter(make, toy(), prompts=[[1, 2, 3, 1, 2, 3, 1], [5]])


class Spy:
    """A target whose sessions are kept, to see what their caches hold."""

    def __init__(self, inner: ToyTarget) -> None:
        self.caps = inner.caps
        self.inner = inner
        self.fed: list[list[int]] = []

    def open(self, taps: tuple[str, ...] = ()):  # type: ignore[no-untyped-def]
        session = self.inner.open(taps)
        held: list[int] = []
        self.fed.append(held)
        tail: list[int] = []
        prefill, extend, commit, reset = session.prefill, session.extend, session.commit, session.reset

        def spy_prefill(ids):  # type: ignore[no-untyped-def]
            tail.extend(ids.tolist())
            return prefill(ids)  # which commits by the verb below

        def spy_extend(ids):  # type: ignore[no-untyped-def]
            tail.extend(ids.tolist())
            return extend(ids)

        def spy_commit(keep):  # type: ignore[no-untyped-def]
            held.extend(tail[:keep])
            tail.clear()
            return commit(keep)

        def spy_reset(keep=0):  # type: ignore[no-untyped-def]
            result = reset(keep)
            del held[keep:]
            return result

        session.prefill, session.extend, session.commit, session.reset = spy_prefill, spy_extend, spy_commit, spy_reset
        return session


@given(
    st.sampled_from(sorted(SECONDS)),
    st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(any),
    st.sampled_from(["shared", "greedy"]),
    st.integers(0, 5),
)
def test_its_cache_reads_the_text_of_the_target(name: str, lengths: list[int], draws: str, seed: int) -> None:
    vocabulary = SECONDS[name]
    second = Spy(toy(len(vocabulary), seed=4))
    crossing = surface_map(LETTERS, 6, vocabulary, len(vocabulary))
    sampling = Sampling(temperature=1.0, seed=seed)
    drafter = follow(crossing, second, sampling, Style("crossvocab", draws))  # type: ignore[arg-type]
    rounds = run(drafter, toy(), PROMPT, 40, lengths=lengths, sampling=sampling)
    plain = run(Guesser(scripted([])), toy(), PROMPT, 40, lengths=[0], sampling=sampling)
    assert written(rounds) == written(plain)
    text = [*vocabulary.start, *crossing.read([*PROMPT.tolist(), *written(rounds)])]
    for held in second.fed:
        assert held == text[: len(held)]
        assert len(held) >= len(vocabulary.start)


def test_a_draft_model_with_the_same_words_in_another_order_is_often_right() -> None:
    """Only a drafter that keeps reading the right text can be: the same toy under other numbers guesses as itself."""
    target = toy(5)
    words = Vocabulary([b"a", b"b", b"c", b"ab", b"bc"])
    crossing = surface_map(words, 5, words, 5)
    for sampling in (Sampling(), Sampling(temperature=1.0, seed=2)):
        rounds = run(follow(crossing, target, sampling, Style("crossvocab")), target, PROMPT, 60, sampling=sampling)
        assert all(round_.accepted == round_.evaluated for round_ in rounds)
        assert sum(round_.evaluated for round_ in rounds) > 30


# --- the plug-in -----------------------------------------------------------------------------------------------------


def workshop(second: Vocabulary, **changes: object) -> ToyWorkshop:
    companion = Companion("small", toy(len(second), **changes), second)
    return ToyWorkshop(toy(), {"small": companion}, vocabulary=LETTERS)


def test_the_coverage_is_told_to_the_user() -> None:
    lent = workshop(SECONDS["more than it needs"])
    lent.drafter("crossvocab", {"model": "small"})
    lent.drafter("crossvocab", {"model": "small"})
    assert set(lent.notes) == {
        "crossvocab, small: 4 of its 7 tokens (57%) are also tokens of the target, and 3 of the target's 5 (60%) are "
        "its own."
    }


def test_a_draft_model_that_shares_nothing_is_refused() -> None:
    with pytest.raises(NotEligible, match="shares too few tokens"):
        workshop(Vocabulary([b"x", b"y", b"z"])).drafter("crossvocab", {"model": "small"})


def test_a_draft_model_with_a_shorter_context_is_refused_unless_it_may_stop() -> None:
    lent = workshop(SECONDS["letters alone"], max_length=60)
    with pytest.raises(NotEligible, match="short_context = stop"):
        lent.drafter("crossvocab", {"model": "small"})
    lent.drafter("crossvocab", {"model": "small", "short_context": "stop"})


def test_a_drafter_without_a_draft_model_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"drafts\.model"):
        workshop(LETTERS).drafter("crossvocab", {})


# --- the drafter `model` refuses what crossvocab is for --------------------------------------------------------------


def same(second: Vocabulary, size: int, **changes: object) -> Drafter:
    companion = Companion("small", toy(size, **changes), second)
    return ToyWorkshop(toy(), {"small": companion}, vocabulary=LETTERS).drafter("model", {"model": "small"})


def test_a_draft_model_of_another_vocabulary_is_refused_with_the_first_difference() -> None:
    other = Vocabulary([b"a", b"b", b"x", b"ab", b"y", b"<end>"], control=frozenset({5}))
    with pytest.raises(NotEligible, match=r"2 tokens differ, first 2, which spells b'c' .* b'x' .* crossvocab"):
        same(other, 6)


@pytest.mark.parametrize("size", [5, 6, 9])
def test_padding_and_other_control_tokens_are_no_difference(size: int) -> None:
    same(Vocabulary([*LETTERS.spelled[:5], b"<stop>"][:size], control=frozenset({5})), size)


def test_the_drafter_model_refuses_a_shorter_context() -> None:
    with pytest.raises(NotEligible, match="holds 64 tokens and the target 128"):
        same(LETTERS, 6, max_length=64)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"confidence": 1.0}, "confidence"), ({"gap_ms": -1.0}, "gap_ms"), ({"draws": "both"}, "draws")],
)
def test_options_that_do_not_hold_are_refused(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        workshop(LETTERS).drafter("model", {"model": "small", **options})
