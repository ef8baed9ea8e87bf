"""`surefoot demo` shows both texts, compares them, and ends with 1 when a token differs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli_run import environment, start, surefoot, wait

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


NO_NETWORK = """
import sys
def refuse(event, arguments):
    if event == "socket.getaddrinfo" or (event == "socket.connect" and isinstance(arguments[1], tuple)):
        raise OSError(101, "the test allows no network")
sys.addaudithook(refuse)
"""
"""Python runs it at the start of every process, those that the command starts among them."""


def test_a_second_run_needs_no_network(tmp_path: Path) -> None:
    first = surefoot("demo", "--max-tokens", 4, "--json")
    assert first.code == 0, first
    (tmp_path / "sitecustomize.py").write_text(NO_NETWORK)
    without = {"PYTHONPATH": str(tmp_path), "HF_HUB_OFFLINE": "0"}
    tried = subprocess.run(
        [sys.executable, "-c", "import socket; socket.create_connection(('127.0.0.1', 9))"],
        env=environment(**without), capture_output=True, text=True,
    )  # fmt: skip
    assert "the test allows no network" in tried.stderr
    again = surefoot("demo", "--max-tokens", 4, "--json", env=without)
    assert again.code == 0, again
    texts = [[pair["on"]["ids"] for pair in json.loads(done.out)["pairs"]] for done in (first, again)]
    assert texts[0] == texts[1]
