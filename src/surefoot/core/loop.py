"""The loop: guess, score in one forward, keep what the model agrees with, repeat."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress

import numpy as np

from surefoot.core.errors import LawError, TargetError
from surefoot.core.history import History
from surefoot.core.judge import Judge
from surefoot.core.limits import Limits
from surefoot.core.logprobs import token_logprob
from surefoot.core.ports import Clock, Drafter, Policy, Scores, Session
from surefoot.core.types import EMPTY_DRAFT, Caps, Draft, Finish, Ids, Round, State, TokenLogprob


def generate(
    session: Session,
    prompt: Ids,
    *,
    caps: Caps,
    drafter: Drafter,
    policy: Policy,
    judge: Judge,
    limits: Limits,
    clock: Clock,
    cancelled: Callable[[], bool] = lambda: False,
    width: Callable[[int, int], int] | None = None,
    top_logprobs: int | None = None,
) -> Generator[Round, None, Finish]:
    """One `Round` per forward, the prefill first; returns why writing ended.

    The session may hold a committed beginning of `prompt`, which is not computed again. `width(rows, depth)` may ask
    for more rows to be computed than are scored. `top_logprobs` (0 and up) adds log-probabilities to the rounds.
    However it is left (end, exception, a dropped consumer), the session stands at its last committed length.
    """
    history = History(prompt)
    tail = False
    longest = caps.max_length - len(prompt) + 1
    ceiling = min(limits.max_tokens, longest)
    ceiling_ends: Finish = "length" if limits.max_tokens <= longest else "context"
    try:
        start, depth = clock(), session.length
        scores = session.prefill(prompt[depth:])
        scored = clock()
        root = judge.pick(scores, 0, history)
        judged = clock()
        _, finish = limits.clip((root,), ceiling, ceiling_ends)
        drafter.begin(prompt, root, scores)
        logprobs = None if top_logprobs is None else _logprobs(scores, (0,), (root,), top_logprobs)
        emitted = 1
        yield Round(
            (root,), 0, 0, 0, depth, 1, scores.width, "prefill", 0,
            0.0, scored - start, judged - scored, (ended := clock()) - judged, finish, logprobs,
        )  # fmt: skip
        while finish is None:
            if cancelled():
                return "cancel"
            start, depth = clock(), len(prompt) + emitted - 1
            host_s = start - ended
            room = min(ceiling - emitted - 1, caps.max_rows - 1)
            # Here and below: without the frame of a NamedTuple's own constructor, 0.1 of 0.3 to 0.7 us when warm.
            state = tuple.__new__(State, (room, depth, emitted))
            proposed, draft = _draft(drafter, policy, state, caps.vocab_size)
            drafted = clock()
            block, parents = _block(root, draft)
            rows, tail = len(block), True
            scores = session.extend(block, parents, width(rows, depth) if width else None)
            scored = clock()
            verdict = judge.judge(draft, scores, history)
            kept, finish = limits.clip(verdict.new_ids, ceiling - emitted, ceiling_ends)
            new_ids, path = verdict.new_ids[:kept], verdict.path[:kept]
            logprobs = None if top_logprobs is None else _logprobs(scores, path, new_ids, top_logprobs)
            judged = clock()
            session.commit(kept if parents is None else path)
            tail = False
            emitted += kept
            if session.length != depth + kept:
                raise LawError(f"the cache holds {session.length} tokens after {len(prompt)} + {emitted} were written")
            drafter.observe(new_ids, scores)
            root = new_ids[-1]
            round_ = tuple.__new__(Round, (
                new_ids, proposed, proposed - (rows - 1), min(kept, len(verdict.new_ids) - 1), depth, rows,
                scores.width, draft.source, draft.match_len,
                drafted - start, scored - drafted, judged - scored, (ended := clock()) - judged, finish, logprobs,
                sum(place < kept for place in verdict.lossy) if verdict.lossy else 0, host_s,
            ))  # fmt: skip
            policy.learn(round_)
            yield round_
        return finish
    except BaseException:
        # Only a tail of this round is dropped: at a yield the session may already serve somebody else.
        if tail:
            with suppress(TargetError):
                session.commit(0)
        raise


def _draft(drafter: Drafter, policy: Policy, state: State, vocab_size: int) -> tuple[int, Draft]:
    """How many tokens were proposed, and the part of them that is to be scored."""
    budget = max(0, min(policy.budget(state), state.room))
    if budget == 0:
        return 0, EMPTY_DRAFT
    draft = drafter.propose(budget)
    proposed = check_draft(draft, budget, vocab_size)
    if not proposed:
        return 0, draft
    kept = policy.cut(draft)
    if not 0 <= kept <= proposed:
        raise LawError(f"the policy kept {kept} of {proposed} drafted tokens")
    return proposed, draft.head(kept)


def check_draft(draft: Draft, budget: int, vocab_size: int) -> int:
    """How many tokens it has. Raises: LawError where they are too many, or not all of the vocabulary."""
    ids = draft.ids.tolist()
    if len(ids) > budget:
        raise LawError(f"drafter {draft.source!r} proposed {len(ids)} tokens where {budget} were asked for")
    if ids and not (min(ids) >= 0 and max(ids) < vocab_size):
        raise LawError(f"drafter {draft.source!r} proposed an id outside the vocabulary of {vocab_size} tokens")
    if draft.q is not None and draft.q.shape[1] != vocab_size:
        raise LawError(f"drafter {draft.source!r} gave q for {draft.q.shape[1]} tokens of a vocabulary of {vocab_size}")
    return len(ids)


def _block(root: int, draft: Draft) -> tuple[Ids, list[int] | None]:
    """The rows to score, the root first, and their parents where the draft is a tree."""
    if not len(draft.ids):
        return np.array((root,), np.int32), None
    block = np.array((root, *draft.ids.tolist()), np.int32)
    return block, None if draft.parents is None else [-1, *(draft.parents + 1).tolist()]


def _logprobs(scores: Scores, path: tuple[int, ...], ids: tuple[int, ...], top: int) -> tuple[TokenLogprob, ...]:
    return tuple(token_logprob(scores, row, token, top) for row, token in zip(path, ids, strict=True))
