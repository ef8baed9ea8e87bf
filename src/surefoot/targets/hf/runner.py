"""One forward of a loaded model: how this model wants to be called."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from surefoot.core.trees import depths, visible
from surefoot.core.types import Ids
from surefoot.targets.hf.taps import Stack


@dataclass(frozen=True, slots=True, eq=False)
class Runner:
    """A model and the facts a session needs to call it. Shared by all sessions.

    `accepts` are the argument names of its forward. `places` (max_length,) int64 holds 0, 1, 2 ... on the device, so
    that positions are views. `windows` maps each attention type to its sliding window, None for full attention; one
    entry under "" stands for a model with a single type; no mapping means that trees cannot be masked. `embeddings`
    is how many ids can be read. `steerable`: it was seen to take masks and positions from outside; then it scores
    trees, and has no table of its own that padding could run off at the end of the context.
    """

    model: Any
    config: Any
    device: Any
    accepts: frozenset[str]
    cache_name: str
    places: Any
    windows: Mapping[str, int | None] | None
    embeddings: int
    stack: Stack | None
    attention: str
    steerable: bool

    @property
    def max_length(self) -> int:
        return len(self.places)

    @property
    def takes_positions(self) -> bool:
        """Positions can be given."""
        return "position_ids" in self.accepts

    def tokens(self, ids: Ids) -> Any:
        """(1, n) int64 on the device."""
        import torch

        return torch.from_numpy(ids.astype(np.int64))[None].to(self.device)

    def chain_positions(self, start: int, rows: int) -> Any:
        """(rows,) places from `start` on; padding past the end of the context stands at its last place."""
        inside = self.places[start : start + rows]
        if len(inside) == rows:
            return inside
        import torch

        return torch.cat([inside, self.places[-1:].expand(rows - len(inside))])

    def tree_positions(self, start: int, parents: Sequence[int]) -> Any:
        """(rows,) the place of each row of a tree that hangs below `start` committed tokens."""
        import torch

        return torch.from_numpy(depths(parents) + start).clamp_(max=self.max_length - 1).to(self.device)

    def cache_rows(self, start: int, path: Sequence[int]) -> Any:
        """(len(path),) the cache rows of tail rows `path` when the tail begins at row `start`."""
        import torch

        return torch.tensor([start + row for row in path], device=self.device)

    def tree_mask(self, start: int, parents: Sequence[int]) -> Any:
        """The 4-D mask of a tree, or one for each attention type: boolean for sdpa, additive otherwise."""
        masks = {kind: self._mask(start, parents, window) for kind, window in (self.windows or {}).items()}
        return masks.get("", masks)

    def _mask(self, start: int, parents: Sequence[int], window: int | None) -> Any:
        import torch

        seen = torch.from_numpy(seen_slots(parents, start, window))[None, None].to(self.device)
        if self.attention == "sdpa":
            return seen
        dtype = self.model.dtype
        hidden = torch.full((), torch.finfo(dtype).min, dtype=dtype, device=self.device)
        return torch.where(seen, torch.zeros((), dtype=dtype, device=self.device), hidden)

    def forward(self, tokens: Any, positions: Any, cache: Any, mask: Any = None, last_only: bool = False) -> Any:
        """(rows, V) logits on the device; only the last row where asked."""
        call: dict[str, Any] = {"input_ids": tokens, self.cache_name: cache, "use_cache": True, "return_dict": True}
        if self.takes_positions:
            call["position_ids"] = positions[None]
        if mask is not None:
            call["attention_mask"] = mask
        if last_only and "logits_to_keep" in self.accepts:
            call["logits_to_keep"] = 1
        logits = self.model(**call).logits[0]
        return logits[-1:] if last_only else logits


def seen_slots(parents: Sequence[int], committed: int, window: int | None) -> npt.NDArray[np.bool_]:
    """(R, committed + R) which cache rows each row of a tree may see: what is committed, its ancestors and itself.

    With a sliding window, only those fewer than `window` positions back; positions count depth, not rows.
    """
    seen = np.concatenate([np.ones((len(parents), committed), np.bool_), visible(parents)], axis=1)
    if window is not None:
        depth = depths(parents)
        position = np.concatenate([np.arange(committed), committed + depth])
        seen &= position[None, :] > (committed + depth)[:, None] - window
    return seen


def accepted(model: Any) -> frozenset[str]:
    """The argument names of the model's forward."""
    return frozenset(inspect.signature(model.forward).parameters)


def cache_argument(accepts: frozenset[str]) -> str | None:
    """What the model calls its cache: `cache`, or `past_key_values` where it keeps the older name; None without one."""
    return next((name for name in ("cache", "past_key_values") if name in accepts), None)
