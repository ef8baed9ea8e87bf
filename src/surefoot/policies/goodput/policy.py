"""Most tokens per second: each draft as long as its expected tokens are worth its cost, and none where they are not."""

from __future__ import annotations

from dataclasses import dataclass, field

from surefoot.core.acceptance import Acceptance
from surefoot.core.cost import CostCurve, PriceTable, fit_curve, published
from surefoot.core.errors import ConfigError
from surefoot.core.types import Draft, Round, State
from surefoot.core.watched import Watched, survivals
from surefoot.policies.goodput.ledger import Ledger
from surefoot.policies.goodput.observed import SPREAD, Observed

# chosen: eight times the widest row sweep (32 rows), so that only a slip of the finger is refused.
LIMIT_DRAFT_LEN = 256

ASSUMED_ROW = 0.45
ASSUMED_S = 0.02
ASSUMED_ROWS = 17
"""measured: on 12 of 13 runtimes of a 2-core x86 machine, SmolLM2, 4 to 16 rows cost at most 1 + 0.45 for each row
behind the first (2.35, 4.15 and 7.75 times one row at 4, 8 and 16); 20 ms for one row is their middle. 17 rows is the
default sweep."""

MARGIN = 0.01
"""chosen: a draft has to promise this share of a plain round; less is below what any sweep can tell."""

FREE_ROW = 0.001
"""chosen: rows are free that cost less than this share of a plain round: a tenth of what a draft has to promise."""

CHEAP = 0.01
"""chosen: a drafter whose tokens take less than this share of a plain round, all of the longest draft together, is
asked for that draft, which is cut afterwards, when the match is known. It is always asked where the whole proposal
takes no more."""

FOUND_MEMORY = 0.95
FOUND_START = 0.2
"""chosen: what asking was worth is the mean of about the last 20 proposals; the first are worth a fifth of a plain
round each, more than any lookup takes."""

CAUTION = 0.25
"""Source: J. L. Kelly, Bell System Technical Journal 35:917, 1956: who may lose no more than a purse grows it fastest
by the mean of the gain less its variance by twice the purse. chosen: half of that caution, as this purse fills up
again by itself. What was lost on two drafts is missing when a long copy follows (studies/goodput-shares.md)."""

PROBE_LEN = 2
"""chosen: shows whether the first token holds, and whether the second then does."""

STEP = 16
"""chosen: tokens of context between two looks into the price table, which every round would pay for. On the steepest
curve measured (llama.cpp in Q8_0 on a 2-core EPYC) one row and 17 rows both get under 2 % dearer meanwhile."""

RATE_MEMORY = 0.98
RATE_START = 8.0
"""chosen: what a token costs is the mean of about the last 50 rounds, beginning with eight plain ones."""

WATCHED = 8
"""chosen: drafts that are followed at once; in a long copy that nobody scores there is a new one each round."""


@dataclass(frozen=True, slots=True)
class Options:
    """How far it may go, and what it may look at.

    Source: `reproducible` on by default: seconds differ from run to run, and where rows of a block are not known to
    equal single rows, other draft lengths may write another text. `draft_len`: the default sweep has 17 rows.
    """

    draft_len: int = field(
        default=16, metadata={"help": "the longest draft, in tokens; never more than the cost curve was swept for"}
    )
    reproducible: bool = field(
        default=True,
        metadata={
            "help": "draft lengths from the cost curve and the text alone, the same in each run; if not, from the "
            "clock too"
        },
    )
    draft_ms: float = field(
        default=0.0,
        metadata={
            "help": "what the drafter takes for a token, in milliseconds; unless reproducible, the clock tells; left "
            "out where a model drafts: half a plain round"
        },
    )

    def __post_init__(self) -> None:
        if not 1 <= self.draft_len <= LIMIT_DRAFT_LEN:
            raise ConfigError(
                f"goodput draft_len must be from 1 to {LIMIT_DRAFT_LEN} tokens; got {self.draft_len}. "
                "For plain decoding switch the drafts off"
            )
        if not 0 <= self.draft_ms < 1e6:
            raise ConfigError(f"goodput draft_ms must be milliseconds for a token, 0 and up; got {self.draft_ms}")


class GoodputPolicy:
    """The length of most expected tokens per second. Holds changing state: acceptance, the balance, served rounds.

    A token is worth what the text has lately been paying for one. A draft of k tokens is scored when its expected
    tokens, at that price, exceed its cost by more than any other length's, with some caution where little may still be
    lost, and only when the floor holds even if none is accepted. What is cut is still compared with the text that
    follows, so a policy that has stopped drafting goes on learning and starts again by itself.
    """

    def __init__(self, options: Options, curve: CostCurve | None) -> None:
        self._options = options
        self._swept = curve or _assumed()
        # Without a sweep the seconds of the assumed curve mean nothing beside those of a clock until some were seen.
        self._calibrated = curve is not None or options.reproducible
        self._acceptance = Acceptance()
        self._ledger = Ledger()
        self._watched: list[Watched] = []
        self._observed = None if options.reproducible else Observed(self._swept)
        self._probing = False
        self._last = ("", 0)
        self._streak = 0
        self._asked = False
        self._found, self._finds = 0.0, FOUND_START  # in plain rounds: what this draft is worth, and what they were
        self._ask_s, self._token_s = 0.0, options.draft_ms / 1e3  # of a proposal, and of each of its tokens
        self._paid, self._got = RATE_START, RATE_START
        self._use(self._swept)

    def budget(self, state: State) -> int:
        """All that could pay where asking costs nothing; else the best length by what was known before this draft."""
        self._look(state.depth)
        self._probing, self._found = False, 0.0
        asked = self._wanted(state)
        self._asked = asked > 0
        return asked

    def cut(self, draft: Draft) -> int:
        """The best length now that the match is known. Of a tree, whose likeliest tokens come first, the beginning."""
        n = len(draft)
        if n == 0:
            return 0
        self._last = (draft.source, draft.match_len)
        self._watched = [*self._watched, Watched(draft, self._streak)][-WATCHED:]
        purse_s = self._purse_s() - self._draft_s(n)
        longest = min(n, self._longest())
        if draft.parents is None:
            kept, value_s = self._best(self._last, longest, 0.0, purse_s)
        else:
            kept, value_s = self._best_of_tree(survivals(self._acceptance, draft, self._streak)[:longest], purse_s)
        self._found = value_s / self._plain_s
        return self._filled(kept, longest, purse_s)

    def learn(self, round: Round) -> None:
        """Follow every draft through what was written, and book the round."""
        if round.source == "prefill":
            return
        self._look(round.depth)
        self._follow(round)
        self._book(round)
        if self._asked:
            self._finds += (1 - FOUND_MEMORY) * (self._found - self._finds)
        if self._observed is not None:
            self._correct(self._observed, round)

    def _wanted(self, state: State) -> int:
        """The budget, before it is noted that one was given."""
        longest = min(self._cap, state.room)
        if longest < 1 or not self._calibrated:
            return 0
        if self._observed is not None:
            if self._observed.wants_plain:
                return 0
            if not self._observed.draft.known:
                longest = min(longest, PROBE_LEN)  # nobody knows yet what this drafter takes
        if self._token_s * self._cap <= CHEAP * self._plain_s:
            ask_s = self._draft_s(longest)
            pays = ask_s <= max(CHEAP, self._finds) * self._plain_s
            return longest if self._may_draft(ask_s, pays) else 0
        wanted, _ = self._best(self._last, longest, self._token_s, self._purse_s(), self._ask_s)
        if wanted:  # where nothing is offered, the drafter's time is lost although more rows would have been cheaper
            return wanted if self._draft_s(wanted) <= self._purse_s() else 0
        probe = min(PROBE_LEN, longest)
        if self._observed is not None and self._observed.draft.known and self._observed.draft.spread <= SPREAD:
            probe = 1  # another length tells what a token takes
        return probe if self._may_draft(self._draft_s(probe), False) else 0

    def _may_draft(self, seconds: float, pays: bool) -> bool:
        """Whether the drafter may be asked for so long; where that is not expected to pay, as a probe."""
        self._probing = not pays and self._ledger.may_probe(seconds, self._plain_s, self._scale)
        return (pays or self._probing) and seconds <= self._purse_s()

    def _draft_s(self, tokens: int) -> float:
        """Seconds of the drafter for so many tokens."""
        return self._ask_s + self._token_s * tokens

    def _value(self, tokens: float, draft_len: int) -> float:
        """What so many expected drafts are worth, less what scoring them costs more than a plain round. In seconds."""
        return self._worth_s * tokens - (self._costs[draft_len] - self._plain_s)

    def _best(
        self, seen: tuple[str, int], longest: int, token_s: float, purse_s: float, ask_s: float = 0.0
    ) -> tuple[int, float]:
        """The draft length of most value, and that value in seconds; 0 and 0 where none is worth `MARGIN` or may be
        lost.

        ask_s and token_s: what a proposal and each of its tokens still cost. purse_s: what may be lost; a draft is
        worth less the more of it hangs on luck.
        """
        best, most, tokens, squares = 0, MARGIN * self._plain_s, 0.0, 0.0
        for k, lived in enumerate(self._acceptance.survival(*seen, self._streak, longest), 1):
            tokens += lived
            squares += (2 * k - 1) * lived  # of accepted tokens A, E[A^2]
            drafting_s = ask_s + token_s * k
            risk = self._costs[k] - self._plain_s + drafting_s
            if risk > purse_s:
                continue
            value = self._value(tokens, k) - drafting_s
            if risk > 0:
                value -= CAUTION * self._worth_s**2 * (squares - tokens * tokens) / purse_s
            if value > most:
                best, most = k, value
        return best, most if best else 0.0

    def _best_of_tree(self, lived: list[float], purse_s: float) -> tuple[int, float]:
        """How many tokens of a tree, its likeliest first, are worth most, and how much; lived: the chance of each to
        be accepted."""
        best, most, tokens = 0, MARGIN * self._plain_s, 0.0
        for n, chance in enumerate(lived, 1):
            tokens += chance
            value = self._value(tokens, n)
            if value > most and self._costs[n] - self._plain_s <= purse_s:
                best, most = n, value
        return best, most if best else 0.0

    def _filled(self, kept: int, longest: int, purse_s: float) -> int:
        """A draft that is scored anyway takes the rows that cost nothing more along: what the model says there is what
        some drafters guess by."""
        free_s = min(self._costs[kept] + FREE_ROW * self._plain_s, self._plain_s + purse_s)
        while 0 < kept < longest and self._costs[kept + 1] <= free_s:
            kept += 1
        return kept

    def _longest(self) -> int:
        """Draft tokens that may be scored now."""
        return self._cap if self._observed is None else min(self._cap, self._observed.reach)

    def _purse_s(self) -> float:
        return self._ledger.purse_s(self._worst_s, self._scale)

    def _follow(self, round: Round) -> None:
        """What became of every draft that is still being followed; the newest tells whether the text follows it."""
        self._acceptance.pass_by(len(round.new_ids))
        going_on = []
        fates: list[tuple[int, bool]] = []
        for draft in self._watched:
            fates, more = draft.follow(round.new_ids)
            draft.teach(self._acceptance)
            if more:
                going_on.append(draft)
        self._watched = going_on
        if self._asked and not round.drafted:
            self._streak = 0
        for _, accepted in fates:
            self._streak = self._streak + 1 if accepted else 0

    def _book(self, round: Round) -> None:
        """Enter the round, in seconds of the clock, or in those of the plan where no clock may count."""
        scored = min(round.evaluated, self._cap)
        draft_s, forward_s = self._draft_s(round.drafted), self._costs[scored]
        if self._observed is not None:
            # Of the host what is usual: a reader who pauses once is no cost of drafts.
            draft_s, forward_s = round.draft_s, round.extend_s + round.judge_s + round.commit_s + self._host_s
        probe_s = draft_s if self._probing else 0.0
        if scored:
            swept_s = self._plain_s / self._scale * len(round.new_ids)
            self._ledger.enter_scored(draft_s + forward_s, swept_s, probe_s)
        else:
            self._ledger.enter_plain(forward_s, draft_s, probe_s)
        paid_s = draft_s - probe_s + (forward_s if scored else self._plain_s)
        self._paid = self._paid * RATE_MEMORY + paid_s / self._plain_s
        self._got = self._got * RATE_MEMORY + len(round.new_ids)
        self._worth_s = min(1.0, self._paid / self._got) * self._plain_s

    def _correct(self, observed: Observed, round: Round) -> None:
        """Let served rounds override the sweep, and the drafter's own time what was said of it."""
        expected_s = self._costs[min(round.evaluated, self._cap)] - self._host_s
        curve = observed.learn(round, self._asked, expected_s)
        if observed.digested:
            self._ask_s, self._token_s = observed.draft.line() or (self._ask_s, self._token_s)
        if curve is not None:
            self._calibrated = self._calibrated or observed.told
            self._use(curve)
            self._look(round.depth)

    def _use(self, curve: CostCurve) -> None:
        """Take prices from this curve from now on."""
        self._table = PriceTable.of(curve)
        self._host_s = curve.host_s
        self._cap = min(self._options.draft_len, curve.max_rows - 1)
        self._depth = -1
        self._look(0)

    def _look(self, depth: int) -> None:
        """Seconds of rounds at this depth: _costs[k] of one with k drafts, without the drafter's own time."""
        depth = max(1, depth - depth % STEP)  # a curve may say that nothing costs nothing
        if depth == self._depth:
            return
        self._depth = depth
        self._costs = [forward_s + self._host_s for forward_s in self._table.at(depth)[: self._cap + 1]]
        self._plain_s, self._worst_s = self._costs[0], max(self._costs)
        self._scale = self._plain_s / (self._swept.lines[0].at(depth) + self._swept.host_s)
        self._worth_s = min(1.0, self._paid / self._got) * self._plain_s


def unsaid_draft_ms(token_cost: float, curve: CostCurve | None) -> float:
    """`draft_ms` where a token is taken to cost this share of a plain round at the deepest context that was swept."""
    known = curve or _assumed()
    return 1e3 * token_cost * known.round_s(1, known.depths[-1])


def _assumed() -> CostCurve:
    """A curve for where nothing was measured, dearer than most."""
    rows = range(1, ASSUMED_ROWS + 1)
    return fit_curve(published({n: ASSUMED_S * (1 + ASSUMED_ROW * (n - 1)) for n in rows}, 0))
