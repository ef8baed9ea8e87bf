"""Reports of simulated runs, made once, for the tests that look at them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import synthetic_run
from surefoot.lab.analysis import analyse
from surefoot.lab.records import Arm
from surefoot.lab.report import html
from surefoot.lab.report.rows import NamedRun
from surefoot.lab.store import load
from synthetic_run import Plan

SCRIPT = "<script>alert('x')</script>"
BROKEN_OUT = '"><img src=x onerror=alert(1)> {{ 7 * 7 }} `|` _x_ &amp; $x$'
HOSTILE = Plan(
    workloads=("code", SCRIPT, "a_workload_of_one_very_long_word_" * 4),
    arms=(
        Arm(BROKEN_OUT, "drafts", {"name": SCRIPT}, {"name": "fixed", "draft_len": 3}),
        Arm("peer:" + "x" * 120, "peer", peer={"draft_len": 3}, chosen=SCRIPT),
    ),
    model={"model": f"</title>{SCRIPT}", "settings": {"url(#a)": 'id="b"'}},
)
"""Names that would break a page, a table or a figure if they were not escaped, and words wider than a phone."""
OPENVINO = Plan()
HF = Plan(seed=2, runtime="hf", noise=0.03, sensors=True, model={"settings": {"weights": "fp32", "threads": "2"}})
SLOW = Plan(seed=3, baseline=0.91, budgets=(256,), workloads=("chat", "code"))
"""The baseline gate failed: no speed-up may be printed."""
SHORT = Plan(seed=4, repeats=1, budgets=(256,), workloads=("chat",), excluded=False)
"""Three pairs for each row: too few for any interval."""


@cache
def _analysed(number: int) -> NamedRun:
    name, plan = _PLANS[number]
    with TemporaryDirectory() as folder:
        return NamedRun(name, analyse(load(synthetic_run.write(Path(folder) / "run.jsonl", plan))))


_PLANS = (("openvino-fp16", OPENVINO), ("hf-fp32", HF), ("slow", SLOW), ("short", SHORT), (BROKEN_OUT, HOSTILE))
_NAMES = {"openvino": 0, "hf": 1, "slow": 2, "short": 3, "hostile": 4}


def runs(*names: str) -> tuple[NamedRun, ...]:
    return tuple(_analysed(_NAMES[name]) for name in names)


@cache
def page(*names: str) -> str:
    """The HTML of these runs."""
    return html.render(runs(*names))
