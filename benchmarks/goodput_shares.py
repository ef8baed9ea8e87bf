"""How near the policies come to the best fixed length and to the best schedule with hindsight, on a virtual clock.

    python benchmarks/goodput_shares.py [--out FILE]

Texts: those that ship with Surefoot (surefoot/lab/data/texts.json). Curves: tests/data/cost-curves.json, as measured.
Nothing is timed, so any machine gives the same figures.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from typing import Any, ClassVar

from common import RECORDS, write_record
from knowable import KINDS as KNOWABLE
from knowable import best_by_kind

from surefoot.core.acceptance import Acceptance
from surefoot.core.cost import CostCurve, fit_curve, published
from surefoot.core.ports import Policy
from surefoot.drafters.ngram import NgramDrafter
from surefoot.drafters.ngram import Options as NgramOptions
from surefoot.lab.oracle import oracle
from surefoot.lab.replay import Trace, plain_s, record, replay
from surefoot.lab.tune.texts import shipped
from surefoot.lab.workloads import KINDS
from surefoot.policies import additive, fixed
from surefoot.policies.goodput import policy as goodput
from surefoot.policies.goodput.ledger import Ledger

DATA = Path(__file__).resolve().parent.parent / "tests" / "data" / "cost-curves.json"
CURVES = (
    "ov-stateful-fp32-smol-200", "ov-stateful-int8-smol-200", "ort-fp32-smol-200", "torch-fp32-smol135m-200",
    "torch-int8-smol135m-200", "torch-bf16-smol135m-200", "llama-F16-smol-200", "llama-Q8_0-smol-200",
)  # fmt: skip
LENGTHS = tuple(range(17))
SPLIT = ("goodput", "best length by the text", "best length by the match", "best length by the match and the streak")
Maker = Callable[[CostCurve], Policy]


class Known(Acceptance):
    """Acceptance that was counted on the very texts it is asked about, by match, streak and position: no policy that
    sees the same can know more. Holds what was counted."""

    counts: ClassVar[dict[tuple[int, int, int], list[int]]] = {}

    def survival(self, source: str, match_len: int, streak: int, draft_len: int) -> list[float]:
        lived, chances = 1.0, []
        for position in range(1, draft_len + 1):
            accepted, judged = self.counts.get(_cell(match_len, streak, position), (0, 0))
            lived *= (accepted + 1) / (judged + 2)
            chances.append(lived)
        return chances

    def learn(self, source: str, match_len: int, streak: int, position: int, accepted: bool, rank: int = 0) -> None:
        count = self.counts.setdefault(_cell(match_len, streak, position), [0, 0])
        count[0] += accepted
        count[1] += 1


def _cell(match_len: int, streak: int, position: int) -> tuple[int, int, int]:
    return min(match_len, 8), min(streak, 32).bit_length(), min(position, 16)


def traces() -> dict[str, list[Trace]]:
    """The texts by workload, with what lookup offers at each of their tokens."""
    found: dict[str, list[Trace]] = {}
    for each in shipped(KINDS):
        # Lookup looks at no scores.
        trace = record(NgramDrafter(NgramOptions()), each.prompt_ids, each.ids, None)  # type: ignore[arg-type]
        found.setdefault(each.workload, []).append(trace)
    return found


def curves() -> dict[str, CostCurve]:
    """The curves by id, padding allowed where the runtime can."""
    measured = {each["id"]: each for each in json.loads(DATA.read_text(encoding="utf-8"))["measured"]["curves"]}
    found = {}
    for name in CURVES:
        unit = 1.0 if measured[name]["unit"] == "ratio" else 1e-3
        seconds = {int(rows): cost * unit for rows, cost in measured[name]["rows"].items()}
        found[name] = fit_curve(published(seconds, 200), can_pad=not name.startswith("llama"))
    return found


@contextmanager
def changed(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Another value in this place for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def seconds(texts: list[Trace], curve: CostCurve, make: Maker) -> float:
    return sum(replay(trace, make(curve), curve).seconds for trace in texts)


def of_workload(texts: list[Trace], curve: CostCurve) -> dict[str, float]:
    """Seconds of all texts, by policy."""
    own: Maker = lambda curve: goodput.GoodputPolicy(goodput.Options(), curve)  # noqa: E731
    found = {f"fixed {k}": seconds(texts, curve, lambda c, k=k: fixed.FixedPolicy(fixed.Options(k))) for k in LENGTHS}
    found["additive"] = seconds(texts, curve, lambda c: additive.AdditivePolicy(additive.Options()))
    found["goodput"] = seconds(texts, curve, own)
    timed = goodput.Options(reproducible=False)
    found["goodput on the clock"] = seconds(texts, curve, lambda curve: goodput.GoodputPolicy(timed, curve))
    with changed(goodput, "CAUTION", 0.0):
        found["goodput without caution"] = seconds(texts, curve, own)
        with changed(Ledger, "purse_s", lambda *_: 1e9):
            found["goodput without floor"] = seconds(texts, curve, own)
    with changed(goodput, "Acceptance", Known), changed(Known, "counts", {}):
        seconds(texts, curve, own)
        found["goodput that knew its acceptance"] = seconds(texts, curve, own)
    for name, kind in KNOWABLE.items():
        found[f"best length by {name}"] = sum(best_by_kind(trace, curve, kind) for trace in texts)
    found["best with hindsight"] = sum(oracle(trace, curve).seconds for trace in texts)
    found["plain"] = sum(plain_s(trace, curve) for trace in texts)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RECORDS / "goodput_shares.json")
    out = parser.parse_args().out
    rows = []
    by_workload = traces()
    for name, curve in curves().items():
        for workload, texts in by_workload.items():
            rows.append({"curve": name, "workload": workload, "seconds": of_workload(texts, curve)})
    print(
        "policy, then: speed by that of the best fixed length (mean, least), share of the best schedule (mean, least)"
    )
    for policy in (key for key in rows[0]["seconds"] if key.startswith(("additive", "goodput", "best length"))):
        ratios = [min(row["seconds"][f"fixed {k}"] for k in LENGTHS) / row["seconds"][policy] for row in rows]
        shares = [row["seconds"]["best with hindsight"] / row["seconds"][policy] for row in rows]
        print(f"{policy:34s} {mean(ratios):.3f} {min(ratios):.3f}   {mean(shares):.3f} {min(shares):.3f}")
    print("\nworkload, then share of the best schedule (mean over curves): " + ", ".join(SPLIT))
    for workload in by_workload:
        shares = [
            mean(
                row["seconds"]["best with hindsight"] / row["seconds"][policy]
                for row in rows
                if row["workload"] == workload
            )
            for policy in SPLIT
        ]
        print(f"{workload:12s}" + "".join(f"{share:7.3f}" for share in shares))
    write_record(out, "seconds on a virtual clock, by curve, workload and policy", rows)


if __name__ == "__main__":
    main()
