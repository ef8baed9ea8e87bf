"""What `make demo` installs: no PyTorch, and less than 1 GB, by the requirements that packages declare."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

MOST_BYTES = 10**9
ROOT = Path(__file__).resolve().parents[2]


def requirements(extra: str) -> dict[str, Distribution]:
    """Every package that `surefoot[extra]` brings here, itself among them, by name."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    todo = [("surefoot", ""), ("surefoot", extra)]
    while todo:
        name, its_extra = todo.pop()
        if (name, its_extra) in seen:
            continue
        seen.add((name, its_extra))
        found[name] = distribution(name)
        for text in found[name].requires or ():
            required = Requirement(text)
            if required.marker is None or required.marker.evaluate({"extra": its_extra}):
                todo += [(canonicalize_name(required.name), each) for each in ("", *required.extras)]
    return found


def sizes(package: Distribution) -> Iterator[int]:
    for file in package.files or ():
        path = Path(str(file.locate()))
        if path.is_file():
            yield path.stat().st_size


def extras_of_the_demo() -> str:
    (line,) = [text for text in (ROOT / "Makefile").read_text().splitlines() if text.startswith("DEMO_EXTRAS")]
    return line.partition("?=")[2].strip()


def test_the_demo_installs_no_pytorch_and_less_than_a_gigabyte() -> None:
    extra = extras_of_the_demo()
    assert extra == "openvino"
    try:
        found = requirements(extra)
    except PackageNotFoundError as error:
        pytest.skip(f"not everything of 'surefoot[{extra}]' is installed here: {error}")
    assert {"numpy", "openvino", "transformers"} <= set(found)
    assert not [name for name in found if name.startswith(("torch", "nvidia", "triton", "accelerate"))]
    taken = sum(size for package in found.values() for size in sizes(package))
    assert 10**8 < taken < MOST_BYTES


def test_pytorch_is_seen_where_it_is_required() -> None:
    try:
        assert "torch" in requirements("hf")
    except PackageNotFoundError as error:
        pytest.skip(f"not everything of 'surefoot[hf]' is installed here: {error}")
