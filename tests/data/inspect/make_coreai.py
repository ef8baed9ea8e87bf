"""Writes the .aimodel folders beside this file. Needs coreai-torch 0.4.3, coreai-core 1.0.0b3 and torch.

    python make_coreai.py

dynamic: any number of rows, logits of all of them. single: one row. last: logits of the last row only. hybrid: dynamic,
with a state of a convolution beside keys and values.
"""

import shutil
import warnings
from pathlib import Path

import torch
from coreai_torch import TorchConverter, get_decomp_table

VOCAB, WIDTH, CONTEXT, LAYERS = 32, 8, 16, 2
HERE = Path(__file__).parent


class Tiny(torch.nn.Module):
    """Reads every input and changes every state; what it computes is no language."""

    def __init__(self, last: bool) -> None:
        super().__init__()
        self.embed, self.head, self.last = torch.nn.Embedding(VOCAB, WIDTH), torch.nn.Linear(WIDTH, VOCAB), last

    def forward(self, input_ids, position_ids, k_cache, v_cache):  # type: ignore[no-untyped-def]
        x = self.embed(input_ids)
        k_cache.add_(x.mean())
        v_cache.add_(1.0)
        x = x[:, -1:] if self.last else x
        return self.head(x) + k_cache.mean() + v_cache.mean() + position_ids.sum()


class Hybrid(Tiny):
    def forward(self, input_ids, position_ids, k_cache, v_cache, conv_state):  # type: ignore[no-untyped-def]
        conv_state.add_(1.0)
        return super().forward(input_ids, position_ids, k_cache, v_cache) + conv_state.mean()


def write(name: str, rows: int | None, last: bool = False, hybrid: bool = False) -> None:
    model = (Hybrid if hybrid else Tiny)(last).half().eval()
    n = rows or 3
    cache = torch.zeros(LAYERS, 1, 1, CONTEXT, WIDTH // 2, dtype=torch.float16)
    inputs = [torch.zeros(1, n, dtype=torch.int32), torch.zeros(1, n + 4, dtype=torch.int32), cache, cache.clone()]
    states = ["k_cache", "v_cache"]
    shapes = None
    if rows is None:
        shapes = [{1: torch.export.Dim("n", min=2, max=8)}, {1: torch.export.Dim("c", min=2, max=16)}, None, None]
    if hybrid:
        inputs.append(torch.zeros(LAYERS, 1, WIDTH, 3, dtype=torch.float16))
        states.append("conv_state")
        shapes = [*shapes, None] if shapes else None
    exported = torch.export.export(model, tuple(inputs), dynamic_shapes=tuple(shapes) if shapes else None)
    converter = TorchConverter(mode=TorchConverter.Mode.RELEASE)
    converter.add_exported_program(
        exported.run_decompositions(get_decomp_table()),
        input_names=["input_ids", "position_ids"], output_names=["logits"], state_names=states,
    )  # fmt: skip
    out = HERE / f"{name}.aimodel"
    shutil.rmtree(out, ignore_errors=True)
    converter.to_coreai().save_asset(out)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    write("dynamic", None)
    write("single", 1)
    write("last", None, last=True)
    write("hybrid", None, hybrid=True)
