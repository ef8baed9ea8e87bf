"""Draft lengths that the user left free: chosen on prompts that are not measured, before anything is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from surefoot.core.errors import LawError
from surefoot.core.types import Ids
from surefoot.lab.arms import settled
from surefoot.lab.records import Arm, Side

LENGTHS = (2, 3, 5, 7, 10)
"""chosen: the tops of the plateaus that rows show here (draft_len 3 and 7), the defaults of OpenVINO GenAI (5) and of
transformers' documentation (10), and 2, which fits where nearly nothing is accepted."""

N_TOKENS = 64
"""chosen: lookup finds its matches in the text so far, and shorter texts have few; five lengths on seven prompts then
take half a minute on a model of 100 million parameters."""


def choose(
    arm: Arm,
    write: Callable[[Arm, Ids, int], Side],
    prompts: Mapping[str, Ids],
    lengths: Sequence[int] = LENGTHS,
    n_tokens: int = N_TOKENS,
    show: Callable[[str], None] = lambda what: None,
) -> Arm:
    """`arm` with the draft length that was fastest on `prompts`; all lengths write each prompt, one after the other.

    The fastest has the highest geometric mean of tokens per second, so that no prompt outweighs another. Each prompt
    begins with another length, so that none is always the first.
    """
    if not prompts or not lengths:
        raise LawError("a draft length is chosen from lengths, on prompts; there are none")
    speeds: dict[int, list[float]] = {length: [] for length in lengths}
    for number, (name, ids) in enumerate(prompts.items()):
        turn = number % len(lengths)
        for length in (*lengths[turn:], *lengths[:turn]):
            candidate = settled(arm, length)
            show(f"choosing {candidate.label} on {name}")
            speeds[length].append(write(candidate, ids, n_tokens).tokens_per_second)
    means = {length: _geometric_mean(found) for length, found in speeds.items()}
    best = max(means, key=lambda length: (means[length], -length))
    figures = ", ".join(f"{length} {mean:.1f}" for length, mean in means.items())
    return settled(
        arm, best,
        f"draft_len {best}: the fastest of {_listed(lengths)} on {len(prompts)} other prompts ({', '.join(prompts)}), "
        f"{n_tokens} tokens each, in tok/s: {figures}",
    )  # fmt: skip


def _geometric_mean(speeds: Sequence[float]) -> float:
    """0 where a text had one token only, and no speed."""
    return math.exp(sum(map(math.log, speeds)) / len(speeds)) if all(speed > 0 for speed in speeds) else 0.0


def _listed(lengths: Sequence[int]) -> str:
    return ", ".join(map(str, lengths))
