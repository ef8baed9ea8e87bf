"""What a model without state costs against one with: python benchmarks/openvino_form_b.py FOLDER_OR_GGUF

Form B keeps the cache in the caller's arrays and gives out the new rows' keys and values, which are written into the
cache once they are accepted. Its graphs are made here from the stateful one (form A) by putting another attention in.
Processor time of one thread, forms alternating, so that a busy machine matters little.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from common import RECORDS, cell, interval, median, summary, write_record

from surefoot.targets.openvino import Options, build
from surefoot.targets.openvino.core import compiling
from surefoot.targets.openvino.load import runtime_settings
from surefoot.targets.openvino.names import MODEL_FILE
from surefoot.targets.openvino.nodes import MASKED, ints, number, parameter

DEPTHS, ROWS, BUCKETS, PAGE, REPEATS = (200, 850, 4000), (1, 4, 8), (256, 1024, 4096), 256, 9
FORMS = {
    "concat": "history and block joined, the runtime's attention; every shape open, history as long as it is",
    "parts": "history and block multiplied apart, only scores joined; every shape open, history in steps of 256",
    "parts-rows": "the same with keys (rows, head_dim) instead of (head_dim, rows)",
    "bucket": "parts with every shape fixed: one compiled model for each bucket and number of rows",
    "pages": "history as a growing number of pages of 256 rows, joined by maxima and sums of scores",
}
OPTIONS = Options(threads=1, ctx_size=8192)
Array = npt.NDArray[Any]


def stateless(folder: Path, form: str) -> tuple[Any, int]:
    """The graph without state, and how many query heads share a key head.

    Inputs k.N and v.N are the history; the new rows come out as new.k.N and new.v.N.
    """
    import openvino as ov
    from openvino import opset13 as ops

    graph = ov.Core().read_model(folder / MODEL_FILE)
    masks = [
        parameter([-1, 1, 1, -1], np.float32, "history_mask"),
        parameter([-1, -1], np.float32, "block_mask"),
    ]
    inputs, results = list(masks), []
    found = [op for op in graph.get_ordered_ops() if op.get_type_name() == "ScaledDotProductAttention"]
    for layer, node in enumerate(found):
        query, new = node.input_value(0), [_new_rows(node.input_value(port).get_node()) for port in (1, 2)]
        heads, kv_heads, dim = query.get_partial_shape()[1], *(new[0].get_partial_shape()[i] for i in (1, 3))
        shape = (-1 if form == "pages" else 1, kv_heads.get_length(), -1, dim.get_length())
        turned = (*shape[:2], shape[3], shape[2]) if turns(form) else shape
        past = [parameter(list(turned), np.float32, f"k.{layer}"), parameter(list(shape), np.float32, f"v.{layer}")]
        attend = _joined if form == "concat" else partial(_apart, form)
        node.output(0).replace(attend(query, new, past, masks, heads.get_length(), shape).output(0))
        inputs += past
        for name, rows in zip("kv", new, strict=True):
            results.append(ops.result(rows))
            results[-1].output(0).get_tensor().set_names({f"new.{name}.{layer}"})
    for sink in list(graph.get_sinks()):
        graph.remove_sink(sink)
    for given in list(graph.get_parameters()):
        if given.output(0).get_any_name() in ("beam_idx", "attention_mask"):
            graph.remove_parameter(given)
    graph.add_parameters(inputs)
    graph.add_results(results)
    graph.validate_nodes_and_infer_types()
    return graph, heads.get_length() // kv_heads.get_length()


def turns(form: str) -> bool:
    """Whether the history's keys lie (head_dim, rows), as the product with them reads them."""
    return form not in ("concat", "parts-rows")


def _new_rows(node: Any) -> Any:
    while node.get_type_name() != "Concat":
        node = node.input_value(0).get_node()
    return node.input_value(1)


def _joined(query: Any, new: Any, past: Any, masks: Any, heads: int, shape: Any) -> Any:
    from openvino import opset13 as ops

    def whole(old: Any, rows: Any) -> Any:
        wide = ops.tile(ops.unsqueeze(ops.concat([old, rows], 2), ints(2)), ints([1, 1, heads // shape[1], 1, 1]))
        return ops.reshape(wide, ints([0, heads, -1, shape[3]]), special_zero=True)

    line = ops.reshape(masks[0], ints([1, -1]), special_zero=False)
    seen = ops.add(line, ops.multiply(ops.slice(masks[1], *(ints([i]) for i in (0, 1, 1, 1))), number(0.0)))
    mask = ops.concat([seen, masks[1]], -1)
    return ops.scaled_dot_product_attention(query, whole(past[0], new[0]), whole(past[1], new[1]), mask, causal=False)


def _apart(form: str, query: Any, new: Any, past: Any, masks: Any, heads: int, shape: Any) -> Any:
    """The query heads that share a key head are rows of one product, so that no key is repeated."""
    from openvino import opset13 as ops

    grouped = ops.multiply(query, number(shape[3] ** -0.5))
    grouped = ops.reshape(grouped, ints([0, shape[1], -1, shape[3]]), special_zero=True)
    old = ops.add(ops.matmul(grouped, past[0], False, not turns(form)), masks[0])
    own = ops.add(ops.matmul(grouped, new[0], False, True), masks[1])
    if form == "pages":
        across, last = ints([0, 3]), ints([3])
        top = ops.maximum(ops.reduce_max(old, across, True), ops.reduce_max(own, last, True))
        old, own = ops.exp(ops.subtract(old, top)), ops.exp(ops.subtract(own, top))
        total = ops.add(ops.reduce_sum(old, across, True), ops.reduce_sum(own, last, True))
        values = ops.reduce_sum(ops.matmul(old, past[1], False, False), ints([0]), True)
        y = ops.divide(ops.add(values, ops.matmul(own, new[1], False, False)), total)
    else:
        sizes = [ops.gather(ops.shape_of(part), ints([3]), ints(0)) for part in (masks[0], own)]
        split = ops.variadic_split(ops.softmax(ops.concat([old, own], -1), -1), ints(-1), ops.concat(sizes, 0))
        parts = (ops.matmul(split.output(i), side[1], False, False) for i, side in enumerate((past, new)))
        y = ops.add(*parts)
    return ops.reshape(y, ints([0, heads, -1, shape[3]]), special_zero=True)


class FormB:
    """A compiled stateless model and its history. Holds changing state: the arrays, and which rows of them count."""

    def __init__(self, folder: Path, form: str, kv: list[Array], depth: int, room: int, rows: int) -> None:
        import openvino as ov

        self.form, self.pages = form, room // PAGE if form == "pages" else 1
        self.span = room // self.pages
        self.tensor = ov.Tensor
        graph, shared = stateless(folder, form)
        self.tile = 1 if form == "concat" else shared
        self.mask = np.full((self.pages, 1, 1, self.span), MASKED, np.float32)
        self.sides = [self._empty(side, kv[side].shape) for side in range(len(kv))]
        if form == "bucket":
            own = {"input_ids": (1, rows), "position_ids": (1, rows), "block_mask": (self.tile * rows, rows)}
            named = {f"{'kv'[side % 2]}.{side // 2}": array.shape for side, array in enumerate(self.sides)}
            shapes = {**own, **named, "history_mask": self.mask.shape}
            graph.reshape({port: list(shapes[port.get_any_name()]) for port in graph.inputs})
        start = time.process_time()
        self.request = (
            compiling(mmap=True).compile_model(graph, "CPU", runtime_settings(OPTIONS)).create_infer_request()
        )
        self.compile_s = time.process_time() - start
        self.request.set_tensor("history_mask", ov.Tensor(self.mask, shared_memory=True))
        for side, array in enumerate(self.sides):
            name = f"{'kv'[side % 2]}.{side // 2}"
            self.request.set_tensor(name, ov.Tensor(array, shared_memory=True))
        self.write(0, [side[:, :, :depth] for side in kv])

    def _empty(self, side: int, shape: tuple[int, ...]) -> Array:
        lead, turned = (self.pages, shape[1]), side % 2 == 0 and turns(self.form)
        return np.zeros((*lead, shape[3], self.span) if turned else (*lead, self.span, shape[3]), np.float32)

    def forward(self, block: Array, past: int) -> Array:
        """(n, V) logits after each token of `block`."""
        n = len(block)
        own = np.tile(np.where(np.tri(n, dtype=np.bool_), 0, MASKED).astype(np.float32), (self.tile, 1))
        given = {"input_ids": block[None].astype(np.int64), "position_ids": np.arange(past, past + n)[None]}
        for name, value in {**given, "block_mask": own}.items():
            self.request.set_tensor(name, self.tensor(value))
        self.request.infer(share_outputs=True)
        logits: Array = self.request.get_tensor("logits").data[0]
        return logits

    def new_rows(self, n: int) -> list[Array]:
        """Keys and values of the first n rows of the last block, in the runtime's memory."""
        names = (f"new.{'kv'[side % 2]}.{side // 2}" for side in range(len(self.sides)))
        return [self.request.get_tensor(name).data[:, :, :n] for name in names]

    def write(self, past: int, new: list[Array]) -> None:
        """Put accepted rows behind the first `past`."""
        places = np.arange(past, past + new[0].shape[2])
        page, at = places // self.span, places % self.span
        for side, rows in enumerate(new):
            if side % 2 == 0 and turns(self.form):
                self.sides[side][page, :, :, at] = rows[0].swapaxes(0, 1)
            else:
                self.sides[side][page, :, at] = rows[0].swapaxes(0, 1)
        self.mask[page, 0, 0, at] = 0

    def forget(self, past: int) -> None:
        """Keep the first `past` rows only."""
        self.mask.reshape(-1)[past:] = MASKED

    def grow(self) -> None:
        """What a longer history costs where it is one array: every row is copied once."""
        for side in self.sides:
            wider = np.zeros((*side.shape[:2], *(n + PAGE * (n == self.span) for n in side.shape[2:])), np.float32)
            wider[:, :, : side.shape[2], : side.shape[3]] = side


class FormA:
    """The target's own forward with its cache. Holds changing state."""

    def __init__(self, folder: Path, text: Array) -> None:
        target = build(OPTIONS, folder)
        session = target.open()
        session.prefill(text)
        self.text, self.runner, self.past = text, session._runner, len(text)
        self.states = self.runner._request.query_state()
        # k.0, v.0, k.1, v.1, ...: the variables' names say layer and side.
        order = sorted(
            range(len(self.states)), key=lambda i: (_layer(self.states[i].name), self.states[i].name.endswith("value"))
        )
        self.states = [self.states[i] for i in order]
        self.kv = [np.array(state.state.data, np.float32) for state in self.states]
        self.settings = dict(target.caps.settings)

    def restore(self, past: int) -> None:
        """The cache as it was after `past` tokens; one token more is scored, so that the runtime has its room."""
        import openvino as ov

        for state, rows in zip(self.states, self.kv, strict=True):
            state.state = ov.Tensor(np.ascontiguousarray(rows[:, :, : past - 1]))
        self.past = past - 1
        self.forward(self.text[past - 1 : past])

    def forward(self, block: Array) -> Array:
        """(n, V) logits; the block's rows stay."""
        self.past += len(block)
        place = np.arange(self.past - len(block), self.past)
        logits: Array = self.runner.forward(block, place, np.ones((1, self.past), np.int64), len(block))
        return logits


def _layer(variable: str) -> int:
    return int(variable.split(".")[1])


def spent(action: Any) -> tuple[float, Any]:
    """Processor seconds of the call, and what it gave back."""
    start = time.process_time()
    result = action()
    return time.process_time() - start, result


def compare(a: FormA, b: FormB, depth: int, rows: int, block: Array) -> dict[str, Any]:
    """Both forms in turn; form A's context grows through `depth`, so that nothing is removed between its forwards."""
    a.restore(depth)
    due = a.forward(block).copy()
    delta = float(np.abs(b.forward(block, depth) - due).max())
    if delta > 1e-3:
        raise SystemExit(f"{b.form}: logits differ by {delta} from form A's")
    a.restore(depth - rows * REPEATS // 2)
    samples = [
        (spent(partial(a.forward, block))[0], spent(partial(b.forward, block, depth))[0]) for _ in range(REPEATS)
    ]
    ratios = [two / one for one, two in samples]
    new, commits = b.new_rows(rows), []
    if b.form != "concat":
        commits = [spent(partial(b.write, depth, new))[0] for _ in range(REPEATS)]
        b.forget(depth)
    return {
        "form": b.form,
        "depth": depth,
        "rows": rows,
        "a": summary([one for one, _ in samples]),
        "b": summary([two for _, two in samples]),
        "ratio": median(ratios),
        "ratio_interval": interval(ratios),
        "largest_delta": delta,
        "compile_s": b.compile_s,
        "commit": summary(commits) if commits else None,
        "grow": summary([spent(b.grow)[0] for _ in range(3)]) if b.form in ("parts", "bucket") else None,
    }


def rows_check(b: FormB, text: Array, positions: int = 200) -> dict[str, Any]:
    """Argmaxes of the model's own text, row by row against blocks of 8 on the same history."""
    past, ids, singles = len(text), [int(text[-1])], []
    for i in range(positions):
        singles.append(b.forward(np.array(ids[-1:]), past + i)[0].copy())
        ids.append(int(singles[-1].argmax()))
        b.write(past + i, b.new_rows(1))
    b.forget(past)
    differ, worst = 0, 0.0
    for at in range(0, positions, 8):
        found = b.forward(np.array(ids[at : at + 8]), past + at)
        due = np.array(singles[at : at + 8])
        worst = max(worst, float(np.abs(found - due).max()))
        differ += int((found.argmax(-1) != due.argmax(-1)).sum())
        b.write(past + at, b.new_rows(8))
    b.forget(past)
    return {"form": b.form, "positions": positions, "argmax_differs": differ, "largest_delta": worst}


def main(folder: Path) -> None:
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    checks: list[dict[str, Any]] = []
    for depth in DEPTHS:
        text = rng.integers(3, 49152, depth).astype(np.int32)
        a = FormA(folder, text)
        bucket = next(size for size in BUCKETS if size > depth)
        steps = -(-(depth + 1) // PAGE) * PAGE
        room = {"concat": depth, "bucket": bucket}
        for form in FORMS:
            b = None
            for n in ROWS:
                if b is None or form == "bucket":
                    b = None
                    gc.collect()
                    b = FormB(folder, form, a.kv, depth, room.get(form, steps), n)
                rows.append(compare(a, b, depth, n, rng.integers(3, 49152, n).astype(np.int32)))
                row = rows[-1]
                low, high = row["ratio_interval"]
                print(
                    f"{depth:5} {n} {form:10} A {cell(row['a'], 1e-3)} B {cell(row['b'], 1e-3)} ms,"
                    f" B/A {row['ratio']:.2f} [{low:.2f}, {high:.2f}], delta {row['largest_delta']:.0e},"
                    f" compile {row['compile_s']:.1f} s, commit {row['commit'] and cell(row['commit'], 1e-3)} ms,"
                    f" growth {row['grow'] and cell(row['grow'], 1e-3)} ms",
                    flush=True,
                )
            if depth == DEPTHS[0] and form in ("parts", "pages"):
                checks.append(rows_check(FormB(folder, form, a.kv, depth, 2 * PAGE, 1), text))
                print(checks[-1], flush=True)
        # After every depth, so that a run that is stopped leaves what it has.
        more = {"forms": FORMS, "settings": a.settings, "rows_of_8_against_1": checks}
        write_record(RECORDS / "openvino_form_b.json", "a model without state", rows, ("openvino", "numpy"), **more)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    asked = parser.parse_args().model
    if asked.is_dir():
        main(asked)
    else:
        from surefoot.targets.openvino.export import export

        with tempfile.TemporaryDirectory() as made:
            export(asked, Path(made) / "model")
            main(Path(made) / "model")
