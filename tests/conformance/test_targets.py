"""Every installed target keeps the contract, on tiny models."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_models import RECIPES, Variant, refused

from surefoot.core.errors import NotEligible
from surefoot.core.ports import Target
from surefoot.engine import parts
from surefoot.testing.conformance import TARGET_CHECKS, check_target
from surefoot.testing.references import fresh_logits

CASES = [(name, variant) for name in parts.names("target") for variant in RECIPES.get(name, (None,))]
BUILT: dict[tuple[str, str], Target] = {}


@pytest.fixture(scope="session", name="build")
def _build(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    def build(name: str, variant: Variant | None) -> Target:
        if variant is None:
            pytest.skip(f"no tiny model is known for the target {name!r}; give it a recipe in tiny_models.py")
        if variant.missing():
            pytest.skip(f"{name} needs {', '.join(variant.missing())}, which is not installed")
        if (name, variant.label) not in BUILT:
            try:
                plugin = parts.find("target", name)
                model = variant.model(tmp_path_factory.mktemp(f"{name}-{variant.label}"))
                options = parts.make_options(plugin, variant.options, "runtime")
                BUILT[name, variant.label] = plugin.build(options, model)
            except NotEligible as error:
                pytest.skip(refused(error))
        return BUILT[name, variant.label]

    return build


@pytest.mark.parametrize("check", TARGET_CHECKS)
@pytest.mark.parametrize(("name", "variant"), CASES, ids=[f"{n}-{v.label if v else 'none'}" for n, v in CASES])
def test_target(name: str, variant: Variant | None, check: str, build) -> None:  # type: ignore[no-untyped-def]
    target = build(name, variant)
    check_target(lambda: target, tolerance=variant.tolerance if variant else 0.0, only=[check])


def test_the_toys_write_the_same_whatever_their_discipline(build) -> None:  # type: ignore[no-untyped-def]
    rows = [fresh_logits(build("toy", variant), [1, 2, 3, 1]) for variant in RECIPES["toy"][:6]]
    assert all(np.array_equal(row, rows[0]) for row in rows)
