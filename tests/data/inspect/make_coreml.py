"""Writes the .mlpackage folders beside this file. Needs coremltools 9.0.

    python make_coreml.py

single: one row. widths: two functions that share their weights, decode of one row and verify of eight. last: eight
rows, logits of the last. range: one to eight rows.
"""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import coremltools as ct
import numpy as np
from coremltools.converters.mil import Builder
from coremltools.converters.mil.mil import types

VOCAB, WIDTH, CONTEXT, LAYERS = 32, 8, 16, 2
HERE = Path(__file__).parent
CHANCE = np.random.default_rng(0)
EMBED = CHANCE.standard_normal((VOCAB, WIDTH)).astype(np.float16)
HEAD = CHANCE.standard_normal((WIDTH, VOCAB)).astype(np.float16)


def model(rows, last=False):  # type: ignore[no-untyped-def]
    """A package that reads ids and a state, and writes logits."""
    specs = [
        Builder.TensorSpec((1, rows or ct.converters.mil.mil.get_new_symbol()), dtype=types.int32),
        Builder.StateTensorSpec((2 * LAYERS, 1, 1, CONTEXT, WIDTH), dtype=types.fp16),
    ]

    @Builder.program(input_specs=specs, opset_version=ct.target.iOS18)
    def program(input_ids, kv_cache):  # type: ignore[no-untyped-def]
        x = Builder.gather(x=EMBED, indices=input_ids, axis=0)
        kept = Builder.add(x=Builder.read_state(input=kv_cache), y=np.float16(0.5))
        Builder.coreml_update_state(state=kv_cache, value=kept)
        x = Builder.add(x=x, y=Builder.reduce_mean(x=kept, axes=[0, 1, 2, 3]))
        if last:
            x = Builder.slice_by_index(x=x, begin=[0, rows - 1, 0], end=[1, rows, WIDTH])
        return Builder.matmul(x=x, y=HEAD, name="logits")

    inputs = [ct.TensorType("input_ids", (1, ct.RangeDim(1, 8)), dtype=np.int32)] if rows is None else None
    return ct.convert(program, inputs=inputs, minimum_deployment_target=ct.target.iOS18, skip_model_load=True)


def save(made, name: str) -> Path:  # type: ignore[no-untyped-def]
    out = HERE / f"{name}.mlpackage"
    shutil.rmtree(out, ignore_errors=True)
    made.save(str(out))
    return out


if __name__ == "__main__":
    save(model(1), "single")
    save(model(8, last=True), "last")
    save(model(None), "range")
    with TemporaryDirectory() as folder:
        merged = ct.utils.MultiFunctionDescriptor()
        for name, rows in (("decode", 1), ("verify", 8)):
            path = Path(folder) / f"{name}.mlpackage"
            model(rows).save(str(path))
            merged.add_function(str(path), "main", name)
        merged.default_function_name = "decode"
        shutil.rmtree(HERE / "widths.mlpackage", ignore_errors=True)
        ct.utils.save_multifunction(merged, str(HERE / "widths.mlpackage"))
