"""What the user asks of the law of the next token: a frozen, validated value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from surefoot.core.errors import ConfigError

COLDEST = 1e-4
"""chosen: logits of any model divided by this stay finite in float32; colder is greedy in all but name."""

LARGEST = 1e9
"""chosen: far beyond any logit, and still finite in float32 after every processor and the coldest temperature."""


def _refuse(name: str, value: object, wanted: str) -> ConfigError:
    return ConfigError(f"{name} must be {wanted}; got {value}.")


@dataclass(frozen=True, slots=True)
class Sampling:
    """The processors, in the order in which they act (that of transformers, penalties of OpenAI's scope).

    logit_bias, repetition_penalty (prompt and output), presence_penalty and frequency_penalty (output
    only), DRY (prompt and output), banned, min_tokens, forced; then temperature, top_k, top_p, min_p.
    `temperature` 0 is greedy: the argmax after the processors. `top_k` 0, `top_p` 1 and `min_p` 0 are off.
    `forced` maps an output position (0 = first token written) to the only id allowed there.
    `end_ids` are the ids that `min_tokens` holds back.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_range: int = 0
    dry_breakers: frozenset[int] = frozenset()
    banned: frozenset[int] = frozenset()
    forced: Mapping[int, int] = field(default_factory=dict)
    min_tokens: int = 0
    end_ids: frozenset[int] = frozenset()
    seed: int = 0

    def __post_init__(self) -> None:
        self._check_shape()
        self._check_penalties()

    def _check_shape(self) -> None:
        if not (self.temperature == 0 or COLDEST <= self.temperature <= 100):
            raise _refuse("temperature", self.temperature, f"0 (greedy) or from {COLDEST} to 100")
        if self.top_k < 0:
            raise _refuse("top_k", self.top_k, "0 (off) or a number of tokens")
        if not 0 < self.top_p <= 1:
            raise _refuse("top_p", self.top_p, "above 0 and at most 1 (off)")
        if not 0 <= self.min_p <= 1:
            raise _refuse("min_p", self.min_p, "between 0 (off) and 1")
        truncating = [
            name for name, on in (("top_k", self.top_k > 0), ("top_p", self.top_p < 1), ("min_p", self.min_p > 0)) if on
        ]
        if self.temperature == 0 and truncating:
            raise ConfigError(
                f"{' and '.join(truncating)} shape a random draw, but temperature is 0, which is greedy; "
                "give a temperature above 0 or leave them out."
            )
        if not 0 <= self.seed < 2**64:
            raise _refuse("seed", self.seed, "a whole number from 0 to 2**64 - 1")

    def _check_penalties(self) -> None:
        if not 1 / LARGEST <= self.repetition_penalty <= LARGEST:
            raise _refuse("repetition_penalty", self.repetition_penalty, f"above 0 (1 is off), at most {LARGEST:g}")
        for name in ("presence_penalty", "frequency_penalty"):
            if not abs(getattr(self, name)) <= LARGEST:
                raise _refuse(name, getattr(self, name), f"from {-LARGEST:g} to {LARGEST:g}")
        if not math.isfinite(self.dry_multiplier):
            raise _refuse("dry_multiplier", self.dry_multiplier, "a finite number")
        if not (math.isfinite(self.dry_base) and self.dry_base >= 1):
            raise _refuse("dry_base", self.dry_base, "at least 1")
        if self.dry_multiplier < 0 or self.dry_allowed_length < 1 or self.dry_range < 0:
            raise ConfigError(
                "dry_multiplier and dry_range must be at least 0 and dry_allowed_length at least 1; "
                f"got {self.dry_multiplier}, {self.dry_range} and {self.dry_allowed_length}."
            )
        for token, bias in self.logit_bias.items():
            if bias != -math.inf and not abs(bias) <= LARGEST:
                raise _refuse(f"logit_bias of token {token}", bias, f"from {-LARGEST:g} to {LARGEST:g}, or -inf")
        if self.min_tokens < 0:
            raise _refuse("min_tokens", self.min_tokens, "at least 0")
        taken = self.banned.intersection(self.forced.values())
        if taken:
            raise ConfigError(f"token {min(taken)} is both banned and forced; take it out of one of them.")

    def check_vocabulary(self, vocab_size: int) -> None:
        """Raises: ConfigError when an id named here is outside the vocabulary of `vocab_size` tokens."""
        named = {
            "logit_bias": self.logit_bias,
            "banned": self.banned,
            "forced": self.forced.values(),
            "dry_breakers": self.dry_breakers,
        }
        for option, ids in named.items():
            for token in ids:
                if not 0 <= token < vocab_size:
                    raise ConfigError(
                        f"{option} names token {token}, but the vocabulary has {vocab_size} tokens "
                        f"(0 to {vocab_size - 1})."
                    )

    @property
    def greedy(self) -> bool:
        """True when no draw is random."""
        return self.temperature == 0

    @property
    def edits_logits(self) -> bool:
        """True when a processor before the temperature can change the logits."""
        return bool(
            self.logit_bias
            or self.repetition_penalty != 1
            or self.presence_penalty
            or self.frequency_penalty
            or self.dry_multiplier
            or self.banned
            or self.forced
            or (self.min_tokens and self.end_ids)
        )
