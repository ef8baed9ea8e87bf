"""Which models can be rolled back by truncating their cache: said from the config, before weights are read."""

from __future__ import annotations

from typing import Any

from surefoot.core.eligibility import of_architectures, of_direction, of_recurrence
from surefoot.core.errors import ConfigError, NotEligible
from surefoot.targets.hf.cache import unsupported_layers

# Where configs keep the number of positions a model was made for, in the order they are believed.
_LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")
# chosen: a model without a position limit (ALiBi) has no length of its own; most such models were trained on 2,048.
_UNLIMITED_LENGTH = 8192


def check_config(config: Any) -> None:
    """Raises NotEligible with every reason why a model of this config cannot work here."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    kind = config.model_type
    direction = of_direction(config.is_encoder_decoder, kind)
    if direction is not None:
        raise NotEligible(direction.text)
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise NotEligible(f"transformers has no causal language model for {kind}: choose a text generation model")
    model: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    reasons = _reasons(config, model[0] if isinstance(model, tuple) else model)
    if reasons:
        raise NotEligible(f"{kind} cannot be used with truncation of its cache: {'; '.join(reasons)}", reasons)


def _reasons(config: Any, model: Any) -> list[str]:
    headless = of_architectures(list(config.architectures or ()))
    reasons = [] if headless is None else [headless.text]
    if getattr(model, "_is_stateful", False):
        reasons.extend(found.text for found in of_recurrence())
    else:
        layers = unsupported_layers(config.get_text_config())
        reasons.extend(found.text for found in (of_recurrence(layers) if layers else ()))
    return reasons


def context_length(config: Any, asked: int | None) -> int:
    """Tokens a session may hold. Raises: NotEligible when more are asked for than the model was made for."""
    text = config.get_text_config()
    own = next((int(n) for name in _LENGTHS if (n := getattr(text, name, None))), None)
    bound, why = own, "the model was made for"
    scaled = _rescaled_from(text)
    if scaled is not None and (own is None or scaled < own):
        bound, why = (
            scaled,
            "its rotary positions keep one scale for (past it, cached rows differ from a fresh prefill)",
        )
    if asked is None:
        return bound or _UNLIMITED_LENGTH
    if asked < 1:
        raise ConfigError(f"ctx_size {asked} was asked: give at least 1")
    if bound is not None and asked > bound:
        raise NotEligible(f"ctx_size {asked} was asked and {bound} tokens are what {why}: ask for at most {bound}")
    return asked


def _rescaled_from(text: Any) -> int | None:
    """The length past which rotary frequencies change with the context, or None when they never do.

    Rows cached before that point were rotated by the other frequencies, so no row after it equals a fresh prefill.
    """
    ropes = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    lengths = []
    for rope in (ropes, *(value for value in ropes.values() if isinstance(value, dict))):
        kind = rope.get("rope_type", rope.get("type"))
        if kind in ("longrope", "su"):
            original = rope.get("original_max_position_embeddings")
            lengths.append(original or getattr(text, "original_max_position_embeddings", None))
        elif kind == "dynamic":
            lengths.append(text.max_position_embeddings)
    return min((int(length) for length in lengths if length), default=None)
