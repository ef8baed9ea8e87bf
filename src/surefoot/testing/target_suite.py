"""What every target promises, as checks that run on any of them. `surefoot.testing.conformance` is the door."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from surefoot.core.errors import CapacityError, LawError, NotEligible, SurefootError, TargetError
from surefoot.core.ports import Target
from surefoot.core.types import as_ids
from surefoot.testing.probe import Probe, demand, difference
from surefoot.testing.references import fresh_logits, fresh_taps, on_host

_FILL_UP_TO = 2048
"""chosen: a context up to this long is filled to its last token by the suite; a longer one would take minutes."""

Check = Callable[[Target, float, np.random.Generator], None]


def random_ids(target: Target, rng: np.random.Generator, n: int) -> list[int]:
    """n ids of the vocabulary."""
    ids: list[int] = rng.integers(0, target.caps.vocab_size, n).tolist()
    return ids


def refused(verb: Callable[[], object], what: str, *errors: type[SurefootError]) -> None:
    """Raises: AssertionError unless `verb` raises one of `errors`."""
    wanted = " or ".join(error.__name__ for error in errors)
    try:
        verb()
    except errors:
        return
    except Exception as error:
        raise AssertionError(f"{what} must raise {wanted}; it raised {type(error).__name__}: {error}") from error
    raise AssertionError(f"{what} must raise {wanted}; it was accepted")


def random_walk(target: Target, tolerance: float, rng: np.random.Generator) -> None:
    """A1: after any mix of verbs the next row is that of a fresh prefill of the committed ids."""
    probe = Probe(target, tolerance)
    probe.prefill(random_ids(target, rng, 3))
    longest = min(target.caps.max_length, 96)
    for _ in range(60):
        space = longest - len(probe.committed) - len(probe.tail)
        verb = rng.choice(["extend", "extend", "extend", "commit", "commit", "prefill", "reset", "renew"])
        if space < 8 or verb == "renew":
            probe.renew()
            probe.prefill(random_ids(target, rng, int(rng.integers(1, 6))))
        elif verb == "extend":
            rows = int(rng.integers(1, min(target.caps.max_rows, 7) + 1))
            probe.extend(random_ids(target, rng, rows))
        elif verb == "prefill":
            probe.commit(0)
            probe.prefill(random_ids(target, rng, int(rng.integers(1, 5))))
        elif verb == "commit":
            if not probe.tail:
                probe.extend(random_ids(target, rng, int(rng.integers(1, min(target.caps.max_rows, 7) + 1))))
            n = int(rng.integers(0, len(probe.tail) + 1))
            probe.commit(n if rng.random() < 0.7 else list(range(n)))
            if rng.random() < 0.3:
                probe.next_row(random_ids(target, rng, 1)[0], f"after commit({n})")
        elif verb == "reset" and probe.committed:
            probe.reset(int(rng.integers(1, len(probe.committed) + 1)))
            probe.next_row(random_ids(target, rng, 1)[0], f"after reset({len(probe.committed)})")
    probe.session.close()


def rejected_rows_leave_nothing(target: Target, tolerance: float, rng: np.random.Generator) -> None:
    """A1: the loop's own pattern, a block of which a part is kept, round after round, leaves no trace."""
    probe = Probe(target, tolerance)
    probe.prefill(random_ids(target, rng, 4))
    rows = min(target.caps.max_rows, 5)
    for keep in [1, rows, 0, 1, *(int(k) for k in rng.integers(0, rows + 1, 8))]:
        if len(probe.committed) + rows > target.caps.max_length:
            probe.renew()
            probe.prefill(random_ids(target, rng, 1))
        probe.extend(random_ids(target, rng, rows))
        probe.commit(keep)
    probe.next_row(random_ids(target, rng, 1)[0], "after many partly kept blocks")
    probe.session.close()


def several_extends(target: Target, tolerance: float, rng: np.random.Generator) -> None:
    """Chains may extend several times before one commit, which counts over all of the tail."""
    for keep in range(6):
        probe = Probe(target, tolerance)
        probe.prefill(random_ids(target, rng, 2))
        for rows in (2, 1, 2):
            probe.extend(random_ids(target, rng, min(rows, target.caps.max_rows)))
        probe.commit(min(keep, len(probe.tail)))
        probe.next_row(random_ids(target, rng, 1)[0], f"after three extends and commit({keep})")
        probe.session.close()


def prefill_in_parts(target: Target, tolerance: float, rng: np.random.Generator) -> None:
    """A prompt may come in parts; with an uncommitted tail a prefill is a LawError and changes nothing."""
    probe = Probe(target, tolerance)
    for n in (1, 4, 1, 2):
        probe.prefill(random_ids(target, rng, n))
    probe.extend(random_ids(target, rng, 1))
    refused(lambda: probe.session.prefill(as_ids([0])), "a prefill with an uncommitted tail", LawError)
    probe.commit(1)
    probe.prefill(random_ids(target, rng, 2))
    probe.session.close()


def scores_last(target: Target, tolerance: float, rng: np.random.Generator) -> None:
    """Scores outlive a commit, and whatever another session does, read before or not."""
    probe = Probe(target, tolerance)
    other = Probe(target, tolerance)
    other.prefill(random_ids(target, rng, 3))
    probe.prefill(random_ids(target, rng, 3))
    rows = min(3, target.caps.max_rows)
    for keep in (0, 1, rows):
        block = random_ids(target, rng, rows)
        scores = probe.session.extend(as_ids(block))
        seen = [*probe.committed, *block]
        before = np.array(scores.logits(0))
        probe.session.commit(keep)
        probe.committed += block[:keep]
        other.extend(random_ids(target, rng, 1))
        other.commit(0)
        what = f"scores of an extend, read after commit({keep}) and an extend of another session"
        demand(np.array_equal(before, scores.logits(0)), f"{what}: row 0 is no longer what it was before them")
        for row in range(rows):
            probe.check_row(scores, row, seen[: len(seen) - rows + row + 1], what)
    scores = probe.session.prefill(as_ids([0]))
    other.prefill(random_ids(target, rng, 2))
    probe.check_row(scores, 0, [*probe.committed, 0], "scores of a prefill, read after a prefill of another session")
    probe.session.close()
    other.next_row(0, "after another session was closed")
    other.session.close()


def commits_are_checked(target: Target, tolerance: float, rng: np.random.Generator) -> None:
    """A commit of what is not in the tail, or not a path in it, is a LawError; commit(0) is always allowed."""
    probe = Probe(target, tolerance)
    probe.commit(0)
    probe.prefill(random_ids(target, rng, 3))
    probe.commit(0)
    rows = min(3, target.caps.max_rows)
    for wrong in (rows + 1, -1, [rows], [1], [0, 0], [0, 2], [-1]):
        if wrong == [0, 2] and rows < 3:
            continue
        probe.extend(random_ids(target, rng, rows))
        refused(lambda keep=wrong: probe.session.commit(keep), f"commit({wrong}) of a tail of {rows}", LawError)  # type: ignore[misc]
        probe.next_row(random_ids(target, rng, 1)[0], f"after the refused commit({wrong})")
    probe.session.close()


def resets(target: Target, tolerance: float, rng: np.random.Generator) -> None:
    """reset(keep) drops the tail and all committed tokens but the first `keep`."""
    probe = Probe(target, tolerance)
    probe.prefill(random_ids(target, rng, 9))
    for keep in (9, 6, 5, 1, 0):
        if probe.committed and rng.random() < 0.7:
            probe.extend(random_ids(target, rng, min(2, target.caps.max_rows)))
        probe.reset(keep)
        if keep:
            probe.next_row(random_ids(target, rng, 1)[0], f"after reset({keep})")
    probe.prefill(random_ids(target, rng, 4))
    refused(lambda: probe.session.reset(5), "reset(5) of a session of 4 tokens", SurefootError)
    probe.next_row(random_ids(target, rng, 1)[0], "after the refused reset(5)")
    probe.session.close()


def capacity(target: Target, tolerance: float, rng: np.random.Generator) -> None:
    """Too many rows or tokens are a CapacityError that changes nothing, and the last token of the context is usable."""
    caps = target.caps
    probe = Probe(target, tolerance)
    refused(
        lambda: probe.session.prefill(as_ids(random_ids(target, rng, caps.max_length + 1))),
        f"a prefill of max_length + 1 = {caps.max_length + 1} tokens",
        CapacityError,
    )
    probe.prefill(random_ids(target, rng, 2))
    if caps.max_rows < caps.max_length - 2:
        refused(
            lambda: probe.session.extend(as_ids(random_ids(target, rng, caps.max_rows + 1))),
            f"an extend of max_rows + 1 = {caps.max_rows + 1} rows",
            CapacityError,
        )
        probe.next_row(0, "after an extend of too many rows")
    if caps.max_length <= _FILL_UP_TO:
        _fill(probe, rng)
    probe.session.close()


def _fill(probe: Probe, rng: np.random.Generator) -> None:
    caps, target = probe.target.caps, probe.target
    probe.prefill(random_ids(target, rng, caps.max_length - 4))
    probe.extend(random_ids(target, rng, 1))
    rows = min(2, caps.max_rows)
    what = f"an extend of {rows} rows with one place left"
    if rows > 1:
        refused(lambda: probe.session.extend(as_ids(random_ids(target, rng, rows))), what, CapacityError)
    probe.extend(random_ids(target, rng, 1), width=2 if caps.can_pad and caps.max_rows > 1 else None)
    refused(lambda: probe.session.extend(as_ids([0])), "an extend of a full context", CapacityError)
    probe.commit(1)
    probe.next_row(0, "after extends past the end of the context")
    probe.extend([0])
    probe.commit(1)
    refused(lambda: probe.session.prefill(as_ids([0])), "a prefill into a full context", CapacityError)
    probe.reset(caps.max_length - 2)
    probe.next_row(0, "after a reset of a full context")


def widths(target: Target, tolerance: float, rng: np.random.Generator) -> None:
    """Padding cannot be seen from outside; where the target cannot pad, it refuses to."""
    probe = Probe(target, tolerance)
    probe.prefill(random_ids(target, rng, 3))
    most = min(target.caps.max_rows, 4)
    probe.extend(random_ids(target, rng, most), width=most)
    refused(lambda: probe.session.extend(as_ids([0, 0]), None, 1), "a width below the rows", SurefootError)
    probe.next_row(0, "after a refused width")
    if not target.caps.can_pad:
        refused(lambda: probe.session.extend(as_ids([0]), None, 2), "padding without caps.can_pad", SurefootError)
        probe.next_row(0, "after refused padding")
        probe.session.close()
        return
    for rows in range(1, most + 1):
        for width in range(rows, min(target.caps.max_rows, rows + 5) + 1):
            probe.extend(random_ids(target, rng, rows), width=width)
            probe.commit(int(rng.integers(0, rows + 1)))
            if len(probe.committed) + most > target.caps.max_length:
                probe.reset(2)
    probe.next_row(0, "after padded blocks")
    refused(
        lambda: probe.session.extend(as_ids([0]), None, target.caps.max_rows + 1),
        "a width above max_rows",
        CapacityError,
    )
    probe.next_row(0, "after a refused width")
    probe.session.close()


def random_tree(rng: np.random.Generator, rows: int) -> list[int]:
    """Parents of a random tree, each before its children."""
    return [-1, *(int(rng.integers(-1, row)) for row in range(1, rows))]


def trees(target: Target, tolerance: float, rng: np.random.Generator) -> None:
    """Rows of a tree see their ancestors only, any path can be kept, and a tree stands alone before its commit."""
    probe = Probe(target, tolerance)
    probe.prefill(random_ids(target, rng, 3))
    if not target.caps.can_tree or target.caps.max_rows < 2:
        if not target.caps.can_tree:
            refused(
                lambda: probe.session.extend(as_ids([0, 0]), [-1, -1]), "a tree without caps.can_tree", SurefootError
            )
        probe.next_row(0, "after a refused tree")
        probe.session.close()
        return
    for _ in range(8):
        rows = int(rng.integers(2, min(target.caps.max_rows, 9) + 1))
        if len(probe.committed) + rows > target.caps.max_length:
            probe.reset(2)
        parents = random_tree(rng, rows)
        ids = random_ids(target, rng, rows)
        ids[-1] = ids[0]  # equal tokens on different branches
        probe.extend(ids, parents)
        place, path = int(rng.integers(-1, rows)), list[int]()
        while place >= 0:
            path.append(place)
            place = parents[place]
        probe.commit(path[::-1])
        probe.next_row(random_ids(target, rng, 1)[0], f"after a path of a tree with parents {parents} was kept")
    _tree_refusals(probe)
    probe.session.close()


def _tree_refusals(probe: Probe) -> None:
    session = probe.session
    for wrong, what in (([0, 1], [-1, 1]), ([0, 1], [0, -1]), ([0, 1], [-1, -2]), ([0, 1], [-1])):
        refused(lambda b=wrong, p=what: session.extend(as_ids(b), p), f"a tree with parents {what}", LawError)  # type: ignore[misc]
        probe.next_row(0, f"after the refused parents {what}")
    probe.extend([0, 1], [-1, -1])
    refused(lambda: session.commit([0, 1]), "a commit of two siblings", LawError)
    refused(lambda: session.commit(2), "a commit of two siblings by their number", LawError)
    refused(lambda: session.extend(as_ids([0])), "an extend after a tree, before its commit", LawError)
    probe.commit([1])
    probe.extend([0])
    refused(lambda: session.extend(as_ids([0, 1]), [-1, -1]), "a tree behind a chain", SurefootError)
    probe.commit(1)
    probe.next_row(0, "after refused trees")


def taps(target: Target, tolerance: float, rng: np.random.Generator) -> None:
    """Taps have a row per scored token, the same as in one prefill of all tokens; unknown names are refused."""
    refused(lambda: target.open(("no such tap",)), "a session with an unknown tap", NotEligible)
    names = target.caps.tap_names
    names = tuple(dict.fromkeys([*names[:1], *names[len(names) // 2 : len(names) // 2 + 1], *names[-1:]]))
    if not names:
        return
    probe = Probe(target, tolerance, names)
    prompt = random_ids(target, rng, 5)
    rows = min(3, target.caps.max_rows)
    _check_taps(probe, probe.prefill(prompt), 0, 5)
    for keep in (0, rows):
        scores = probe.extend(random_ids(target, rng, rows))
        start = len(probe.committed)
        _check_taps(probe, scores, start, rows)
        probe.commit(keep)
    if target.caps.can_pad and target.caps.max_rows > rows:
        _check_taps(probe, probe.extend(random_ids(target, rng, rows), width=rows + 1), len(probe.committed), rows)
    probe.session.close()


def _check_taps(probe: Probe, scores: object, start: int, rows: int) -> None:
    wanted = fresh_taps(probe.target, probe.committed + probe.tail, probe.taps)
    for name in probe.taps:
        found = on_host(scores.tap(name))  # type: ignore[attr-defined]
        due = wanted[name][start : start + rows]
        demand(found.shape == due.shape, f"tap {name!r} of {rows} tokens has shape {found.shape}; {due.shape} was due")
        # Hidden states are larger than logits by orders of magnitude, so the tolerance is one of their spread.
        slack = probe.tolerance * max(1.0, float(np.abs(due).max()))
        delta = difference(found, due)
        demand(delta <= slack, f"tap {name!r} differs from that of one prefill by {delta:.3g}")


def closing(target: Target, tolerance: float, rng: np.random.Generator) -> None:
    """close() frees; twice is fine; any other verb afterwards is a TargetError."""
    probe = Probe(target, tolerance)
    probe.prefill(random_ids(target, rng, 3))
    probe.extend([0])
    session = probe.session
    session.close()
    session.close()
    verbs: Mapping[str, Callable[[], object]] = {
        "prefill": lambda: session.prefill(as_ids([0])),
        "extend": lambda: session.extend(as_ids([0])),
        "commit": lambda: session.commit(0),
        "reset": lambda: session.reset(),
    }
    for name, verb in verbs.items():
        refused(verb, f"{name} after close", TargetError)


def nothing_to_score(target: Target, tolerance: float, rng: np.random.Generator) -> None:
    """A prefill or an extend of no tokens is refused, and changes nothing."""
    probe = Probe(target, tolerance)
    refused(lambda: probe.session.prefill(as_ids([])), "a prefill of no tokens", SurefootError)
    probe.prefill(random_ids(target, rng, 2))
    refused(lambda: probe.session.extend(as_ids([])), "an extend of no tokens", SurefootError)
    probe.next_row(0, "after an extend of no tokens")
    probe.session.close()


def inputs_untouched(target: Target, tolerance: float, rng: np.random.Generator) -> None:
    """The caller's arrays are not written to, nor kept: changing them later changes nothing."""
    probe = Probe(target, tolerance)
    prompt, block = random_ids(target, rng, 3), random_ids(target, rng, min(2, target.caps.max_rows))
    given, given_block = as_ids(prompt).copy(), as_ids(block).copy()
    probe.session.prefill(given)
    given[:] = 0
    scores = probe.session.extend(given_block)
    demand(given_block.tolist() == block, "an extend wrote to the caller's block")
    given_block[:] = 0
    probe.committed = prompt
    probe.check_row(scores, 0, [*prompt, block[0]], "an extend, read after the caller changed its block")
    probe.session.commit(len(block))
    probe.committed = [*prompt, *block]
    probe.next_row(0, "after the caller changed its arrays")
    probe.session.close()


def the_same_twice(target: Target, tolerance: float, rng: np.random.Generator) -> None:
    """The same call gives the same bits twice, in the same session and in another."""
    ids = random_ids(target, rng, 5)
    first = fresh_logits(target, ids)
    demand(np.array_equal(first, fresh_logits(target, ids)), "two fresh prefills of the same tokens differ")


TARGET_CHECKS: Mapping[str, Check] = {
    check.__name__: check
    for check in (
        random_walk,
        rejected_rows_leave_nothing,
        several_extends,
        prefill_in_parts,
        scores_last,
        commits_are_checked,
        resets,
        capacity,
        widths,
        trees,
        taps,
        closing,
        nothing_to_score,
        inputs_untouched,
        the_same_twice,
    )
}
"""The checks by name, for a test each. Each takes the target, the tolerance in logits, and a random generator."""


def check_target(
    make_target: Callable[[], Target], *, tolerance: float = 0.0, seed: int = 0, only: Sequence[str] = ()
) -> None:
    """Nothing, when the target keeps every promise of the contract; `only` names the checks to run.

    `tolerance` is the largest difference in logits between a row and the same row of a fresh prefill: 0 is bit for
    bit. A context of at most 2,048 tokens is filled to its end; give a target with a short one.
    Raises: AssertionError with the promise that is broken.
    """
    target = make_target()
    for name in only or TARGET_CHECKS:
        try:
            TARGET_CHECKS[name](target, tolerance, np.random.default_rng(seed))
        except AssertionError as error:
            raise AssertionError(f"{target.caps.backend} breaks {name}: {error}") from error
