"""What operations print is kept in the logs, and stdout is for answers only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..conftest import Desk

OPS = """
    import ctypes, os, sys
    from cenote import operation

    print("said by the file")

    @operation("custom.loud", reads=["MET_pt"], adds=["loud"])
    def loud(events):
        print("said by Python")
        print("complained", file=sys.stderr)
        os.write(1, b"said by the descriptor\\n")
        ctypes.CDLL(None).puts(b"said by C")
        return {"loud": events["MET_pt"]}
"""
FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: ["*.root"]}]}
    sources: {events: {kind: root_tree, chunk_size: 500}}
    analysis:
      stages:
        - {id: Loud, op: custom.loud}
        - id: H
          op: hep.hist
          render: []
          params: {axes: [{name: x, type: regular, source: loud, bins: {nbins: 4, low: 0, high: 90}}]}
"""
SAID = ["said by C", "said by Python", "said by the descriptor"]


@pytest.fixture
def flow(desk: Desk) -> Path:
    desk.muons("a.root", events=1000)
    desk.write("ops.py", OPS)
    return desk.write("flow.yaml", FLOW)


def lines_of(folder: Path) -> list[str]:
    return sorted(line for file in folder.iterdir() for line in file.read_text().splitlines())


@pytest.mark.parametrize(
    "how", [["--workers", "1"], ["--workers", "2"], ["--backend", "dask"]], ids=["this process", "processes", "dask"]
)
def test_prints_are_in_the_logs_and_stdout_is_json(desk: Desk, flow: Path, how: list[str]) -> None:
    run = desk.cenote("run", str(flow), "--out", "out", "--json", *how)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["status"] == "succeeded"
    logs = desk.folder / "out" / "debug" / "distributed"
    assert [line for line in lines_of(logs / "out") if line in SAID] == sorted([*SAID, *SAID])
    assert lines_of(logs / "err") == ["complained", "complained"]


@pytest.mark.parametrize("command", [["check", "--json"], ["plan", "--json"], ["run", "--json"]])
def test_what_a_plugin_file_says_as_it_is_read_does_not_reach_stdout(
    desk: Desk, flow: Path, command: list[str]
) -> None:
    told = desk.cenote(*command, str(flow))
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)
    assert "said by the file" in told.stderr


def test_nothing_is_left_of_a_run_that_says_nothing(desk: Desk, flow: Path) -> None:
    stages = (
        "analysis.stages=[{id: H, op: hep.hist, render: [], params: {axes: [{name: x, type: regular, source: MET_pt,"
        " bins: {nbins: 4, low: 0, high: 90}}]}}]"
    )
    run = desk.cenote("run", str(flow), "--out", "out", "--workers", "1", "--set", stages, "--set", "plugins=[]")
    assert run.returncode == 0, run.stderr
    assert list((desk.folder / "out" / "debug" / "distributed" / "out").iterdir()) == []


@pytest.mark.parametrize("how", [["--workers", "1"], ["--workers", "2"]], ids=["this process", "processes"])
def test_a_log_does_not_grow_without_bound(desk: Desk, flow: Path, how: list[str]) -> None:
    endless = """
        for _ in range(30):
            print("x" * 1_000_000)
        print("the end")
        return"""
    desk.write("ops.py", OPS.replace("\n        return", endless))
    run = desk.cenote("run", str(flow), "--out", "out", *how)
    assert run.returncode == 0, run.stderr
    logs = [file for file in (desk.folder / "out/debug/distributed/out").iterdir() if "xxx" in file.read_text()]
    assert logs
    for file in logs:
        text = file.read_text()
        assert text.count("x") < 20_000_000
        assert text.count("… more than 20,000,000 characters: the rest is left out") == 1
        assert "the end" not in text
