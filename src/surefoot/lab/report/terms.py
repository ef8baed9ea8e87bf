"""What the words of a report mean, said once for every format."""

from __future__ import annotations

from surefoot.lab import stats

PHASES = (
    ("extend", "the model's forward"),
    ("draft", "guessing"),
    ("judge", "accepting or rejecting"),
    ("commit", "keeping the cache"),
    ("other", "stops, text and the loop"),
)
"""The phases of a round, and what happens in each."""

TERMS = (
    ("ratio", "Tokens per second with drafts, by those without, of two texts on the same prompt, seconds apart."),
    (
        "95 % interval",
        "Where the ratio would lie in 19 of 20 runs like this one, by a bootstrap over the prompts; over the pairs "
        "where there are few prompts, and then for these prompts only. It covers no other machine, model or version.",
    ),
    ("faster, slower", "The whole interval lies on one side of 1."),
    ("no difference", f"The whole interval lies within {100 * stats.SAME_WITHIN:g} % of 1."),
    ("undecided", "The interval holds 1, or its ends are far apart: more prompts or a quieter machine would tell."),
    ("accepted per round", "Draft tokens kept by each forward pass, rounds without a draft included."),
    ("tokens per round", "Accepted per round plus the token of the model itself; others call it acceptance length."),
    ("survival", "Of the drafts with a token at this position, the share accepted up to and including it."),
    ("conditional", "Of the drafts accepted up to the position before, the share accepted here too."),
    ("rows", "Tokens scored in one forward: the draft, and the token before it."),
    ("host", "The part of the time outside the model's forward."),
    ("band", "What drafts off may read at that time; a pair whose baseline lies outside is left out."),
)  # fmt: skip
"""Each term of a report with its meaning."""
