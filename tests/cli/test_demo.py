"""`surefoot demo` shows both texts, compares them, and ends with 1 when a token differs."""

from __future__ import annotations

import json

import pytest
from cli_run import start, surefoot, wait

pytestmark = pytest.mark.model


def test_the_texts_are_the_same_and_the_table_adds_up() -> None:
    done = surefoot("demo", "--max-tokens", 12, "--json")
    assert done.code == 0, done
    pairs = json.loads(done.out)["pairs"]
    assert [pair["workload"] for pair in pairs] == ["chat", "code", "json"]
    for pair in pairs:
        assert pair["off"]["ids"] == pair["on"]["ids"]
        assert pair["difference"] is None
        assert pair["off"]["stats"]["accepted"] == 0
        assert pair["ratio"] == pair["on"]["stats"]["tokens_per_second"] / pair["off"]["stats"]["tokens_per_second"]


UNTRUE = """
import sys
from surefoot.core import loop
from surefoot.core.types import Verdict
from surefoot.core.judge import MatchJudge
real = MatchJudge.judge
def wrong(self, draft, scores, history):
    verdict = real(self, draft, scores, history)
    if len(draft) == 0 or len(verdict.new_ids) == 1 + len(draft):
        return verdict
    return Verdict((*verdict.new_ids[:-1], verdict.new_ids[-1] ^ 1), verdict.path)
MatchJudge.judge = wrong
from surefoot.app.cli.main import main
sys.exit(main())
"""
"""A judge whose correction after a turned-down draft is wrong."""


def test_a_token_that_differs_is_named_and_the_exit_code_is_1() -> None:
    done = wait(start(["-c", UNTRUE, "demo", "--max-tokens", "30"]))
    assert done.code == 1, done
    assert "different from token" in done.out
    assert "apart" in done.out
