"""A real XRootD server on this machine: the numbers are those of the same files read from disk."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import awkward as ak
import pytest
import uproot

import cenote
from cenote.analysis.sources.root_tree.source import RootTreeSource
from cenote.testing.muons import write_muons

from .conftest import free_port
from .storage_servers import demand_client, open_server

FLOW = """
data:
  datasets:
    - {{name: first, files: ["{address}/first-0.root", "{address}/first-1.root"]}}
    - {{name: second, files: ["{address}/second.root"]}}
analysis:
  stages:
    - {{id: Cuts, op: hep.selection.cutflow, params: {{selection: {{All: ["nMuon >= 1", "MET_pt > 20"]}}}}}}
    - id: MuonPt
      op: hep.hist
      render: []
      params: {{dataset_axis: true, axes: [{{name: pt, source: Muon_pt, bins: {{nbins: 30, low: 0, high: 150}}}}]}}
"""


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    """Files in a folder that the server's user may read."""
    with tempfile.TemporaryDirectory(prefix="cenote-xrootd-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        files = folder / "data"
        files.mkdir()
        for number, file in enumerate(("first-0.root", "first-1.root", "second.root")):
            write_muons(files / file, events=2000, seed=number)
        (files / "broken.root").write_bytes((files / "second.root").read_bytes()[:20000])
        yield files


@pytest.fixture(scope="module")
def server(data: Path) -> Iterator[str]:
    """The address of a server of these files."""
    with open_server(data, data.parent) as serving:
        yield serving.root.removesuffix("/")


def cenote_run(folder: Path, address: str, *more: str) -> subprocess.CompletedProcess[str]:
    (folder / "flow.yaml").write_text(FLOW.format(address=address))
    return subprocess.run(
        [sys.executable, "-m", "cenote", "run", "flow.yaml", "--out", "out", *more],
        cwd=folder,
        env={**os.environ, "CENOTE_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("more", [(), ("--workers", "2")], ids=["here", "in-processes"])
def test_files_of_an_xrootd_server_give_the_same_numbers(
    server: str, data: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "near").mkdir()
    far = cenote_run(tmp_path / "far", server, *more)
    near = cenote_run(tmp_path / "near", str(data))
    assert (far.returncode, near.returncode) == (0, 0), far.stderr + near.stderr
    runs = [cenote.open_run(tmp_path / name / "out") for name in ("far", "near")]
    first, second = (run.product("MuonPt") for run in runs)
    assert first == second
    assert first.sum(flow=True) > 0
    assert runs[0].product("Cuts").to_rows() == runs[1].product("Cuts").to_rows()


def test_trees_of_numbers_are_read_without_uproot(server: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uproot, "open", lambda *_, **__: pytest.fail("uproot is not needed"))
    source = RootTreeSource()
    info = source.describe(f"{server}/second.root")
    (places,) = source.cut_places(info.places, ["nMuon", "Muon_pt"], [(10, 1990)])
    far = source.read_placed(f"{server}/second.root", ["nMuon", "Muon_pt"], 10, 1990, places)
    near = source.read(str(data / "second.root"), ["nMuon", "Muon_pt"], 10, 1990)
    assert ak.array_equal(far["Muon_pt"], near["Muon_pt"], dtype_exact=True)
    assert far["nMuon"].tolist() == near["nMuon"].tolist()


def test_a_file_that_the_server_does_not_have_is_named(server: str, tmp_path: Path) -> None:
    finished = cenote_run(tmp_path, f"{server}/nowhere")
    assert finished.returncode == 11
    assert "nowhere/first-0.root does not exist" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_a_broken_file_on_the_server_does_not_stop_the_rest_with_keep_going(
    server: str, data: Path, tmp_path: Path
) -> None:
    shutil.copy(data / "broken.root", data / "replaced.root")
    flow = FLOW.format(address=server).replace("second.root", "replaced.root")
    (tmp_path / "flow.yaml").write_text(flow)
    run = cenote.load(tmp_path / "flow.yaml").run(tmp_path / "out", keep_going=True)
    assert run.status == "partial"
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert any("replaced.root" in failure["file"] for failure in summary["failures"])
    assert run.product("MuonPt")[{"dataset": "first"}].sum(flow=True) > 0


def test_a_server_that_does_not_answer_is_named_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XRD_CONNECTIONRETRY", "1")
    monkeypatch.setenv("XRD_CONNECTIONWINDOW", "3")
    demand_client()
    address = f"root://127.0.0.1:{free_port()}/"
    finished = cenote_run(tmp_path, address)
    assert finished.returncode == 11
    assert address in finished.stderr
    assert "Traceback" not in finished.stderr
