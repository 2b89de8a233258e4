"""Workers run in a prefix that every node sees; Cenote, which it lacks, and edited code travel beside it."""

from __future__ import annotations

import json

import pytest

import cenote
from builders.conda_prefix import worker_prefix

from ..conftest import Desk

PLUGINS = """
import os, sys
from pathlib import Path
import cenote

@cenote.operation("custom.where", scope="run", reads=["MET_pt"], product="object")
def where(events):
    names = ("ACTIVATED", "CONDA_PREFIX", "GREETING", "VIRTUAL_ENV")
    return {**{name: os.environ.get(name) for name in names}, "prefix": sys.prefix, "cenote": cenote.__file__}
"""
FLOW = """
plugins: [ops.py]
data: {datasets: [{name: d, files: [a.root]}]}
analysis: {stages: [{id: Where, op: custom.where}]}
execution: {backend: dask, pools: {default: {workers: 1}}}
"""


def test_workers_run_in_a_shared_prefix(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", "/of/this/machine")
    desk.muons("a.root", events=10)
    desk.write("ops.py", PLUGINS)
    flow, scratch, prefix = desk.write("flow.yaml", FLOW), desk.folder / "node", str(worker_prefix())
    settings = {"type": "shared-prefix", "prefix": prefix, "scratch": str(scratch), "variables": {"GREETING": "hello"}}

    run = cenote.load(flow, sets=[f"execution.environment={json.dumps(settings)}"]).run(desk.folder / "out")

    assert run.status == "succeeded", run.failures
    where = run.product("Where")
    assert where.pop("cenote").startswith(f"{scratch}/")
    own = {"CONDA_PREFIX": prefix, "ACTIVATED": f"{prefix}/share", "GREETING": "hello", "VIRTUAL_ENV": None}
    assert where == {**own, "prefix": prefix}
    recorded = json.loads((desk.folder / "out" / "provenance.json").read_text())["environments"]["default"]
    assert (recorded["type"], recorded["prefix"]) == ("shared-prefix", prefix)
    assert recorded["packages"]["activated"] == "1.0"
    assert recorded["code"]["packages"]["cenote"] == cenote.__version__
    assert any("no pyarrow (the driver has" in warning for warning in run.warnings), "the prefix is without it"
