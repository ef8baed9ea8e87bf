"""What `inspect` reads from an OpenVINO folder is what the runtime finds in the graph, and so are the reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openvino", reason="the openvino extra is not installed")
pytest.importorskip("torch", reason="torch is not installed, and it writes the models under test")

import openvino as ov
from openvino_tiny import tiny
from test_openvino_refusals import (
    changed,
    eight_rows,
    extra_input,
    handed_in_and_out,
    head_on_the_last_row,
    head_on_the_last_row_unseen,
    one_row,
    recurrent,
    renamed,
    stateless,
    without,
)

from surefoot.core.errors import NotEligible
from surefoot.engine.inspect import inspect, ir_xml, openvino_ir
from surefoot.targets.openvino.export import export
from surefoot.targets.openvino.layout import ports_of, read_layout
from surefoot.targets.openvino.names import MODEL_FILE


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("inspected")
    tiny("llama").save_pretrained(root / "model")
    export(root / "model", root / "out")
    export(root / "model", root / "caller", cache="caller")
    return root / "out"


def both(folder: Path) -> tuple[Any, Any]:
    """Inputs, outputs and states as the file has them, and as the runtime does."""
    file = folder / MODEL_FILE
    return openvino_ir.ports_of(ir_xml.read(file), file.with_suffix(".bin")), ports_of(ov.Core().read_model(file))


def same(read: Any, found: Any) -> bool:
    return (
        dict(read.inputs) == dict(found.inputs)
        and sorted(map(sorted, read.names)) == sorted(map(sorted, found.names))
        and sorted(read.states) == sorted(found.states)
        and read.logits == found.logits
        and set(read.outputs) == set(found.outputs)
    )


CHANGES = (
    one_row,
    eight_rows,
    head_on_the_last_row,
    without("position_ids"),
    without("attention_mask"),
    renamed,
    extra_input,
    stateless,
    handed_in_and_out,
    recurrent,
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: getattr(change, "__qualname__", "").split(".")[0])
def test_a_graph_is_refused_for_the_reason_that_its_file_shows(change: Any, whole: Path, tmp_path: Path) -> None:
    folder = changed(whole, tmp_path / "changed", change)
    assert same(*both(folder))
    with pytest.raises(NotEligible) as caught:
        read_layout(ov.Core().read_model(folder / MODEL_FILE), folder, False)
    facts = openvino_ir.read(folder)
    assert openvino_ir.told(folder, facts) == str(caught.value)
    assert not inspect(str(folder), tmp_path).works


@pytest.mark.parametrize("kind", ["out", "caller"])
def test_our_own_exports_are_read_as_the_runtime_reads_them(kind: str, whole: Path, tmp_path: Path) -> None:
    folder = whole.parent / kind
    assert same(*both(folder))
    found = inspect(str(folder), tmp_path)
    assert {each.runtime: each.answer for each in found.runtimes}["openvino"] == "yes"
    assert found.facts.vocabulary is not None
    assert found.facts.vocabulary.value == 211


def test_a_head_that_only_a_trial_shows_is_not_called_whole(whole: Path, tmp_path: Path) -> None:
    """The runtime finds it when it tries the graph; the file shows a slice behind the head, and no more."""
    folder = changed(whole, tmp_path / "changed", head_on_the_last_row_unseen)
    found = inspect(str(folder), tmp_path)
    assert found.facts.head is None
    assert found.verdict.answer == "not known"
