"""A dataset may do without files that cannot be read: they are named, and their events counted as missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot

import cenote

from ..conftest import Desk

FLOW = """
    data:
      defaults: {{on_bad_file: skip}}
      datasets: [{{name: mc, files: [{files}], max_bad_files: {most}}}]
    sources: {{events: {{tree: events, chunk_size: 600}}}}
    analysis:
      stages:
        - {{id: Selected, op: hep.selection.cutflow, params: {{selection: {{All: [nMuon > 0]}}}}}}
        - {{id: Pt, op: hep.hist, params: {{axes: [{{source: Muon_pt, bins: {{low: 0, high: 100, nbins: 20}}}}]}}}}
    execution: {{backend: {backend}}}
"""


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:20_000])


def another_tree(file: Path) -> None:
    with uproot.recreate(file) as made:
        made.mktree("other", {"x": "f4"}).extend({"x": np.zeros(5, "f4")})


def a_damaged_basket(file: Path) -> None:
    """Which nobody sees before it is read: the second of three partitions cannot be."""
    with uproot.open(file) as opened:
        branch = opened["events"]["Muon_pt"]
        seek, size = int(branch.member("fBasketSeek")[1]), int(branch.member("fBasketBytes")[1])
    content = bytearray(file.read_bytes())
    content[seek + 80 : seek + size] = b"\xff" * (size - 80)
    file.write_bytes(content)


def flow(desk: Desk, *files: str, most: str | int = "50%", backend: str = "local") -> Path:
    return desk.write("flow.yaml", FLOW.format(files=", ".join(files), most=most, backend=backend))


def told(desk: Desk, *words: str) -> tuple[int, str, str]:
    done = desk.typed(*words)
    return done.returncode, done.stdout, done.stderr


def values(run: cenote.Run) -> list[float]:
    found: list[float] = run.product("Pt").values().tolist()
    return found


@pytest.fixture
def desk_of_four(desk: Desk) -> Desk:
    for number in range(4):
        desk.muons(f"f{number}.root", events=1500, seed=number)
    return desk


@pytest.mark.parametrize(
    ("damage", "backend"),
    [
        (cut, "local"),
        (another_tree, "local"),
        (Path.unlink, "local"),
        (a_damaged_basket, "local"),
        (a_damaged_basket, "dask"),
    ],
)
def test_the_run_is_that_of_the_other_files(
    desk_of_four: Desk, damage: Callable[[Path], Any], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = desk_of_four
    monkeypatch.chdir(desk.folder)
    flow(desk, "f0.root", "f2.root", "f3.root")
    without = values(cenote.load("flow.yaml").run("without", report=False))
    flow(desk, "f0.root", "f1.root", "f2.root", "f3.root", backend=backend)
    assert cenote.load("flow.yaml").check_data().all_problems == ()
    damage(desk.folder / "f1.root")
    run = cenote.load("flow.yaml").run("out", report=False)
    assert (run.status, run.exit_code) == ("succeeded", 0)
    assert values(run) == without
    for record in ("summary", "plan", "provenance"):
        (skipped,) = json.loads((desk.folder / f"out/{record}.json").read_text())["skipped"]
        assert (skipped["dataset"], skipped["file"], skipped["events"]) == ("mc", "f1.root", 1500)
        assert "f1.root" in skipped["reason"]
    assert "dataset 'mc': 1 of 4 files skipped, 1,500 events missing: f1.root" in run.record.warnings
    assert not any(product.partial for product in run.record.products)


def test_more_than_may_be_bad_are_an_error(desk_of_four: Desk) -> None:
    desk = desk_of_four
    files = ["f0.root", "f1.root", "f2.root", "f3.root"]
    cut(desk.folder / "f1.root")
    a_damaged_basket(desk.folder / "f2.root")
    flow(desk, *files, most=1)
    code, out, err = told(desk, "data", "check", "flow.yaml")
    assert (code, "4 files, 4,500 events, 1 bad, all of them skipped" in out) == (0, True)
    code, _, err = told(desk, "run", "flow.yaml", "--out", "out", "--no-report")
    assert code == 11
    assert "dataset 'mc': 2 of 4 files cannot be read, and max_bad_files is 1" in err
    assert json.loads((desk.folder / "out/summary.json").read_text())["status"] == "failed"
    for share, expected in (("49%", 11), ("50%", 0)):
        flow(desk, *files, most=share)
        code, out, _ = told(desk, "run", "flow.yaml", "--out", "out", "--no-report")
        assert code == expected
    assert "skipped   f1.root is cut short" in out
    for name in files:
        cut(desk.folder / name)
    code, _, err = told(desk, "data", "check", "flow.yaml")
    assert (code, "4 of 4 files cannot be read: nothing is left" in err) == (11, True)


def test_an_error_of_a_stage_still_ends_the_run(desk_of_four: Desk) -> None:
    desk = desk_of_four
    a_damaged_basket(desk.folder / "f1.root")
    file = flow(desk, "f0.root", "f1.root")
    desk.write(
        "ops.py", "import cenote\n@cenote.operation('custom.no', reads=['MET_pt'], adds=['x'])\ndef no(events): 1/0\n"
    )
    text = (
        file.read_text()
        .replace("  stages:\n", "  stages:\n    - {id: No, op: custom.no}\n")
        .replace("nMuon > 0", "x > 0")
    )
    file.write_text(f"plugins: ops.py\n{text}")
    code, _, err = told(desk, "run", "flow.yaml", "--out", "out", "--no-report")
    assert (code, "ZeroDivisionError" in err) == (20, True)


def test_a_limit_without_skipping_is_pointed_out(desk: Desk) -> None:
    desk.muons("a.root", events=10)
    desk.write("flow.yaml", "data: {datasets: {mc: {files: a.root, max_bad_files: 3}}}\n")
    code, _, err = told(desk, "check", "flow.yaml")
    assert (code, "hint: add on_bad_file: skip" in err) == (10, True)
    desk.write("flow.yaml", "data: {datasets: {mc: {files: a.root, on_bad_file: skip, max_bad_files: few}}}\n")
    code, _, err = told(desk, "check", "flow.yaml")
    assert "should be a number of files, or a share of them such as 5%" in err
