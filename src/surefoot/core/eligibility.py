"""Which models can be verified at all: rules that a runtime asks of a loaded graph and `inspect` of its files.

Each rule gives None, or the reason why not, in words that follow the name of the model. Shapes have -1 where they are
open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Shape = tuple[int, ...]
OPEN = -1

Kind = Literal[
    "no language model",
    "encoder-decoder",
    "no language-model head",
    "static rows",
    "head on the last row",
    "no cache",
    "cache handed in and out",
    "cumulative state",
    "unknown vocabulary",
    "draft context",
    "input missing",
    "input unknown",
    "input shape",
    "output shape",
    "family",
    "weight format",
    "format",
]
"""What stands in the way, one word for each reason."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason. text: a clause whose subject is the model."""

    kind: Kind
    text: str


def of_rows(ids: Shape) -> Refusal | None:
    """Whether a forward can score more than a row: `ids` is the shape of the input of tokens, (batch, n)."""
    if len(ids) != 2:
        return Refusal("input shape", f"reads input_ids of shape {spelled(ids)}, and (batch, n) is needed")
    rows = ids[1]
    if rows == OPEN:
        return None
    found = "a single row" if rows == 1 else f"{rows} rows, no more and no fewer,"
    return Refusal("static rows", f"scores {found} a forward (static shapes), so drafts cannot be checked")


def of_counts(counts: Sequence[int]) -> Refusal | None:
    """Whether any program of a model scores more than a row: `counts` are those that they are made for."""
    if not counts or max(counts) > 1:
        return None
    return of_rows((1, 1))


def of_head(logits: Shape, most_rows: int | None = None) -> Refusal | None:
    """Whether every row gets logits: `logits` is the shape of the output, (batch, n, vocabulary).

    most_rows: the most rows that it can have, where more is known of an open axis than that it is open.
    """
    if len(logits) != 3:
        return Refusal("output shape", f"writes {spelled(logits)} where logits (batch, n, vocabulary) are needed")
    rows = most_rows if logits[1] == OPEN else logits[1]
    # A slice that takes the last row has 0 or 1 of them as far as its shape can tell.
    if rows in (0, 1):
        return Refusal("head on the last row", "computes its head on the last row only, so drafts cannot be checked")
    return None


def growing_axis(state: Shape) -> int | None:
    """The one axis after the batch that grows by a row a token; None where there is not exactly one."""
    grows = [axis for axis in range(1, len(state)) if state[axis] == OPEN]
    return grows[0] if len(grows) == 1 else None


def of_states(states: Sequence[Shape]) -> Refusal | None:
    """Whether rejected rows can be hidden in these states, which keep every row they were given."""
    axes = set()
    for state in states:
        axis = growing_axis(state)
        if axis is None:
            return Refusal(
                "cumulative state",
                f"has a state of shape {spelled(state)} that does not grow by one row a token (a recurrent layer or a"
                " fixed window), so rejected rows cannot be hidden in it",
            )
        axes.add(axis)
    if len(axes) > 1:
        return Refusal("cumulative state", "has states that grow along different axes, which is not supported")
    return None


def of_recurrence(layers: Sequence[str] = ()) -> tuple[Refusal, ...]:
    """A reason for each kind of layer whose state cannot drop rejected tokens; without names, the model's own state."""
    names = layers or ("recurrent state",)
    return tuple(Refusal("cumulative state", f"its {name} cannot drop rejected tokens") for name in names)


def of_direction(is_encoder_decoder: bool, kind: str) -> Refusal | None:
    """Whether the model is one stack that reads what it writes."""
    if not is_encoder_decoder:
        return None
    return Refusal("encoder-decoder", f"{kind} is an encoder-decoder: Surefoot runs causal language models only")


HEADS = ("CausalLM", "LMHead", "ConditionalGeneration")
"""Source: the names of transformers' classes that write tokens."""


def of_architectures(architectures: Sequence[str]) -> Refusal | None:
    """Whether the weights were saved with a head, from the names of the classes that saved them."""
    if not architectures or any(head in name for name in architectures for head in HEADS):
        return None
    text = f"its weights are those of {architectures[0]}, which has no language-model head"
    return Refusal("no language-model head", text)


def of_vocabulary(vocabulary: int | None) -> Refusal | None:
    """Whether the ids that can be written are known."""
    if vocabulary:
        return None
    return Refusal("unknown vocabulary", "does not say how large its vocabulary is")


PADDED = 1024
"""chosen: vocabularies are padded to multiples of 64 to 512 for kernels, and 151,936 against 152,064 is the widest
difference that is known of one tokenizer; two that differ by more are not one tokenizer's."""


def padded_alike(vocabulary: int, other: int) -> bool:
    """Whether two numbers of tokens may be those of one tokenizer; that the tokens mean the same is not in them."""
    return abs(vocabulary - other) <= PADDED


def of_draft_context(target: int, draft: int) -> Refusal | None:
    """Whether a draft model reads as far as its target; both in tokens."""
    if draft >= target:
        return None
    text = f"reads {draft} tokens where the target reads {target}, and cannot draft past that"
    return Refusal("draft context", text)


def spelled(shape: Shape) -> str:
    """(1, ?, 64), the open sizes as question marks."""
    return f"({', '.join('?' if size == OPEN else str(size) for size in shape)})"
