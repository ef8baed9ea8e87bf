"""How gates are run: what is tried again and under which lock, what cannot be tried, and how far they are."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gate_models import toy_model

from surefoot.core.errors import ConfigError, NotEligible
from surefoot.core.types import Ids
from surefoot.engine.generator import Model
from surefoot.lab import gates
from surefoot.lab.gates import lossless, rows
from surefoot.lab.gates.alone import alone
from surefoot.lab.gates.inputs import inputs
from surefoot.lab.gates.writing import Written
from surefoot.lab.records import Gate


def test_a_gate_tells_how_far_it_is(tmp_path: Path) -> None:
    for name in ("rows", "lossless", "contamination"):
        seen: list[tuple[int, int]] = []
        gates.run(name, toy_model(), tmp_path, quick=True, progress=lambda done, total: seen.append((done, total)))  # noqa: B023
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)
        assert seen[-1][0] == seen[-1][1]
        assert len({total for _, total in seen}) == 1


def test_quick_tries_less_and_says_how_much(tmp_path: Path) -> None:
    quick, full = (gates.run("rows", toy_model(), tmp_path, quick=way) for way in (True, False))
    assert quick.details["rows"] < full.details["rows"]
    assert f"of {quick.details['rows']} rows" in quick.text


def test_every_row_count_up_to_the_longest_draft_is_tried(tmp_path: Path) -> None:
    model = toy_model()
    gate = gates.run("rows", model, tmp_path, quick=True)
    assert list(map(int, gate.details["by_rows"])) == list(range(1, 12))
    longer = replace(
        model, config=replace(model.config, policy=replace(model.config.policy, options={"draft_len": 14}))
    )
    gate = gates.run("rows", longer, tmp_path, quick=True)
    assert list(map(int, gate.details["by_rows"])) == list(range(1, 16))


def test_inputs_leave_room_in_a_small_context() -> None:
    model = toy_model(max_length=64)
    assert all(len(text.ids) <= 64 - 40 for text in inputs(model, 6, 40))
    with pytest.raises(NotEligible, match="context of 64 tokens is too short"):
        inputs(model, 1, 64)


def test_without_room_for_a_draft_no_gate_can_be_tried(tmp_path: Path) -> None:
    model = toy_model(max_rows=1)
    outcome = gates.outcome("rows", model, tmp_path)
    assert isinstance(outcome, gates.NotRun)
    assert "one row at a time" in outcome.reason


def test_the_toy_has_no_vendor(tmp_path: Path) -> None:
    outcome = gates.outcome("baseline", toy_model(), tmp_path)
    assert outcome == gates.NotRun("baseline", "the runtime toy has no generate of its own to compare with.")


def test_an_unknown_gate_is_named() -> None:
    with pytest.raises(ConfigError, match=r"no gate called 'row'; did you mean 'rows'"):
        gates.check_names(["lossless", "row"])


def test_near_tie_settings_need_the_users_word_where_drafts_are_used() -> None:
    model = toy_model()
    model.target.caps = replace(model.target.caps, row_class="near-tie")  # type: ignore[misc]
    gates.check_near_ties(model, ["rows", "baseline"])
    with pytest.raises(NotEligible, match="--only rows"):
        gates.check_near_ties(model, ["lossless"])
    allowed = replace(model, config=replace(model.config, allow_near_ties=True))
    gates.check_near_ties(allowed, gates.NAMES)
    assert gates.near_tie_below(allowed) == 0.0, "twice the delta of the toy, whose rows are exact"
    model.target.caps = replace(model.target.caps, row_class="row-dependent")  # type: ignore[misc]
    gates.check_near_ties(allowed, ["rows", "baseline"])
    with pytest.raises(NotEligible, match="no drafts to try"):
        gates.check_near_ties(allowed, ["contamination"])


# --- again, alone ----------------------------------------------------------------------------------------------------


@contextmanager
def flaw(monkeypatch: pytest.MonkeyPatch, first: int) -> Iterator[list[int]]:
    """The first `first` texts with drafts on have a wrong last token."""
    good, written = lossless.write, list[int]()

    def write(model: Model, prompt: Ids, drafter: Any, policy: Any, n_tokens: int) -> Written:
        text = good(model, prompt, drafter, policy, n_tokens)
        written.append(n_tokens)
        if len(written) > first:
            return text
        return replace(text, ids=(*text.ids[:-1], (text.ids[-1] + 1) % 96))

    with monkeypatch.context() as patch:
        patch.setattr(lossless, "write", write)
        yield written


def tried(tmp_path: Path) -> Gate:
    return gates.run("lossless", toy_model(), tmp_path, quick=True)


def test_a_failure_is_run_again_alone_and_counts_only_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with flaw(monkeypatch, 0) as written:
        assert tried(tmp_path).details["unsteady"] == 0
    with flaw(monkeypatch, 1) as again:
        gate = tried(tmp_path)
    assert len(again) == len(written) + 1
    assert gate.passed
    assert gate.details["unsteady"] == 1
    with flaw(monkeypatch, 2):
        gate = tried(tmp_path)
    assert not gate.passed
    assert gate.figure == 1
    (failure,) = gate.details["failures"]
    assert failure["again"]["failed"]
    assert failure["divergence"]["index"] == failure["tokens"] - 1


def test_the_second_run_holds_the_lock_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from filelock import FileLock, Timeout

    held: list[bool] = []
    good = lossless.plain

    def plain(*given: Any) -> tuple[int, ...]:
        try:
            with FileLock(tmp_path / "gates.lock", timeout=0):
                held.append(False)
        except Timeout:
            held.append(True)
        return good(*given)

    monkeypatch.setattr(lossless, "plain", plain)
    with flaw(monkeypatch, 1):
        tried(tmp_path)
    assert held == [False, True, False]


def test_one_at_a_time(tmp_path: Path) -> None:
    inside, seen = [0], list[int]()

    def work() -> None:
        with alone(tmp_path):
            inside[0] += 1
            seen.append(inside[0])
            inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1] * 8


def test_a_cache_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="lock of the gates cannot be taken"), alone(tmp_path / "file"):
        pass


def test_a_weaker_class_than_claimed_fails_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = rows._blocks

    def nudged(*given: Any) -> list[rows.Found]:
        return [found._replace(delta=found.delta + 0.2) for found in good(*given)]

    monkeypatch.setattr(rows, "_blocks", nudged)
    gate = gates.run("rows", toy_model(), tmp_path, quick=True)
    assert not gate.passed
    assert gate.details["row_class"] == "near-tie"
    assert gate.details["claimed"] == "identical"
