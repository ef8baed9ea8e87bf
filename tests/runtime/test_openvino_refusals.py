"""What the OpenVINO target refuses, each with its own reason and what to do about it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openvino", reason="the openvino extra is not installed")
pytest.importorskip("torch", reason="torch is not installed, and it writes the models under test")

import openvino as ov
from openvino import opset13 as ops
from openvino_tiny import tiny

from surefoot.core.errors import ConfigError, DamagedModel, NotEligible, TargetError
from surefoot.targets.openvino import Options, build
from surefoot.targets.openvino.export import export

EXPORT = "surefoot export"
COMMAND = EXPORT + " MODEL --to openvino --out FOLDER$"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("refusals")
    tiny("llama").save_pretrained(root / "model")
    export(root / "model", root / "out")
    return root / "out"


def changed(whole: Path, out: Path, change: Callable[[Any], Any]) -> Path:
    """A copy of the folder, without our record, whose graph went through `change`."""
    out.mkdir()
    shutil.copy(whole / "config.json", out)
    graph = ov.Core().read_model(whole / "openvino_model.xml")
    ov.save_model(change(graph) or graph, out / "openvino_model.xml", compress_to_fp16=False)
    return out


def head_on_the_last_row(graph: Any) -> None:
    product = graph.output("logits").get_node().input_value(0).get_node()
    last = [ops.constant(np.array([n], np.int64)) for n in (-1, np.iinfo(np.int64).max, 1, 1)]
    product.input(0).replace_source_output(ops.slice(product.input_value(0), *last).output(0))
    graph.validate_nodes_and_infer_types()


def head_on_the_last_row_unseen(graph: Any) -> None:
    """The same, with a length that no shape inference can tell."""
    product = graph.output("logits").get_node().input_value(0).get_node()
    rows = ops.gather(ops.shape_of(graph.input("beam_idx")), ops.constant(np.array([0])), ops.constant(0))
    start = ops.multiply(rows, ops.constant(np.array([-1], np.int64)))
    end = [ops.constant(np.array([n], np.int64)) for n in (np.iinfo(np.int64).max, 1, 1)]
    port = graph.output("logits").get_node().input(0)
    port.replace_source_output(ops.slice(product.output(0), start, *end).output(0))
    graph.validate_nodes_and_infer_types()


def one_row(graph: Any) -> None:
    graph.reshape({"input_ids": [1, 1], "position_ids": [1, 1], "attention_mask": [1, -1], "beam_idx": [1]})


def eight_rows(graph: Any) -> None:
    graph.reshape({"input_ids": [1, 8], "position_ids": [1, 8], "attention_mask": [1, -1], "beam_idx": [1]})


def without(name: str) -> Callable[[Any], None]:
    def change(graph: Any) -> None:
        port = graph.input(name)
        shape = ops.shape_of(graph.input("input_ids"))
        filler = ops.broadcast(ops.constant(np.int64(1)), shape)
        for target in list(port.get_target_inputs()):
            target.replace_source_output(filler.output(0))
        graph.remove_parameter(port.get_node())

    return change


def renamed(graph: Any) -> None:
    graph.input("input_ids").get_tensor().set_names({"pixel_values"})


def extra_input(graph: Any) -> None:
    port = graph.input("position_ids")
    extra = ops.parameter([-1, -1], np.int64, "token_type_ids")
    extra.output(0).get_tensor().set_names({"token_type_ids"})
    for target in list(port.get_target_inputs()):
        target.replace_source_output(ops.add(port, extra).output(0))
    graph.add_parameters([extra])


def stateless(graph: Any) -> Any:
    ids = ops.parameter([-1, -1], np.int64, "input_ids")
    ids.output(0).get_tensor().set_names({"input_ids"})
    out = ops.result(ops.convert(ops.unsqueeze(ids, ops.constant(2)), "f32"))
    out.output(0).get_tensor().set_names({"logits"})
    return ov.Model([out], [ids], "stateless")


def handed_in_and_out(graph: Any) -> None:
    """What Optimum writes with --disable-stateful: each state an input, and an output of all its rows."""
    reads = {op.get_variable_id(): op for op in graph.get_ops() if op.get_type_name() == "ReadValue"}
    for sink in list(graph.get_sinks()):
        name, out = sink.get_variable_id().split("present")
        past, present = ops.parameter([-1, 2, -1, 16], np.float32), ops.result(sink.input_value(0))
        reads[sink.get_variable_id()].output(0).replace(past.output(0))
        past.output(0).get_tensor().set_names({name})
        present.output(0).get_tensor().set_names({f"present{out}"})
        graph.remove_sink(sink)
        graph.add_parameters([past])
        graph.add_results([present])
    graph.validate_nodes_and_infer_types()


def one_row_handed_in_and_out(graph: Any) -> None:
    handed_in_and_out(graph)
    one_row(graph)


def with_state(*shape: int) -> Callable[[Any], None]:
    """One state of this shape more, -1 where it is open."""

    def change(graph: Any) -> None:
        info = ov.op.util.VariableInfo()
        info.data_shape, info.data_type, info.variable_id = ov.PartialShape(list(shape)), ov.Type.f32, "conv"
        variable = ov.op.util.Variable(info)
        graph.add_variables([variable])
        start = ops.constant(np.zeros([max(0, size) for size in shape], np.float32))
        graph.add_sinks([ov.op.assign(ov.op.read_value(start, variable), variable)])

    return change


recurrent, across = with_state(1, 2, 4, 16), with_state(1, -1, 2, 16)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (one_row, f"a single row a forward .*: {COMMAND}"),
        (eight_rows, f"8 rows, no more and no fewer, .*: {COMMAND}"),
        (head_on_the_last_row, f"head on the last row only.*: {COMMAND}"),
        (head_on_the_last_row_unseen, f"1 rows of logits for 2 tokens.*: {COMMAND}"),
        (without("position_ids"), f"no input position_ids.*: {COMMAND}"),
        (without("attention_mask"), f"no input attention_mask.*: {COMMAND}"),
        (renamed, "is no language model: it reads [^:]*$"),
        (extra_input, "wants an input token_type_ids that a language model does not have$"),
        (stateless, f"has no cache; .*: {COMMAND}"),
        (handed_in_and_out, f"hands its whole cache in and out with every forward; .*: {COMMAND}"),
        (one_row_handed_in_and_out, f"hands its whole cache in and out with every forward; .*: {COMMAND}"),
        (recurrent, f"does not grow by one row a token .*; if all its layers are attention, .*: {COMMAND}"),
        (across, f"states that grow along different axes.*; if all its layers are attention, .*: {COMMAND}"),
    ],
)
def test_graphs_that_cannot_be_rolled_back_are_refused(change: Any, words: str, whole: Path, tmp_path: Path) -> None:
    folder = changed(whole, tmp_path / "changed", change)
    with pytest.raises(NotEligible, match=words) as caught:
        build(Options(threads=1), folder)
    assert "\n" not in str(caught.value)


def without_staged_rows(graph: Any) -> None:
    port = graph.input("staged.1.key")
    empty = ops.constant(np.zeros((1, 2, 0, 16), np.float32))
    for target in list(port.get_target_inputs()):
        target.replace_source_output(empty.output(0))
    graph.remove_parameter(port.get_node())


def of_open_heads(graph: Any) -> None:
    graph.input("history.0.key").get_node().set_partial_shape(ov.PartialShape([-1, -1, 16, 256]))
    graph.validate_nodes_and_infer_types()


def without_new_rows(graph: Any) -> None:
    graph.remove_result(graph.output("rows.2.value").get_node())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without_staged_rows, "its staged.1.key does not fit: surefoot export MODEL .* --cache caller$"),
        (of_open_heads, "its history.0.key does not fit"),
        (without_new_rows, "its rows.2.value does not fit"),
        (head_on_the_last_row, f"head on the last row only.*: {COMMAND}"),
    ],
)
def test_graphs_whose_caller_could_not_keep_the_cache_are_refused(
    change: Any, words: str, whole: Path, tmp_path: Path
) -> None:
    export(whole.parent / "model", tmp_path / "caller", cache="caller")
    build(Options(threads=1), tmp_path / "caller")
    folder = changed(tmp_path / "caller", tmp_path / "changed", change)
    with pytest.raises(NotEligible, match=words) as caught:
        build(Options(threads=1), folder)
    assert "\n" not in str(caught.value)


def test_the_unchanged_graph_is_not_refused(whole: Path, tmp_path: Path) -> None:
    build(Options(threads=1), changed(whole, tmp_path / "same", lambda graph: None))


def test_folders_that_hold_no_whole_model_are_refused(
    whole: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        build(Options(), tmp_path / "nothing")
    with pytest.raises(ConfigError, match=EXPORT):
        build(Options(), tmp_path)
    broken = tmp_path / "broken"
    shutil.copytree(whole, broken)
    weights = broken / "openvino_model.bin"
    content = weights.read_bytes()
    weights.write_bytes(content[:1000])
    with pytest.raises(ConfigError, match="cannot be read"):
        build(Options(), broken)
    weights.unlink()
    with pytest.raises(ConfigError, match="without its weights"):
        build(Options(), broken)
    weights.write_bytes(content)
    graph = (broken / "openvino_model.xml").read_bytes()
    for content in (graph[: len(graph) // 2], b"<net", b"hello", b""):
        (broken / "openvino_model.xml").write_bytes(content)
        with pytest.raises(DamagedModel, match="cannot be read"):
            build(Options(), broken)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_position_embeddings": "x"}, "cannot read"),
        ({"max_position_embeddings": [1]}, "cannot read"),
        ({"max_position_embeddings": 1}, "a context of 1 tokens"),
        ({"max_position_embeddings": -5}, "a context of -5 tokens"),
        ({"rope_scaling": "x"}, "cannot read"),
        ({"sliding_window": "x"}, "cannot read"),
        ({"sliding_window": 1}, "a context of 1 tokens"),
    ],
)
def test_settings_that_mean_nothing_are_refused(
    settings: dict[str, Any], words: str, whole: Path, tmp_path: Path
) -> None:
    folder = changed(whole, tmp_path / "odd", lambda graph: None)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "rope_parameters": None, **settings}))
    with pytest.raises(DamagedModel, match=words):
        build(Options(threads=1), folder)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cache_precision": "i4"}, "cache_precision"),
        ({"precision": "fp32"}, "precision must be one of"),
        ({"threads": 0}, "threads"),
        ({"ctx_size": 1}, "ctx_size"),
        ({"activation_group": -1}, "activation_group"),
    ],
)
def test_options_that_do_not_hold_are_refused(options: Any, words: str, whole: Path) -> None:
    with pytest.raises(ConfigError, match=words):
        build(Options(**options), whole)


def test_a_cache_folder_that_cannot_be_made_is_refused(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cache folder .* cannot be made: .*; name another one"):
        build(Options(cache_dir=str(tmp_path / "file" / "compiled")), whole)


def test_a_context_beyond_the_model_is_not_eligible(whole: Path) -> None:
    with pytest.raises(NotEligible, match="256 tokens at most"):
        build(Options(ctx_size=257), whole)


def test_a_device_that_is_not_there_is_not_eligible(whole: Path) -> None:
    with pytest.raises(NotEligible, match="no device TPU here; it finds CPU"):
        build(Options(device="tpu"), whole)


def test_a_context_nobody_states_must_be_given(whole: Path, tmp_path: Path) -> None:
    folder = changed(whole, tmp_path / "bare", lambda graph: None)
    (folder / "config.json").unlink()
    with pytest.raises(ConfigError, match="give ctx_size"):
        build(Options(), folder)
    assert build(Options(ctx_size=100), folder).caps.max_length == 100


def test_the_window_of_a_foreign_export_bounds_cached_rows(whole: Path, tmp_path: Path) -> None:
    folder = changed(whole, tmp_path / "window", lambda graph: None)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "sliding_window": 40}))
    target = build(Options(threads=1), folder)
    assert target.caps.max_length == 40
    session = target.open()
    session.prefill(np.arange(20, dtype=np.int32))
    for _ in range(20):
        session.extend(np.arange(9, dtype=np.int32))
        assert session._slots.used <= 40
        session.commit(0)


def test_settings_the_runtime_does_not_know_fail_as_its_own_error(whole: Path) -> None:
    with pytest.raises(TargetError, match="cannot compile"):
        build(Options(device="AUTO:NONSENSE"), whole)
