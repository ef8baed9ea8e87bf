"""Prompt lookup: the end of the text occurred before, so what followed then is the guess for now."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from surefoot.core.errors import ConfigError
from surefoot.core.ports import Needs, Plugin, Scores
from surefoot.core.types import EMPTY_DRAFT, Draft, Ids, as_ids

Match = Literal["longest", "first", "recent"]

NAME = "ngram"
# chosen: the index holds one entry per token and n; the longest n-gram any engine looked up by default is 5
# (vLLM), and a match longer than this belongs to a suffix automaton.
LIMIT_N = 32


@dataclass(frozen=True, slots=True)
class Options:
    """How an earlier occurrence of the last n tokens is chosen, and how far it is continued.

    Source: `min_n` measured: 2-core x86 with AVX2, SmolLM2 on OpenVINO fp16, chat ran at 0.57 to 0.90 of plain speed
    with single-token matches and at 0.95 to 1.00 with two tokens and more. `match` measured: same machine, on a
    near-copy of code the first and the longest match accept more than the most recent one. `max_n` chosen: the longest
    of the scan that CoreML-LLM benchmarks (4 down to 2); each further n is one more index entry per token.
    `extend` chosen: without it a loop of period p is left after p tokens, one a round where p = 1.
    """

    max_n: int = field(default=4, metadata={"help": "longest n-gram that is looked up, in tokens"})
    min_n: int = field(default=2, metadata={"help": "shortest n-gram that is looked up, in tokens"})
    match: Match = field(
        default="longest",
        metadata={
            "help": "which earlier occurrence is continued: longest (largest n, then the most recent), "
            "first (largest n, then the earliest) or recent (the most recent of the last min_n tokens)"
        },
    )
    overlap: bool = field(
        default=True,
        metadata={"help": "whether the occurrence and its continuation may reach into the n tokens that are looked up"},
    )
    extend: bool = field(
        default=True,
        metadata={"help": "whether a continuation that reaches the end of the text goes on by repeating itself"},
    )

    def __post_init__(self) -> None:
        if not 1 <= self.min_n <= LIMIT_N:
            raise ConfigError(f"ngram min_n = {self.min_n} is not a usable length: choose one from 1 to {LIMIT_N}")
        if not self.min_n <= self.max_n <= LIMIT_N:
            raise ConfigError(
                f"ngram max_n = {self.max_n} does not go with min_n = {self.min_n}: "
                f"choose max_n from {self.min_n} to {LIMIT_N}"
            )
        if self.match not in get_args(Match):
            raise ConfigError(f"ngram match = {self.match!r} is unknown: choose one of {', '.join(get_args(Match))}")
        if self.extend and not self.overlap:
            raise ConfigError(
                "ngram extend = true needs overlap = true, because without overlap no continuation reaches the end of "
                "the text: set extend = false, or allow the overlap"
            )


class NgramDrafter:
    """Guesses by looking up the last n tokens. Holds changing state: the tokens it was shown, and their n-grams.

    A draft never changes that state, so rejected drafts leave no trace.
    Cost: per token and n one dictionary store, per proposal and n at most one dictionary read, whatever the length of
    the context; the keys are bytes, whose salted hash no prompt can aim at.
    Units: memory 4 bytes per token, and up to 140 bytes per distinct n-gram of each indexed n (measured: tracemalloc,
    CPython 3.11, 87,000 to 350,000 tokens), so at most 0.43 kB per token with n from 2 to 4; "recent" indexes one n.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        sizes = [options.min_n] if options.match == "recent" else range(options.max_n, options.min_n - 1, -1)
        self._sizes = tuple(sizes)
        self._forget()

    @property
    def needs(self) -> Needs:
        return Needs()

    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        """Forget everything and index the prompt and the root, in time proportional to them."""
        self._forget()
        self._append(prompt.tolist())
        self._append((root,))

    def propose(self, budget: int) -> Draft:
        """What followed the chosen occurrence, at most `budget` tokens; `match_len` says how many agreed before it."""
        found = self._find() if budget > 0 else None
        if found is None:
            return EMPTY_DRAFT
        n, end = found
        stop = len(self._history) - (0 if self._options.overlap else n)
        ids = self._history[end : min(end + budget, stop)]
        if self._options.extend and len(ids) < budget:
            # The draft is copied from `stop - end` tokens ago, so past the known text it copies itself.
            ids = (ids * (budget // len(ids) + 1))[:budget]
        return Draft(as_ids(ids), source=NAME, match_len=self._agreement(n, end))

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        """Index what was emitted."""
        self._append(new_ids)

    def _forget(self) -> None:
        self._history = array("i")
        self._ends: dict[int, dict[bytes, int]] = {n: {} for n in self._sizes}

    def _append(self, ids: Iterable[int]) -> None:
        """Take in the ids, and index each n-gram once a match that ends with it has become allowed.

        An n-gram is indexed late: the suffix itself must not be found, and without overlap nothing that touches it.
        So the entry that a look-up finds is always usable, and one entry per n-gram is enough.
        """
        history = self._history
        first = self._options.match == "first"
        indexes = [(n, 1 if self._options.overlap else n + 1, seen) for n, seen in self._ends.items()]
        for token in ids:
            history.append(token)
            for n, lag, seen in indexes:
                end = len(history) - lag
                if end >= n:
                    key = history[end - n : end].tobytes()
                    if first:
                        seen.setdefault(key, end)
                    else:
                        seen[key] = end

    def _find(self) -> tuple[int, int] | None:
        """The largest indexed n whose last n tokens occurred before, and where the chosen occurrence ended."""
        for n, seen in self._ends.items():
            end = seen.get(self._history[-n:].tobytes())
            if end is not None:
                return n, end
        return None

    def _agreement(self, n: int, end: int) -> int:
        """How many tokens before `end` equal the last ones: at least n, at most max_n."""
        history = self._history
        while n < min(self._options.max_n, end) and history[end - n - 1] == history[-n - 1]:
            n += 1
        return n


def _build(options: Options, _target: object) -> NgramDrafter:
    return NgramDrafter(options)


PLUGIN = Plugin(
    name=NAME,
    summary="looks the last tokens up in the text so far and continues as it did there; costs microseconds",
    options=Options,
    build=_build,
)
