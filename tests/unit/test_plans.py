"""Plans: a file gives back what was put in, and one that was changed or belongs to something else is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import plan_samples as samples
import pytest
from hypothesis import given, settings

from surefoot.core.cost import CostCurve, fit_curve, published
from surefoot.core.errors import ConfigError
from surefoot.core.types import Caps
from surefoot.engine import plans
from surefoot.engine.config import Config, Part
from surefoot.engine.plans.file import MAX_BYTES, without_samples

NOW = "2026-11-30T13:00:00Z"


def refused(path: Path, *words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plans.load(path)
    for word in (*words, str(path), "make a new one with 'surefoot tune"):
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


@settings(max_examples=60)
@given(plan=samples.plans())
def test_a_file_gives_back_the_plan_and_its_curve_exactly(tmp_path_factory: Any, plan: plans.Plan) -> None:
    path = tmp_path_factory.mktemp("plan") / "deep" / "plan.json"
    plans.save(plan, path)
    again = plans.load(path)
    assert again == without_samples(plan)
    assert plans.digest_of(again) == plans.digest_of(plan)
    assert [part.name for part in path.parent.iterdir()] == [path.name]
    if plan.curve is not None and again.curve is not None:
        assert again.curve.lines == plan.curve.lines
        for rows in plan.curve.rows:
            for depth in (1, 10_000):
                assert again.curve.price(rows, depth) == plan.curve.price(rows, depth)


def test_people_can_read_it(tmp_path: Path) -> None:
    plans.save(samples.plan(), tmp_path / "p.json")
    lines = (tmp_path / "p.json").read_text(encoding="utf-8").splitlines()
    assert max(map(len, lines)) <= 130
    assert sum('"rows": 4' in line and '"base_s"' in line for line in lines) == 1


CHANGES: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda plan: plan["curve"]["lines"][3].update(base_s=0.1), "changed since it was written"),
    (lambda plan: plan.update(allow_near_ties=True), "changed since it was written"),
    (lambda plan: plan["rows"].update(row_class="near-tie"), "changed since it was written"),
    (lambda plan: plan["owner"].update(machine="0" * 16), "changed since it was written"),
    (lambda plan: plan.pop("workloads"), "changed since it was written"),
    (lambda plan: plan.pop("digest"), "changed since it was written"),
    (lambda plan: plan.update(schema=1), "an older schema (1, and this Surefoot reads 2)"),
    (lambda plan: plan.update(schema=3), "another schema (3, and this Surefoot reads 2)"),
    (lambda plan: plan.update(schema=True), "schema (true, and this Surefoot reads 2)"),
    (lambda plan: plan.pop("schema"), "another schema (null"),
]


@pytest.mark.parametrize(("change", "why"), CHANGES)
def test_a_change_is_refused(tmp_path: Path, change: Callable[[dict[str, Any]], object], why: str) -> None:
    path = tmp_path / "p.json"
    plans.save(samples.plan(), path)
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")
    refused(path, why, "surefoot tune tiny")


@pytest.mark.parametrize(
    "change",
    [
        {"curve": {"lines": []}},
        {"curve": {"lines": [{"rows": 2, "base_s": 1.0, "slope_s": 0.0, "error": 0.02}]}},
        {"curve": {"lines": [{"rows": 1, "base_s": -1.0, "slope_s": 0.0, "error": 0.02}]}},
        {"curve": {"host_s": -1.0}},
        {"curve": {"can_pad": 1}},
        {"curve": {"more": 1}},
        {"rows": {"row_class": "perfect"}},
        {"rows": {"text": None}},
        {"sweep": {"wide": [[1]]}},
        {"command": "tune"},
        {"owner": {"settings": {"threads": 2}}},
        {"curve": {"host_s": 10**400}},
        {"curve": {"lines": [{"rows": n, "base_s": 1.0, "slope_s": 0.0, "error": 0.02} for n in (1, 10**9)]}},
        {"workloads": [{**asdict(samples.WORKLOAD), "depth": 10**400}]},
    ],
)
def test_a_forged_plan_with_a_right_digest_is_refused_where_it_makes_no_sense(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    from surefoot.engine.plans import file

    path = tmp_path / "p.json"
    plans.save(samples.plan(), path)
    document = json.loads(path.read_text(encoding="utf-8"))
    del document["digest"]
    for key, value in change.items():
        document[key] = {**document[key], **value} if isinstance(value, dict) else value
    document["digest"] = file._digest(document)
    path.write_text(json.dumps(document), encoding="utf-8")
    refused(path)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[]", "a list where the fields"),
        (b"[" * 100_000, "not JSON"),
        (b'{"schema": NaN}', "NaN"),
        (b" " * (MAX_BYTES + 1), "larger than 4 MiB"),
    ],
)
def test_what_is_no_plan_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "p.json"
    path.write_bytes(content)
    refused(path, why)


DAMAGED = [
    b'{"schema": 2, "x": 1e999}',
    b'{"schema": 1e999}',
    *(b'{"x": ' + b"[" * deep + b"]" * deep + b"}" for deep in (900, 5_000, 50_000)),
]
"""JSON that can be read, and much of it not written again, which is what the digest does."""


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_plan_is_refused_by_name_and_passed_over_where_it_was_found(tmp_path: Path, content: bytes) -> None:
    path = plans.path_of(samples.OWNER, tmp_path)
    path.parent.mkdir()
    path.write_bytes(content)
    refused(path)
    found = plans.find(samples.OWNER, "auto", tmp_path)
    assert found.plan is None
    assert str(path) in found.note
    # The neighbours are asked for one that nearly fits; a damaged one among them says nothing.
    assert plans.find(replace(samples.OWNER, settings={"threads": "7"}), "auto", tmp_path) == plans.Found()


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "none.json", "No such file")


STRANGERS = [
    (replace(samples.OWNER, weights="another"), "other weights, which have changed since"),
    (replace(samples.OWNER, weights="another", path="/elsewhere"), "other weights, /models/tiny, and these are /else"),
    (replace(samples.OWNER, runtime="hf"), "for the runtime toy, and this is hf"),
    (replace(samples.OWNER, versions={"surefoot": "1.0", "openvino": "2027.0"}), "openvino 2026.4, and this is 2027.0"),
    (replace(samples.OWNER, versions={"surefoot": "1.0"}), "openvino 2026.4, and this is none"),
    (replace(samples.OWNER, settings={"threads": "4", "weights": "fp16"}), "setting threads 2, and this runs with 4"),
    (replace(samples.OWNER, settings={"threads": "2", "weights": "int8"}), "setting weights fp16, and this runs with"),
    (replace(samples.OWNER, device="gpu"), "device cpu, and this runs with gpu"),
    (replace(samples.OWNER, discipline="staged"), "cache discipline mask, and this runs with staged"),
    (replace(samples.OWNER, machine="0" * 16, cores=8), "another machine (a processor, 2 cores; here a processor, 8"),
]


@pytest.mark.parametrize(("owner", "why"), STRANGERS)
def test_a_named_plan_of_something_else_is_refused(tmp_path: Path, owner: plans.Owner, why: str) -> None:
    path = tmp_path / "mine.json"
    plans.save(samples.plan(), path)
    with pytest.raises(ConfigError) as caught:
        plans.find(owner, str(path), tmp_path)
    assert why in str(caught.value)
    assert str(caught.value).endswith(f"make a new one with 'surefoot tune tiny --runtime {owner.runtime}'")
    assert plans.find(samples.OWNER, str(path), tmp_path) == plans.Found(plans.load(path), path)


def run_with(**options: Any) -> Config:
    return Config(runtime=Part("toy", options))


@pytest.mark.parametrize(
    ("config", "more"),
    [
        (Config(), ""),
        (run_with(threads=4, device="GPU.1", ctx_size=512), " --threads 4 --device GPU.1 --ctx-size 512"),
        (run_with(dtype="bfloat16", pinning=False), " --set runtime.dtype=bfloat16 --set runtime.pinning=false"),
        (Config(weights="int8", cache="caller"), " --weights int8 --cache caller"),
        (Config(drafts=Part("off"), max_tokens=9, raw=True), ""),
    ],
)
def test_a_refusal_gives_the_command_with_the_settings_of_this_run(tmp_path: Path, config: Config, more: str) -> None:
    """Not with those that the plan was made with, and without what decides no cost."""
    command = f"'surefoot tune tiny --runtime toy{more}'"
    other = replace(samples.OWNER, settings={"threads": "4"})
    plans.save(samples.plan(), tmp_path / "mine.json")
    with pytest.raises(ConfigError) as caught:
        plans.find(other, str(tmp_path / "mine.json"), tmp_path, config)
    assert str(caught.value).endswith(f"make a new one with {command}")
    plans.save(samples.plan(), plans.path_of(samples.OWNER, tmp_path))
    assert plans.find(other, "auto", tmp_path, config).note.endswith(f"make a new one with {command}")


def test_every_field_of_an_owner_is_compared_or_only_told() -> None:
    told = {"model", "path", "cpu", "cores"}
    for item in fields(plans.Owner):
        old = getattr(samples.OWNER, item.name)
        new = {"other": "x"} if isinstance(old, dict) else 99 if isinstance(old, int) else "other"
        other = replace(samples.OWNER, **{item.name: new})
        assert (plans.difference(samples.OWNER, other) is None) == (item.name in told), item.name


@pytest.mark.parametrize(("owner", "why"), STRANGERS)
def test_a_plan_that_was_found_and_is_a_stranger_is_passed_over_with_its_reason(
    tmp_path: Path, owner: plans.Owner, why: str
) -> None:
    plans.save(samples.plan(), plans.path_of(samples.OWNER, tmp_path))
    found = plans.find(owner, "auto", tmp_path)
    assert found.plan is None
    unrelated = owner.path != samples.OWNER.path or owner.runtime != samples.OWNER.runtime
    assert (why in found.note) != unrelated
    assert (found.note == "") == unrelated
    assert (f"make a new one with 'surefoot tune tiny --runtime {owner.runtime}" in found.note) != unrelated


@pytest.mark.parametrize(("change", "why"), CHANGES)
def test_a_damaged_or_older_plan_that_was_found_is_passed_over_with_its_reason(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], why: str
) -> None:
    path = plans.path_of(samples.OWNER, tmp_path)
    plans.save(samples.plan(), path)
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")
    found = plans.find(samples.OWNER, "auto", tmp_path)
    assert found.plan is None
    assert why in found.note
    assert "surefoot tune tiny" in found.note


def test_the_plan_that_belongs_is_found_unless_none_is_wanted(tmp_path: Path) -> None:
    path = plans.path_of(samples.OWNER, tmp_path)
    assert plans.find(samples.OWNER, "auto", tmp_path) == plans.Found()
    plans.save(samples.plan(), path)
    assert plans.find(samples.OWNER, "auto", tmp_path) == plans.Found(plans.load(path), path)
    assert plans.find(samples.OWNER, "off", tmp_path) == plans.Found()


def caps(**changes: Any) -> Caps:
    return replace(Caps("toy", 24, 4096, 32, "mask", can_pad=True, row_class="identical"), **changes)


def test_a_gate_demotes_and_nothing_promotes(tmp_path: Path) -> None:
    plans.save(samples.plan(), plans.path_of(samples.OWNER, tmp_path))

    def known() -> plans.RowFinding:
        found = plans.find(samples.OWNER, "auto", tmp_path).plan
        assert found is not None
        assert found.curve == samples.curve()
        return found.rows

    plans.demote(samples.OWNER, caps(), "near-tie", "1 of 9 rows differ", "gate rows", NOW, tmp_path)
    assert known() == plans.RowFinding("near-tie", "identical", "1 of 9 rows differ", "gate rows")
    plans.demote(samples.OWNER, caps(), "identical", "0 of 9 rows differ", "gate rows", NOW, tmp_path)
    assert known().row_class == "near-tie"
    plans.demote(samples.OWNER, caps(), "row-dependent", "9 of 9 rows differ", "gate rows", NOW, tmp_path)
    assert known().row_class == "row-dependent"


def test_a_class_is_kept_where_no_plan_is(tmp_path: Path) -> None:
    path = plans.demote(samples.OWNER, caps(), "near-tie", "1 of 9 rows differ", "gate rows", NOW, tmp_path)
    plan = plans.load(path)
    assert (plan.curve, plan.sweep, plan.workloads) == (None, None, ())
    assert plan.rows.row_class == "near-tie"
    assert plan.kind == "rows only"


@pytest.mark.parametrize(
    ("name", "details", "known", "shown"),
    [
        ("rows", {"row_class": "identical"}, "identical", None),
        ("rows", {"row_class": "near-tie"}, "identical", "near-tie"),
        ("rows", {"row_class": "identical"}, "near-tie", None),
        ("rows", {"row_class": "row-dependent"}, "near-tie", "row-dependent"),
        ("lossless", {"gaps": []}, "identical", None),
        ("lossless", {}, "identical", None),  # of a record that an older version wrote
        ("lossless", {"gaps": [0.01, 0.2]}, "identical", "near-tie"),
        ("lossless", {"gaps": [0.01, 3.0]}, "identical", "row-dependent"),
        ("lossless", {"gaps": [0.01]}, "near-tie", None),
        ("contamination", {}, "identical", None),
        ("baseline", {}, "identical", None),
    ],
)
def test_what_a_gate_leaves_of_a_class(name: Any, details: dict[str, Any], known: Any, shown: str | None) -> None:
    from surefoot.lab.gates import class_shown
    from surefoot.lab.records import Gate

    assert class_shown(Gate(name, not details, 1.0, 0.0, "rows", "", details), known) == shown


def test_the_policy_that_auto_stands_for() -> None:
    auto = Part("auto", {"draft_len": 5})
    curve = samples.curve()
    assert plans.policy_in_use(auto, None, "identical") == Part("additive", {"draft_len": 5})
    timed, planned = {"reproducible": False, "draft_len": 5}, {"reproducible": True, "draft_len": 5}
    assert plans.policy_in_use(auto, curve, "identical") == Part("goodput", timed)
    assert plans.policy_in_use(auto, curve, "near-tie") == Part("goodput", planned)
    assert plans.policy_in_use(Part("goodput"), None, "identical") == Part("goodput", {"reproducible": False})
    said = Part("goodput", {"reproducible": True})
    assert plans.policy_in_use(said, curve, "identical") == said
    assert plans.policy_in_use(Part("fixed", {"draft_len": 3}), curve, "identical") == Part("fixed", {"draft_len": 3})


STAIRS = dict.fromkeys(range(1, 5), 1.0) | dict.fromkeys(range(5, 7), 2.0) | dict.fromkeys(range(7, 12), 3.0)
"""Plateaus of 4, 6 and 11 rows or more: the end of the last was not seen."""

SLOPE = {n: 1.0 + n / 4 for n in range(1, 18)}
DEEP = {n: 9.0 if n < 4 else 20.0 for n in SLOPE}


@pytest.mark.parametrize(
    ("curve", "given", "used"),
    [
        (samples.curve(STAIRS), {}, {"draft_len": 5}),
        (samples.curve(STAIRS), {"draft_len": 9}, {"draft_len": 9}),
        (samples.curve(SLOPE), {}, {}),
        (samples.curve(dict.fromkeys(range(1, 25), 1.0) | {25: 9.0}), {}, {}),  # so high that nobody grows to it
        (samples.curve({1: 1.0}), {}, {}),
        (None, {}, {}),
        (fit_curve([*published(SLOPE, 200), *published(DEEP, 4000)]), {}, {"draft_len": 2}),
    ],
    ids=["stairs", "given", "slope", "too high", "one row", "no curve", "stairs behind a deep context"],
)
def test_additive_ends_at_the_highest_plateau_top_of_the_plan(
    curve: CostCurve | None, given: dict[str, int], used: dict[str, int]
) -> None:
    assert plans.policy_in_use(Part("additive", given), curve, "identical") == Part("additive", used)


ZIGZAG = {1: 1.0, 2: 1.9, 3: 2.1, 4: 1.8, 5: 2.5}


def test_rows_are_padded_where_that_is_cheaper() -> None:
    width = plans.padding(samples.curve(ZIGZAG, can_pad=True), caps())
    assert width is not None
    assert [width(rows, 300) for rows in (1, 2, 3, 4, 5, 6, 40)] == [1, 4, 4, 4, 5, 6, 40]
    assert width(3, 4092) == 4
    assert width(3, 4093) == 3  # the context ends


def test_nothing_is_padded_where_it_never_pays_or_cannot_be() -> None:
    assert plans.padding(samples.curve(can_pad=True), caps()) is None
    assert plans.padding(samples.curve(ZIGZAG), caps()) is None
    assert plans.padding(samples.curve(ZIGZAG, can_pad=True), caps(can_pad=False)) is None
    assert plans.padding(None, caps()) is None


def test_padding_that_pays_only_in_a_deep_context_is_seen() -> None:
    from surefoot.core.cost import fit_curve, published

    crossing = fit_curve(
        (*published({1: 1.0, 2: 1.2, 3: 1.3}, 10), *published({1: 1.0, 2: 3.0, 3: 2.0}, 1000)), can_pad=True
    )
    width = plans.padding(crossing, caps())
    assert width is not None
    assert (width(2, 10), width(2, 1000)) == (2, 3)
