"""Results that would overwrite each other are refused before anything runs; folders keep them apart."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import cenote
from cenote.api import CheckResult
from cenote.common import errors

AXES = {"axes": [{"name": "x", "source": "MET_pt", "bins": {"nbins": 2, "low": 0, "high": 1}}]}
CUT = {"op": "hep.selection.cutflow", "params": {"selection": {"All": ["MET_pt > 1"]}}}
TWO_AXES = {"axes": [{"name": name, "source": "MET_pt", "bins": [2, 0, 1]} for name in "xy"]}
Check = Callable[..., CheckResult]


def hist(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "op": "hep.hist", "params": AXES} | more


def skim(name: str, **write: Any) -> dict[str, Any]:
    return {"id": name, "op": "filter", "params": {"selection": "MET_pt > 1"}, "write": {"kind": "parquet", **write}}


def drawn(out: str | None, **more: Any) -> dict[str, Any]:
    return {"op": "hep.render.hist1d", **({"out": out} if out else {}), **more}


@pytest.fixture
def check(tmp_path: Path) -> Check:
    def checked(*stages: dict[str, Any], outside: Sequence[str] = ()) -> CheckResult:
        names = [{"name": "a", "files": ["a.root"]}, {"name": "b", "files": ["b.root"], "eventtype": "data"}]
        flow: dict[str, Any] = {"data": {"datasets": names}, "analysis": {"stages": list(stages)}}
        flow["execution"] = {"write_outside": outside}
        (tmp_path / "flow.yaml").write_text(json.dumps(flow, indent=1))
        found = cenote.load(tmp_path / "flow.yaml").check()
        return CheckResult(tuple(p for p in found.problems if p.kind is not errors.BAD_INPUT), found.warnings)

    return checked


@pytest.mark.parametrize(
    ("stages", "path"),
    [
        ([hist("A", render=drawn("met")), hist("B", render=drawn("met"))], "plots/met.png"),
        ([hist("A", render=drawn("sr/met.png")), hist("B", render=drawn("sr/met.pdf"))], "plots/sr/met.png"),
        ([hist("A", render=[drawn(None), drawn(None)]), hist("A-1")], "plots/A-1.png"),
        ([hist("A", render=drawn("B")), hist("B")], "plots/B.png"),
        ([hist("A", params=TWO_AXES, render=drawn(None)), hist("A_y")], "plots/A_y.png"),
        ([hist("a:b"), hist("a.b", render=[])], "products/a.b"),
        ([skim("Cut", path="s"), {"id": "Cut.files", **CUT}], "products/Cut.files"),
        ([skim("A", path="s"), skim("B", path="s")], "products/s/a/00000.parquet"),
        ([skim("A", path="s"), skim("B", path="s/{dataset}.parquet")], "products/s/a/00000.parquet"),
        ([skim("A", path="{dataset}-{part}"), skim("B", path="{dataset}-{partition_id}")], "products/a-00000"),
        ([skim("A", path="s", when="dataset"), skim("B", path="s/{dataset}", when="dataset")], "products/s/a.parquet"),
    ],
)
def test_two_results_of_one_name_are_refused(check: Check, stages: list[dict[str, Any]], path: str) -> None:
    problems = check(*stages).problems
    assert {problem.kind for problem in problems} == {errors.OUTPUT_CLASH}
    assert path in problems[0].message
    assert problems[0].place is not None


def test_two_skims_of_one_stage_need_two_paths(check: Check) -> None:
    stage = skim("A", path="s")
    (first, *_) = check({**stage, "write": [stage["write"], {**stage["write"], "keep": ["MET_pt"]}]}).problems
    assert first.kind is errors.OUTPUT_CLASH


@pytest.mark.parametrize(
    "stages",
    [
        [hist("A", render=drawn("sr/met")), hist("B", render=drawn("cr/met"))],
        [hist("A", render=drawn("met.v1")), hist("B", render=drawn("met.v2"))],
        [hist("A", render=drawn("m", formats=["png"])), hist("B", render=drawn("m", formats=["pdf"]))],
        [
            {"id": "C", **CUT, "render": {"op": "hep.render.cutflow_csv", "out": "met.csv"}},
            hist("B", render=drawn("met")),
        ],
        [
            skim("A", path="s") | {"applies_to": {"eventtype": "mc"}},
            skim("B", path="s") | {"applies_to": {"eventtype": "data"}},
        ],
        [hist("A", params=TWO_AXES), hist("A_y")],
        [hist("Met"), hist("met"), hist("Met_x"), skim("Met.files", path="s")],
    ],
)
def test_what_writes_other_files_is_fine(check: Check, stages: list[dict[str, Any]]) -> None:
    assert check(*stages).problems == ()


def test_the_name_of_a_list_of_files_is_no_name_of_a_stage(check: Check) -> None:
    (problem,) = check(hist("Skim:files")).problems
    assert "no stage can be called 'Skim:files'" in problem.message
    assert problem.place is not None


@pytest.mark.parametrize("out", ["../met", "/tmp/met", "sr/../../met", ".."])
def test_pictures_stay_in_their_folder(check: Check, out: str) -> None:
    (problem,) = check(hist("A", render=drawn(out))).problems
    assert "outside of the folder `plots/`" in problem.message


@pytest.mark.parametrize("when", ["partition", "dataset"])
@pytest.mark.parametrize("path", ["../s", "/data/skims/s", "a/../../s", "/data/allowed/../s", "/data/allowed2/s"])
def test_skims_stay_in_their_folder(check: Check, path: str, when: str) -> None:
    (problem,) = check(skim("A", path=path, when=when), outside=["/data/allowed"]).problems
    assert "outside of the folder `products/`" in problem.message
    assert problem.place is not None
    assert problem.hint is not None


def test_an_absolute_path_is_taken_below_a_folder_that_a_setting_allows(check: Check) -> None:
    stages = [skim("A", path="/data/skims/s"), hist("B", render=drawn("/plots/met.png"))]
    assert check(*stages, outside=["/data/skims", "/plots"]).ok
    assert len(check(*stages, outside="/data").problems) == 1


@pytest.mark.parametrize("folder", ["data", "/data/../etc", "", "~/skims"])
def test_an_allowed_folder_is_absolute(check: Check, folder: str) -> None:
    (problem,) = check(hist("A"), outside=[folder]).problems
    assert "absolute" in problem.message
    assert problem.place is not None


def test_a_link_does_not_make_an_allowed_folder_of_another(check: Check, tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (allowed / "link").symlink_to("/etc")
    assert not check(skim("A", path=f"{allowed}/link/s"), outside=[str(allowed)]).ok
    assert check(skim("A", path=f"{allowed}/s"), outside=[str(allowed)]).ok


@pytest.mark.parametrize("name", ["", "a\nb", "a\0b", "x" * 300, "ü" * 150, "a\x7f", "a\u2028b"])
def test_what_cannot_name_a_file_is_refused(check: Check, name: str) -> None:
    (problem,) = check(hist("A", render={"op": "hep.render.hist1d", "out": name})).problems
    assert problem.place is not None
    (problem,) = check(skim("A", path=name)).problems
    assert problem.place is not None
    assert check(hist(name)).problems


@pytest.mark.parametrize("axis", ["../../x", "x/../../../y", "x\ny", "x" * 300])
def test_names_of_axes_become_no_paths(check: Check, axis: str) -> None:
    axes = [{"name": name, "source": "MET_pt", "bins": [2, 0, 1]} for name in ("x", axis)]
    problems = check(hist("A", params={"axes": axes}, render=drawn(None))).problems
    assert problems
    assert all(problem.place is not None for problem in problems)


@pytest.mark.parametrize(
    ("path", "when", "hint"),
    [
        ("{datset}/{part}", "partition", "did you mean 'dataset'?"),
        ("{dataset}/{prt}", "partition", "did you mean 'part'?"),
        ("{dataset}/{part}", "dataset", None),
    ],
)
def test_a_name_in_braces_that_stands_for_nothing_is_refused(check: Check, path: str, when: str, hint: str) -> None:
    (problem,) = check(skim("A", path=path, when=when)).problems
    assert problem.kind is errors.BAD_VALUE
    assert "is not a known name" in problem.message
    assert problem.hint == hint
    assert problem.place is not None


def test_a_name_in_braces_stands_for_nothing_in_the_name_of_a_picture(check: Check) -> None:
    (problem,) = check(hist("A", render=drawn("{datset}/met"))).problems
    assert problem.message == "'{datset}' in 'out' is not a known name"
    assert problem.place is not None
