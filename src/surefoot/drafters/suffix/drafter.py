"""The drafter: the longest suffix that occurred before, in this text or in earlier ones, goes on as it mostly did."""

from __future__ import annotations

from collections.abc import Sequence

from surefoot.core.ports import Needs, Scores
from surefoot.core.types import EMPTY_DRAFT, Draft, Ids, as_ids
from surefoot.drafters.suffix import walk
from surefoot.drafters.suffix.automaton import Automaton
from surefoot.drafters.suffix.corpus import SEPARATOR, Corpus
from surefoot.drafters.suffix.options import Options

SOURCE, SPLIT, CORPUS = "suffix", "suffix-split", "corpus"
"""Where a draft came from: from the text, all earlier occurrences going on alike; from the text, where they do not;
from earlier outputs. Whoever estimates the chance of a draft by its source tells these apart without being told."""


class Cursor:
    """The longest suffix of what was read that occurs in an automaton. Holds changing state: its place."""

    def __init__(self) -> None:
        self.state = 0
        self.matched = 0

    def read(self, automaton: Automaton, token: int) -> None:
        """One more token; amortised O(1)."""
        state, matched = self.state, self.matched
        following = automaton.step(state, token)
        while following < 0 and state > 0:
            state = automaton.shorter(state)
            matched = automaton.length(state)
            following = automaton.step(state, token)
        self.state, self.matched = (following, matched + 1) if following >= 0 else (0, 0)


class SuffixDrafter:
    """Guesses by the longest suffix that occurred before. Holds changing state: the automaton of the text so far.

    A draft never changes that state, so rejected drafts leave no trace. With a corpus, each text reads the earlier
    ones; its own output is learned by `finish`, once.
    """

    def __init__(self, options: Options, corpus: Corpus | None = None) -> None:
        self._options = options
        self._corpus = corpus
        self._forget()

    @property
    def needs(self) -> Needs:
        # What it remembers of earlier texts is no part of this one's history.
        return Needs(trees=self._options.branches > 1, history_only=self._corpus is None)

    @property
    def automaton(self) -> Automaton:
        """That of prompt and output so far."""
        return self._text

    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        """Forget the text before, and take in the prompt and the root, in time proportional to them."""
        self._forget()
        self._read(prompt.tolist())
        self.observe((root,), scores)

    def propose(self, budget: int) -> Draft:
        """How the longest suffix mostly went on, at most `budget` tokens; `match_len` is its length."""
        if budget <= 0:
            return EMPTY_DRAFT
        text, state = self._text, self._text.repeated
        matched = text.length(state)
        if self._earlier is not None and self._cursor.matched > matched:
            return self._draft(self._earlier, self._cursor.state, self._cursor.matched, budget, CORPUS, walk.stop)
        following = (lambda _: state) if self._options.extend else walk.stop
        return self._draft(text, state, matched, budget, SOURCE, following)

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        """Take in what was emitted."""
        self._read(new_ids)
        if self._corpus is not None:
            self._output.extend(new_ids)

    def finish(self) -> None:
        """Let the corpus learn the output of this text, and save it. Raises: ConfigError when it cannot be saved."""
        if self._corpus is not None and self._output:
            self._corpus.learn(self._output)
            self._output.clear()
            self._corpus.save()

    def _forget(self) -> None:
        self._text = Automaton()
        self._earlier = None if self._corpus is None else self._corpus.automaton
        self._cursor = Cursor()
        self._output: list[int] = []

    def _read(self, ids: Sequence[int]) -> None:
        self._text.extend(ids)
        if self._earlier is not None:
            for token in ids:
                self._cursor.read(self._earlier, token)

    def _draft(
        self, automaton: Automaton, state: int, matched: int, budget: int, source: str, following: walk.Following
    ) -> Draft:
        options = self._options
        if matched < options.min_match:
            return EMPTY_DRAFT
        if options.branches > 1:
            grown = walk.tree(automaton, state, budget, options.branches, options.min_match, SEPARATOR, following)
            parents = None if grown.is_chain else as_ids(grown.parents)
            return (
                Draft(as_ids(grown.ids), parents=parents, source=source, match_len=matched)
                if grown.ids
                else EMPTY_DRAFT
            )
        ids, share = walk.chain(automaton, state, budget, options.min_chance, SEPARATOR, following)
        if source == SOURCE and share < 1.0:
            source = SPLIT
        return Draft(as_ids(ids), source=source, match_len=matched) if ids else EMPTY_DRAFT
