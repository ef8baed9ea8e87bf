"""Plain decoding asks for no drafts, and nothing about them has to be weighed."""

from __future__ import annotations

from surefoot.core.types import Draft, Round, State


class Plain:
    """The policy of a text without drafts, in the place of the chosen one. Holds no state.

    What another would reckon in every round is time that the baseline of every comparison would pay for nothing.
    """

    def budget(self, state: State) -> int:
        """None."""
        return 0

    def cut(self, draft: Draft) -> int:
        """None of it."""
        return 0

    def learn(self, round: Round) -> None:
        """Nothing."""
