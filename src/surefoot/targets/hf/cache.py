"""The key/value cache: stock layers of transformers, truncated by length.

Layer.crop of transformers 5 wants a negative count and cuts keys and values by that same count, which is wrong
for a layer that was interrupted between its two writes and for layers of unequal lengths. So rows are cut here to an
absolute length, which can be repeated without harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from surefoot.core.errors import NotEligible


def new_cache(config: Any) -> Any:
    """An empty cache that keeps every row of every layer, sliding-window layers included.

    The stock sliding layer forgets what leaves the window, so it could not be rolled back. A full layer has the same
    answer, because the model's own mask hides those rows; it only takes more memory.
    """
    from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

    cache: Any = DynamicCache(config=config)
    full: Any = DynamicLayer
    cache.layers = [full() if type(layer) is DynamicSlidingWindowLayer else layer for layer in cache.layers]
    return cache


def unsupported_layers(config: Any) -> list[str]:
    """The kinds of cache layer in a model of this config that cannot be truncated; empty when all can."""
    from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

    good = {DynamicLayer, DynamicSlidingWindowLayer}
    kinds = {type(layer) for layer in DynamicCache(config=config).layers}
    return sorted(kind.__name__ for kind in kinds if kind not in good and kind.__name__ != "DummyLayer")


def windows(config: Any) -> dict[str, int | None] | None:
    """The sliding window of each attention type, None for full attention; under "" when all layers are of one type.

    None for chunked attention, whose mask is not a function of the distance alone.
    """
    from transformers.cache_utils import DynamicCache

    layers = DynamicCache(config=config).layers
    kinds = getattr(config, "layer_types", None) or [""] * len(layers)
    if "chunked_attention" in kinds or getattr(config, "attention_chunk_size", None):
        return None
    found = {kind: getattr(layer, "sliding_window", None) for kind, layer in zip(kinds, layers, strict=True)}
    return found if len(found) > 1 else {"": next(iter(found.values()))}


def truncate(cache: Any, length: int) -> None:
    """Keep the first `length` rows of every layer. Views only: the next forward copies what is kept."""
    for layer in cache.layers:
        if layer.keys is not None and layer.keys.dim() == 4:
            layer.keys = layer.keys[:, :, :length]
            layer.values = layer.values[:, :, :length]


def gather(cache: Any, start: int, path: Sequence[int], index: Any) -> None:
    """Move the tail rows `path` to the front of the tail, which begins at row `start`.

    `index` (len(path),) is the path as a tensor on the device. Ascending, so no row is overwritten before it is read.
    """
    n = len(path)
    for layer in cache.layers:
        if layer.keys is not None and layer.keys.dim() == 4:
            for rows in (layer.keys, layer.values):
                rows[:, :, start : start + n] = rows.index_select(2, index)


def check(cache: Any, length: int) -> None:
    """Raises NotEligible unless every layer that is in use holds `length` rows that can be dropped."""
    used: list[Any] = [layer for layer in cache.layers if getattr(layer, "keys", None) is not None]
    if not used:
        raise NotEligible("the model did not write the cache it was given, so nothing can be rolled back")
    for layer in used:
        if type(layer).__name__ != "DynamicLayer":
            raise NotEligible(f"the model put a {type(layer).__name__} into its cache, which cannot be truncated")
        if layer.keys.shape[-2] != length or layer.values.shape[-2] != length:
            raise NotEligible(
                f"a cache layer holds {layer.keys.shape[-2]} rows after {length} tokens: the model stores something "
                "else than one row per token"
            )
