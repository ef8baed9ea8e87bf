"""Drafts out of an automaton: the way that was gone most often, and the ways beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

from surefoot.drafters.suffix.automaton import Automaton

UNSEEN = 1.0
"""chosen: behind a suffix of m tokens, what was not seen yet counts as 1 / (m + 1) of an occurrence: the longer the
match, the surer. With half an occurrence whatever the match (the estimator of Krichevsky and Trofimov) trees gave up
long copies for branches, and took up to 13 % more time than chains on a toy."""

SHORTER = 4
"""chosen: classes of suffixes that are asked for what may come next. In natural text the first two or three differ; a
loop has one a token, all of which say the same."""

Following = Callable[[int], int]
"""following(state): where to go on from a state that nothing followed, or -1 to end there."""


def stop(state: int) -> int:
    """End where the text ends."""
    return -1


@dataclass(frozen=True, slots=True)
class Branches:
    """Nodes of a tree, likeliest first, each after its parent. parents: places in the tree, -1 for the root."""

    ids: list[int]
    parents: list[int]

    @property
    def is_chain(self) -> bool:
        return self.parents == list(range(-1, len(self.parents) - 1))


def chain(
    automaton: Automaton, state: int, budget: int, min_chance: float, end: int, following: Following
) -> tuple[list[int], float]:
    """The most frequent continuation, the latest among equals, and the share of its first token.

    It ends before the token with which its chance, the product of the shares, falls below `min_chance`, and before
    the token `end`.
    """
    ids: list[int] = []
    chance = first = 1.0
    while len(ids) < budget:
        ways = automaton.after(state)
        if not ways:
            state = following(state)
            if state < 0:
                break
            continue
        token, state = ways[0]
        if len(ways) > 1:
            token, state, share = _likeliest(automaton, ways)
            chance *= share
            if not ids:
                first = share
        if chance < min_chance or token == end:
            break
        ids.append(token)
    return ids, first


def _likeliest(automaton: Automaton, ways: list[tuple[int, int]]) -> tuple[int, int, float]:
    """The token gone to most often, the latest among equals, its state, and its share of all."""
    most = latest = total = -1
    chosen = ways[0]
    for way in ways:
        count = automaton.count(way[1])
        total += count
        if count > most or (count == most and automaton.last(way[1]) > latest):
            most, latest, chosen = count, automaton.last(way[1]), way
    return *chosen, most / (total + 1)


def tree(
    automaton: Automaton, state: int, budget: int, width: int, shortest: int, end: int, following: Following
) -> Branches:
    """The `budget` likeliest nodes of all continuations, at most `width` after each.

    After a node come the tokens that followed its class, then, where these leave room, those that followed its shorter
    suffixes down to `shortest` tokens: each class gives what it has not seen to the next shorter one.
    Source: prediction by partial matching (J. Cleary and I. Witten, IEEE Transactions on Communications 32:396, 1984).
    """
    ids: list[int] = []
    parents: list[int] = []
    heap: list[tuple[float, int, int, int, int]] = []
    order = 0

    def grow(parent: int, state: int, chance: float) -> None:
        nonlocal order
        for token, target, share in _children(automaton, state, width, shortest, following):
            if token != end:
                heappush(heap, (-chance * share, order, parent, token, target))
                order += 1

    grow(-1, state, 1.0)
    while heap and len(ids) < budget:
        negative, _, parent, token, target = heappop(heap)
        ids.append(token)
        parents.append(parent)
        grow(len(ids) - 1, target, -negative)
    return Branches(ids, parents)


def _children(
    automaton: Automaton, state: int, width: int, shortest: int, following: Following
) -> list[tuple[int, int, float]]:
    """Tokens that may come next, the states they lead to and their chances, at most `width` of them."""
    found: list[tuple[int, int, float]] = []
    seen: set[int] = set()
    left = 1.0
    for _ in range(SHORTER):
        if state <= 0 or automaton.length(state) < shortest or len(found) >= width:
            break
        ways = [way for way in automaton.after(state) if way[0] not in seen]
        if not ways and not found:
            state = following(state)
            continue
        counts = [automaton.count(target) for _, target in ways]
        unseen = UNSEEN / (automaton.length(state) + 1)
        total = sum(counts) + unseen
        ranked = sorted(zip(counts, ways, strict=True), key=lambda pair: (-pair[0], -automaton.last(pair[1][1])))
        for count, (token, target) in ranked[: width - len(found)]:
            found.append((token, target, left * count / total))
            seen.add(token)
        left *= unseen / total
        state = automaton.shorter(state)
    return found
