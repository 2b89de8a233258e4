"""A run remembers how much memory its stages took, and the next plan says where that will not do."""

from __future__ import annotations

import json

import cenote

from ..conftest import Desk

OPS = """
    import numpy as np
    from cenote import operation

    @operation("custom.greedy", reads=["MET_pt"], adds=["sum"])
    def greedy(events, *, megabytes: int):
        block = np.ones(megabytes * 131072)
        return {"sum": events["MET_pt"] + 0 * block[: events.size]}
"""
FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: ["*.root"]}]}
    sources: {events: {kind: root_tree, chunk_size: 1000}}
    analysis:
      stages:
        - {id: Greedy, op: custom.greedy, params: {megabytes: 700}}
    execution: {pools: {default: {workers: 1, resources: {memory: 2GB}}}}
"""


def test_the_next_plan_warns_where_a_pool_has_too_little_memory_and_partitions_stay(desk: Desk) -> None:
    desk.muons("a.root", events=2000)
    desk.write("ops.py", OPS)
    flow = desk.write("flow.yaml", FLOW)
    before = cenote.load(flow).plan()
    assert before.learned == ()
    assert cenote.load(flow).run(desk.folder / "out").status == "succeeded"

    after = cenote.load(flow).plan()
    (learned,) = after.learned
    assert (learned.stages, learned.events, learned.tasks, learned.pool) == (("Greedy",), 1000, 2, "default")
    assert 700_000_000 < learned.peak_memory < 2_000_000_000
    assert not any("learned" in warning for warning in after.warnings)
    assert (after.partitions, after.digest) == (before.partitions, before.digest)

    words = ["--set", "execution.pools.default.resources.memory=500MB"]
    told = json.loads(desk.typed("plan", str(flow), "--json", *words).stdout)
    assert told["learned"][0]["memory"] == 500_000_000
    (warning,) = [warning for warning in told["warnings"] if "learned" in warning]
    assert warning.startswith("stage 'Greedy' needs about ")
    assert warning.endswith("as learned from 2 tasks of earlier runs; pool 'default' gives 500 MB a task")
