"""What a graph without state reads, and gives out beside logits: names and shapes, for its writer and its reader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

PAGE = 256
"""chosen: a new page at most every 256 tokens, and at most 255 empty rows multiplied in vain."""

HISTORY_ROWS, BLOCK_MASK = "history_rows", "block_mask"

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Port:
    """One side, keys or values, of one layer."""

    layer: int
    side: str

    @property
    def history(self) -> str:
        """The input with the committed rows."""
        return f"history.{self.layer}.{self.side}"

    @property
    def staged(self) -> str:
        """The input with the rows that wait to be accepted."""
        return f"staged.{self.layer}.{self.side}"

    @property
    def rows(self) -> str:
        """The output with the staged rows and the new ones behind them."""
        return f"rows.{self.layer}.{self.side}"


@dataclass(frozen=True, slots=True)
class Pages:
    """The sizes of the arrays. An open dimension is -1."""

    layers: int
    kv_heads: int
    head_dim: int

    def ports(self) -> Iterator[Port]:
        """Keys, then values, of each layer."""
        return (Port(layer, side) for layer in range(self.layers) for side in ("key", "value"))

    def history(self, port: Port, pages: int = -1) -> Shape:
        """Of committed rows: keys (pages, kv_heads, head_dim, PAGE), values with the last two turned."""
        # As the products of the attention read them; otherwise the runtime would turn them in every forward.
        ends = (self.head_dim, PAGE) if port.side == "key" else (PAGE, self.head_dim)
        return (pages, self.kv_heads, *ends)

    def rows(self, count: int = -1) -> Shape:
        """Of staged and new rows."""
        return (1, self.kv_heads, count, self.head_dim)

    def inputs(self) -> dict[str, Shape]:
        """Every input by name."""
        shapes: dict[str, Shape] = {"input_ids": (1, -1), "position_ids": (1, -1), HISTORY_ROWS: (1,)}
        shapes[BLOCK_MASK] = (-1, -1)
        for port in self.ports():
            shapes[port.history], shapes[port.staged] = self.history(port), self.rows()
        return shapes
