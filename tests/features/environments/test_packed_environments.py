"""Workers run software packed from a lock, one pool with an environment of its own: the numbers are the same."""

from __future__ import annotations

import json
import sys

import pytest

import cenote
from builders.conda_channel import worker_project

from ..conftest import Desk

OPS = """
    import os, sys
    import cenote, numpy as np
    from cenote import operation

    @operation("custom.index", reads=["Muon_pt"], adds=["n_muons"])
    def index(events):
        import awkward as ak
        return {"n_muons": ak.num(events["Muon_pt"])}

    @operation("custom.inference", reads=["n_muons", "MET_pt"], adds=["score"])
    def inference(events):
        return {"score": 1.0 / (1.0 + np.exp(-np.asarray(events["MET_pt"]) / 30.0 + events["n_muons"]))}

    @operation("custom.where", scope="run", reads=["MET_pt"], product="object")
    def where(events):
        names = ("ANALYSIS", "ACTIVATED")
        return {"prefix": sys.prefix, "code": cenote.__file__, **{name: os.environ.get(name, "") for name in names}}
"""
LEFT_OUT = "['*/tests/*', '*/pygments/*', '*/lib2to3/*']"
"""Half of the time of packing goes into compiling modules."""
FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: ["*.root"]}]}
    analysis:
      stages:
        - {id: BuildIndex, op: custom.index, execution: {require: high_memory}}
        - {id: RunInference, op: custom.inference, execution: {require: gpu}}
        - {id: OnDefault, op: custom.where, needs: []}
        - {id: OnGpu, op: custom.where, needs: [], execution: {require: gpu}}
        - id: MuonPt
          op: hep.hist
          needs: [RunInference]
          render: []
          params:
            weight_expr: score
            axes: [{name: pt, type: regular, source: Muon_pt, bins: {nbins: 40, low: 0, high: 200}}]
    execution:
      backend: BACKEND
      environment: {type: packed-pixi, manifest: project/pixi.toml, scratch: SCRATCH, exclude: LEFT_OUT}
      pools:
        default: {workers: 1}
        high_memory: {workers: 1, resources: {memory: 128GB}}
        gpu:
          workers: 1
          resources: {gpus: 1}
          environment: current
"""


@pytest.fixture(autouse=True)
def _a_project(desk: Desk) -> None:
    worker_project(desk.folder / "project")


def run(desk: Desk, name: str, *, backend: str = "dask") -> cenote.Run:
    text = FLOW.replace("BACKEND", backend).replace("LEFT_OUT", LEFT_OUT)
    text = text.replace("SCRATCH", str(desk.folder.parent / "node"))
    if backend == "local":
        text = text.replace("type: packed-pixi, manifest: project/pixi.toml, scratch", "type: current} #")
    flow = desk.write(f"{name}.yaml", text)
    made = cenote.load(flow).run(desk.folder / name)
    assert made.status == "succeeded", str(made.failures)
    return made


def test_pools_run_environments_of_their_own_with_the_same_numbers(desk: Desk) -> None:
    """The second run packs nothing, and finds everything unpacked."""
    desk.muons("a.root", events=600)
    desk.write("ops.py", OPS)
    expected = run(desk, "current", backend="local").product("MuonPt")
    stock = desk.folder.parent / ".cache" / "environments"
    seen = []
    for name in ("first", "second"):
        made = run(desk, name)
        assert made.product("MuonPt").view(flow=True).tobytes() == expected.view(flow=True).tobytes()
        default, gpu = made.product("OnDefault"), made.product("OnGpu")
        assert default["prefix"].startswith(str(desk.folder.parent / "node"))
        assert default["code"].startswith(str(desk.folder.parent / "node"))
        assert (default["ANALYSIS"], default["ACTIVATED"]) == ("from the manifest", f"{default['prefix']}/share")
        assert (gpu["prefix"], gpu["ANALYSIS"], gpu["ACTIVATED"]) == (sys.prefix, "", "")
        seen.append((default["prefix"], {file.name: file.stat().st_mtime_ns for file in stock.glob("*.tar.*")}))
    assert seen[0] == seen[1]

    record = json.loads((desk.folder / "second" / "provenance.json").read_text())["environments"]
    assert record["default"] == record["high_memory"]
    assert (record["default"]["type"], record["gpu"]["type"]) == ("packed-pixi", "current")
    assert record["default"]["environment"] == "default"
    assert len(record["default"]["lock_sha256"]) == len(record["default"]["digest"]) == 64
    assert "awkward" in record["default"]["packages"]
