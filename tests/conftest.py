"""What every test shares: the options that open the marked tests, and generated examples that repeat."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# The same examples on every run and machine, and nothing judged by the clock. To search for new ones:
# pytest --hypothesis-profile explore
settings.register_profile(
    "repeat", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeat")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests that take minutes")
    parser.addoption("--gpu", action="store_true", help="also run the tests that need a CUDA device")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--gpu"):
        import torch

        if not torch.cuda.is_available():
            raise pytest.UsageError("--gpu was given, but torch finds no CUDA device here; run without --gpu.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    closed = {
        name: pytest.mark.skip(reason=f"marked {name}: {why}; run with --{name}")
        for name, why in (("slow", "takes minutes"), ("gpu", "needs a CUDA device"))
        if not config.getoption(f"--{name}")
    }
    for item in items:
        for name, skip in closed.items():
            if item.get_closest_marker(name) is not None:
                item.add_marker(skip)
