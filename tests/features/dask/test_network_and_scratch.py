"""A site's ports and scratch folder: the driver takes a free port of the range, workers leave nothing on the node."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import cenote

from ..conftest import Desk

FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: ["*.root"]}]}
    sources: {events: {kind: root_tree, chunk_size: 500}}
    analysis:
      stages:
        - {id: Where, op: custom.where}
        - id: H
          op: hep.hist
          render: []
          params: {axes: [{name: met, type: regular, source: MET_pt, bins: {nbins: 4, low: 0, high: 90}}]}
    execution:
      backend: dask
      pools: {default: {workers: 2}}
"""
OPS = """
    import pathlib, tempfile
    from cenote import operation

    @operation("custom.where", reads=["MET_pt"], adds=["one"])
    def where(events, *, told: str):
        with tempfile.NamedTemporaryFile(delete=False) as file:
            file.write(b"much")
        with open(told, "a") as said:
            print(file.name, file=said)
        return {"one": events["MET_pt"]}
"""


def test_temporary_files_are_in_the_scratch_folder_and_none_is_left_after_the_run(desk: Desk, tmp_path: Path) -> None:
    desk.muons("a.root", events=3000)
    desk.write("ops.py", OPS)
    flow = desk.write("flow.yaml", FLOW)
    scratch, told = tmp_path / "scratch", tmp_path / "told"
    sets = [f"execution.config.scratch={scratch}", f"analysis.stages.Where.params.told={told}"]
    run = cenote.load(flow, sets=sets).run(desk.folder / "out")
    assert run.status == "succeeded", str(run.failures)
    files = [Path(line) for line in told.read_text().splitlines()]
    assert len(files) == 6
    assert all(file.parent.parent == scratch for file in files)
    assert list(scratch.iterdir()) == []


def test_without_a_scratch_folder_workers_leave_nothing_among_the_temporary_files(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.muons("a.root", events=3000)
    desk.write("ops.py", OPS)
    flow = desk.write("flow.yaml", FLOW)
    told, temporary = tmp_path / "told", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))  # of the workers
    run = cenote.load(flow, sets=[f"analysis.stages.Where.params.told={told}"]).run(desk.folder / "out")
    assert run.status == "succeeded", str(run.failures)
    files = {Path(line) for line in told.read_text().splitlines()}
    assert {file.parent for file in files} == {temporary}
    assert set(temporary.iterdir()) == files, "what the operation itself left is its own"


def test_a_port_that_somebody_has_is_told_before_anything_runs(desk: Desk) -> None:
    desk.muons("a.root", events=10)
    desk.write("ops.py", OPS)
    desk.write("flow.yaml", FLOW)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        told = desk.typed(
            "run",
            "flow.yaml",
            *("--set", "analysis.stages.Where.params.told=told"),
            *("--set", f"execution.config.port={port}"),
        )
    assert told.returncode == 30
    assert f"no port of {port} is free on 127.0.0.1: the driver cannot listen" in told.stderr
