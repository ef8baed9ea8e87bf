"""What the engine lends to drafters: kept as long as the model, closed with the text, told to the user once."""

from __future__ import annotations

import pytest

from surefoot.core.errors import ConfigError, LawError, TargetError
from surefoot.core.sampling import Sampling
from surefoot.core.types import as_ids
from surefoot.drafters.union.drafter import Union
from surefoot.engine.config import Config
from surefoot.engine.guarded import Guarded
from surefoot.engine.tokenizer import Tokenizer
from surefoot.engine.workshop import Shelf, TextWorkshop
from surefoot.targets.toy import Options, ToyTarget

tiny = pytest.importorskip("tiny_tokenizers", reason="tokenizers is needed for tiny tokenizers")
TOY = ToyTarget(Options(vocab_size=300))


def tokenizer() -> Tokenizer:
    built: Tokenizer = tiny.build("byte_level")
    return built


class Loads:
    def __init__(self) -> None:
        self.asked: list[tuple[str, Config]] = []

    def __call__(self, model: str, config: Config) -> tuple[ToyTarget, Tokenizer]:
        self.asked.append((model, config))
        return TOY, tokenizer()


def workshop(shelf: Shelf) -> TextWorkshop:
    return TextWorkshop(shelf, TOY, tokenizer(), Sampling(), "match")


def test_a_companion_is_loaded_once_for_all_texts_and_by_its_settings() -> None:
    loads = Loads()
    shelf = Shelf(loads)
    first = workshop(shelf).companion("small", {"runtime": "toy", "runtime.order": 1})
    assert workshop(shelf).companion("small", {"runtime.order": 1, "runtime": "toy"}) is first
    assert workshop(shelf).companion("small", {"runtime": "toy", "runtime.order": 3}) is not first
    assert [(model, config.runtime.options["order"]) for model, config in loads.asked] == [("small", 1), ("small", 3)]
    assert {config.drafts.name for _, config in loads.asked} == {"off"}


def test_a_wrong_setting_of_a_companion_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="oder"):
        workshop(Shelf(Loads())).companion("small", {"runtime": "toy", "runtime.oder": 1})


def test_a_model_that_was_put_together_by_hand_has_no_companions() -> None:
    with pytest.raises(ConfigError, match=r"surefoot\.load"):
        workshop(Shelf()).companion("small", {})


def test_sessions_end_with_the_text() -> None:
    lent = workshop(Shelf())
    session = lent.open(TOY)
    session.prefill(as_ids([1]))
    lent.close()
    with pytest.raises(TargetError, match="closed"):
        session.extend(as_ids([1]))
    lent.close()


def test_a_note_is_told_once() -> None:
    lent = workshop(Shelf())
    lent.note("one")
    lent.note("one")
    assert lent.notes == ["one"]


def test_drafters_are_built_with_or_without_the_workshop() -> None:
    assert workshop(Shelf()).drafter("ngram", {"max_n": 3}).needs.trees is False
    with pytest.raises(ConfigError, match="max_m"):
        workshop(Shelf()).drafter("ngram", {"max_m": 3})


@pytest.mark.parametrize("kind", tiny.BUILDERS)
def test_a_vocabulary_spells_what_the_tokenizer_does(kind: str) -> None:
    built = tiny.build(kind)
    vocabulary = built.vocabulary
    assert len(vocabulary) == built.vocab_size
    assert list(vocabulary.spelled) == [built.token_bytes(token) for token in range(built.vocab_size)]
    assert vocabulary.control == built.special_ids
    assert all(len(vocabulary.spelled[token]) == 1 for token in vocabulary.single)
    assert vocabulary.single == {token for token in range(built.vocab_size) if built.is_byte(token)}


def test_every_drafter_is_guarded_and_a_union_guards_each_member() -> None:
    made = workshop(Shelf()).drafter("suffix+ngram", {})
    assert isinstance(made, Guarded)
    assert isinstance(made.inner, Union)
    assert all(isinstance(member.drafter, Guarded) for member in made.inner.members)


def test_what_is_due_at_the_end_is_done_once_and_cannot_take_the_text_away() -> None:
    lent, done = workshop(Shelf()), []

    def full() -> None:
        raise ConfigError("the disk is full.")

    lent.at_end(full)
    lent.at_end(lambda: done.append(1))
    lent.close()
    lent.close()
    assert (done, lent.notes) == ([1], ["the disk is full."])


@pytest.mark.parametrize("error", [RuntimeError("File 12345 is encrypted"), MemoryError(), OSError(28, "12345")])
def test_an_error_at_the_end_that_is_not_ours_is_noted_by_its_kind_and_frees_the_sessions(error: Exception) -> None:
    """Its words may quote the text."""
    lent = workshop(Shelf())
    done: list[int] = []
    session = lent.open(TOY)
    session.prefill(as_ids([1]))

    def fail() -> None:
        raise error

    lent.at_end(fail)
    lent.at_end(lambda: done.append(1))
    lent.close()
    assert done == [1]
    (note,) = lent.notes
    assert f"failed ({type(error).__name__} at test_workshop.py:" in note
    assert "12345" not in note
    with pytest.raises(TargetError, match="closed"):
        session.extend(as_ids([1]))


def test_an_error_of_the_law_at_the_end_is_raised_once_the_sessions_are_free() -> None:
    lent = workshop(Shelf())
    session = lent.open(TOY)
    session.prefill(as_ids([1]))

    def break_the_law() -> None:
        raise LawError("the text may be wrong")

    lent.at_end(break_the_law)
    with pytest.raises(LawError, match="may be wrong"):
        lent.close()
    with pytest.raises(TargetError, match="closed"):
        session.extend(as_ids([1]))


def test_a_session_that_cannot_be_closed_leaves_no_other_open() -> None:
    lent = workshop(Shelf())
    first, second, third = (lent.open(TOY) for _ in range(3))
    for session in (first, third):
        session.prefill(as_ids([1]))

    def fail() -> None:
        raise TargetError("stuck", backend="toy", operation="close")

    second.close = fail  # type: ignore[method-assign]
    with pytest.raises(TargetError, match="stuck"):
        lent.close()
    for session in (first, third):
        with pytest.raises(TargetError, match="closed"):
            session.extend(as_ids([1]))


def test_a_text_whose_session_cannot_be_closed_ends_for_its_drafter_all_the_same() -> None:
    from timed_toy import VirtualClock, timed_model

    generation = timed_model(VirtualClock()).generate([1, 2, 3])
    done: list[int] = []

    def fail() -> None:
        raise TargetError("stuck", backend="toy", operation="close")

    generation._session.close = fail  # type: ignore[method-assign]
    generation._workshop.at_end(lambda: done.append(1))
    with pytest.raises(TargetError, match="stuck"):
        generation.close()
    assert done == [1]


def test_it_says_which_model_it_is_and_lends_the_clock_of_the_text() -> None:
    lent = TextWorkshop(Shelf(identity="abc"), TOY, tokenizer(), Sampling(), "match", lambda: 42.0)
    assert (lent.identity, lent.clock()) == ("abc", 42.0)
    assert workshop(Shelf()).identity == ""


def test_it_says_what_a_gate_found_of_the_rows() -> None:
    assert workshop(Shelf()).row_class == "identical"
    lent = TextWorkshop(Shelf(), TOY, tokenizer(), Sampling(), "match", row_class="near-tie")
    assert lent.row_class == "near-tie"
    made = lent.drafter("union", {})
    assert isinstance(made, Guarded)
    assert isinstance(made.inner, Union)
    assert made.inner._clock is None
