"""A drafter whose exceptions cost drafts and nothing else."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

from surefoot.core.errors import LawError, SurefootError
from surefoot.core.loop import check_draft
from surefoot.core.ports import Drafter, Needs, Scores, Target
from surefoot.core.types import EMPTY_DRAFT, Draft, Ids, as_ids

FAILURES = 3
"""chosen: an accident may happen twice in a text; what happens a third time is no accident."""


class Guarded:
    """The drafter inside, as long as it works. Holds changing state: the tokens so far, and how often it failed.

    A draft is only a guess, so one that fails need not end the text: the round becomes a plain one, the user is told,
    and the drafter begins anew on the tokens so far. It is given up until the next text when it fails in that, too, or
    for the third time, or when it reads hidden states, which nobody can show it again. A draft that the loop would not
    take is a failure like any other. So is a promise that broke in the drafter, a LawError: what it says of a cache is
    said of the drafter's own, and the judge, not the drafter, keeps the law of the text.
    """

    def __init__(self, inner: Drafter, name: str, target: Target, note: Callable[[str], None]) -> None:
        """target: that it guesses for. It is asked for nothing before there is a draft: a record has no target."""
        self.inner = inner
        self._name = name
        self._target = target
        self._note = note
        self._known = array("i")
        self._failures = 0
        self._works = True

    @property
    def needs(self) -> Needs:
        return self.inner.needs

    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        """As the drafter inside; what it failed at in an earlier text is forgiven."""
        self._known = array("i", [*prompt.tolist(), root])
        self._failures, self._works = 0, True
        self._begin(prompt, root, scores)

    def propose(self, budget: int) -> Draft:
        """As the drafter inside; nothing where it fails."""
        if self._works:
            try:
                return self._checked(self.inner.propose(budget), budget)
            except Exception as error:
                self._failed("propose", error)
        return EMPTY_DRAFT

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        """As the drafter inside; one that has failed begins anew."""
        self._known.extend(new_ids)
        if self._works:
            try:
                self.inner.observe(new_ids, scores)
            except Exception as error:
                self._failed("observe", error)
        elif 0 < self._failures < FAILURES and not self.inner.needs.taps:
            self._works = True
            self._begin(as_ids(self._known[:-1]), self._known[-1], scores)
            if not self._works:
                self._failures = FAILURES

    def _checked(self, draft: Draft, budget: int) -> Draft:
        check_draft(draft, budget, self._target.caps.vocab_size)
        if draft.parents is not None and not self.inner.needs.trees:
            raise LawError(f"drafter {draft.source!r} proposed a tree and did not say that it drafts any")
        return draft

    def _begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        try:
            self.inner.begin(prompt, root, scores)
        except Exception as error:
            self._failed("begin", error)

    def _failed(self, what: str, error: Exception) -> None:
        self._works = False
        self._failures += 1
        self._note(f"the drafter {self._name} failed in {what} ({told(error)}); the text goes on without its drafts")


def told(error: Exception) -> str:
    """What happened and where. The words of an error that is not ours may quote the text, so they are left out."""
    if isinstance(error, SurefootError):
        return str(error)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else ""
    return type(error).__name__ + where
