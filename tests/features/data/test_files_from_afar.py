"""Files are read by their address: the numbers are those of the same file on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from textwrap import dedent

import pytest

import cenote
from builders.file_servers import FileServer

from ..conftest import Desk

STAGES = """
    analysis:
      stages:
        - {id: Hard, op: hep.select, params: {selection: "MET_pt > 20"}}
        - id: Pt
          op: hep.hist
          render: []
          params: {axes: [{name: pt, source: Muon_pt, bins: {nbins: 30, low: 0, high: 150}}]}
"""


@pytest.fixture
def server(desk: Desk) -> Iterator[FileServer]:
    """A server of `far/`."""
    far = desk.folder / "far"
    far.mkdir()
    with FileServer(far).serving() as serving:
        yield serving


def run_on(desk: Desk, address: str, out: str, *, source: str = "root_tree", workers: int | None = None) -> cenote.Run:
    head = f"data: {{datasets: [{{name: d, files: ['{address}']}}]}}\nsources: {{events: {{kind: {source}}}}}\n"
    flow = desk.write(f"{out}.yaml", head + dedent(STAGES))
    run = cenote.load(flow).run(desk.folder / out, workers=workers)
    assert run.status == "succeeded", str(run.failures)
    return run


@pytest.mark.parametrize("workers", [None, 2])
def test_a_root_file_over_http_gives_the_same_histogram(desk: Desk, server: FileServer, workers: int | None) -> None:
    local = desk.muons("a.root", events=3000)
    shutil.copy(local, desk.folder / "far" / "a.root")
    near = run_on(desk, str(local), "near")
    far = run_on(desk, f"{server.url}/a.root", "distant", workers=workers)
    assert far.product("Pt") == near.product("Pt")
    assert near.product("Pt").sum(flow=True) > 0
    assert "everything" not in server.ranges, "only the parts that are needed were fetched"


def test_a_parquet_file_over_http_gives_the_same_histogram(desk: Desk, server: FileServer) -> None:
    import awkward as ak
    import uproot

    arrays = uproot.open(desk.muons("a.root", events=1000))["events"].arrays(["MET_pt", "Muon_pt"])
    ak.to_parquet(arrays, desk.folder / "far" / "a.parquet")
    near = run_on(desk, "far/a.parquet", "near", source="parquet")
    far = run_on(desk, f"{server.url}/a.parquet", "distant", source="parquet")
    assert far.product("Pt") == near.product("Pt")


def test_a_file_that_the_server_does_not_have_is_named(desk: Desk, server: FileServer) -> None:
    flow = desk.write(
        "flow.yaml", f"data: {{datasets: [{{name: d, files: ['{server.url}/b.root']}}]}}\n" + dedent(STAGES)
    )
    finished = desk.typed("check", str(flow))
    assert f"{server.url}/b.root" in finished.stderr
    assert "Traceback" not in finished.stderr
    assert finished.returncode == 11


def test_a_server_that_does_not_answer_is_named(desk: Desk) -> None:
    flow = desk.write(
        "flow.yaml",
        "data: {datasets: [{name: d, files: ['http://127.0.0.1:9/a.root']}]}\n" + dedent(STAGES),
    )
    finished = desk.typed("check", str(flow))
    assert "http://127.0.0.1:9/a.root" in finished.stderr
    assert "Traceback" not in finished.stderr
    assert finished.returncode == 11
