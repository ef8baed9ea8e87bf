"""The options of `surefoot bench`: what each means, one sentence where it cannot be read, and what is repeated."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from surefoot.app.cli import bench_options as options
from surefoot.core.errors import ConfigError


def test_what_options_mean() -> None:
    assert options.budgets("512,256") == (256, 512)
    assert options.budgets("2") == (2,)
    assert options.names("chat, code") == ("chat", "code")
    assert options.band("26,28.5") == (26.0, 28.5)
    assert [options.seconds(text) for text in ("90s", "12m", "1.5h")] == [90, 720, 5400]
    assert (options.count(None, "--pairs"), options.count(3, "--pairs")) == (None, 3)


@pytest.mark.parametrize(
    ("read", "texts"),
    [
        (options.budgets, ["", ",", "256,", "256,256", "1", "0", "-5", "2.5", "many", "256;512"]),
        (options.names, ["", ",", "chat,", "chat,chat"]),
        (options.band, ["", "26", "26,", ",28", "28,26", "26,26", "0,28", "-1,28", "26,inf", "nan,28", "a,b", "1,2,3"]),
        (options.seconds, ["", "90", "0s", "-5s", "5 min", "1d", "infs", "soon", "12m30s"]),
    ],
)
def test_what_cannot_be_read(read: Callable[[str], object], texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(ConfigError) as refused:
            read(text)
        sentence = str(refused.value)
        assert sentence.startswith("--"), sentence
        assert "\n" not in sentence


@pytest.mark.parametrize("value", [0, -3])
def test_numbers_of_nothing(value: int) -> None:
    with pytest.raises(ConfigError, match=f"--pairs must be at least 1; got {value}"):
        options.count(value, "--pairs")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("bench m --out x --json -q --debug", "bench m"),
        ("bench m --out=x --time-limit=12m --pairs 3 --quiet", "bench m --pairs 3"),
        ("bench --time-limit 12m m --arm off", "bench m --arm off"),
        ("bench --resume x --json --time-limit 3s", "bench"),
    ],
)
def test_a_run_is_repeated_with_what_decides_its_figures(given: str, kept: str) -> None:
    assert options.repeated(given.split()) == tuple(kept.split())
