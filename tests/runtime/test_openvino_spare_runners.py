"""A runner of OpenVINO that serves the next session keeps nothing of the text before; one in doubt serves nobody."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("openvino", reason="the openvino extra is not installed")
pytest.importorskip("torch", reason="torch is not installed, and it writes the models under test")

from openvino_tiny import expected_logits, tiny

from surefoot.targets.openvino import Options, build
from surefoot.targets.openvino.export import export

IDS = np.arange(3, 40, dtype=np.int32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runners")
    tiny("llama").save_pretrained(root / "source")
    export(root / "source", root / "model")
    return root / "model"


def test_the_next_session_takes_over_the_runner_of_a_closed_one_and_nothing_of_its_text(folder: Path) -> None:
    target = build(Options(threads=1), folder)
    first = target.open()
    first.prefill(IDS[::-1].copy())
    first.extend(np.array([5, 6, 7], np.int32))
    first.commit(1)
    runner = first._runner
    first.close()
    first.close()
    second, third = target.open(), target.open()
    assert second._runner is runner
    assert third._runner is not runner
    expected = expected_logits(tiny("llama"), IDS.tolist())[-1]
    for session in (second, third):
        assert np.allclose(session.prefill(IDS).logits(0), expected, atol=1e-3)
        session.close()


def test_a_runner_whose_cache_is_not_known_serves_nobody_again(folder: Path) -> None:
    target = build(Options(threads=1), folder)
    session = target.open()
    session.prefill(IDS)
    runner = session._runner
    session._torn = True
    session.close()
    assert target.open()._runner is not runner
