"""Every installed policy that needs nothing but its defaults keeps the contract."""

from __future__ import annotations

import pytest

from surefoot.core.errors import ConfigError, NotEligible
from surefoot.core.types import Draft, Round, State
from surefoot.engine import parts
from surefoot.testing.conformance import check_policy
from surefoot.testing.drafter_suite import Budgets


@pytest.mark.parametrize("name", parts.names("policy"))
def test_policy(name: str) -> None:
    try:
        plugin = parts.find("policy", name)
        plugin.build(plugin.options(), None)
    except (ConfigError, NotEligible) as error:
        pytest.skip(f"{name} needs more than its defaults: {error}")
    for seed in range(5):
        check_policy(lambda: plugin.build(plugin.options(), None), seed=seed)


class Negative(Budgets):
    def budget(self, state: State) -> int:
        return -1


class CutsTooLate(Budgets):
    def cut(self, draft: Draft) -> int:
        return len(draft) + 1


class Whim(Budgets):
    asked = 0

    def budget(self, state: State) -> int:
        Whim.asked += 1
        return Whim.asked % 5


class DividesByDrafts(Budgets):
    def learn(self, round: Round) -> None:
        self.given += round.accepted // round.drafted


@pytest.mark.parametrize(
    ("faulty", "error", "sentence"),
    [
        (Negative, AssertionError, "not a length"),
        (CutsTooLate, AssertionError, "cut of a draft of"),
        (Whim, AssertionError, "saw the same rounds"),
        (DividesByDrafts, ZeroDivisionError, "zero"),
    ],
)
def test_planted_policy_faults_are_caught(faulty: type[Budgets], error: type[Exception], sentence: str) -> None:
    check_policy(lambda: Budgets([3, 1, 4]))
    with pytest.raises(error, match=sentence):
        check_policy(lambda: faulty([3, 1, 4]))
