"""Several trees of a file, and files that belong together, are read as one."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

import cenote

from ..conftest import Desk

EVENTS = 300
FLOW = """
data: {datasets: [{name: mc, files: ["data/*.root"]}]}
sources:
  l1: {tree: l1/Tree, chunk_size: CHUNK}
  reco: {tree: reco/Tree}
JOIN
fields: {l1_et: {stream: events, branch: "l1.et"}, offline: {stream: events, branch: "off.et"}}
analysis:
  stages:
STAGE
    - {id: Cut, op: filter, params: {expr: "num(l1_et) > 0"}}
    - id: Sums
      op: aggregate
      params:
        values: {n: {op: count}, both: {op: sum, of: "num(l1.et) * 1000 + num(offline)"}, tag: {op: sum, of: "off.tag"}}
"""
JOINS = (
    "joins: {events: {kind: zip, on_mismatch: POLICY, inputs: [l1, {source: reco, prefix: off, FILE}]}}\n"
    "primary_stream: events"
)
ZIP_STAGE = """
    - id: Both
      op: hep.zip_join
      from: [l1, {node: reco, as: reco}]
      params: {inputs: [{name: l1, prefix: l1}, {name: reco, prefix: off}]}
"""


def columns(seed: int, size: int = EVENTS) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 3, size)
    return {"et": ak.unflatten(rng.uniform(0, 90, counts.sum()), counts), "tag": rng.integers(0, 9, size)}


@pytest.fixture
def trees(desk: Desk) -> dict[str, list[dict[str, Any]]]:
    """Two files with both trees, and the second one again in files of its own."""
    (desk.folder / "data").mkdir()
    (desk.folder / "friends").mkdir()
    made: dict[str, list[dict[str, Any]]] = {"l1": [], "reco": []}
    for number in range(2):
        l1, reco = columns(number), columns(number + 10)
        with uproot.recreate(desk.folder / f"data/{number}.root") as file:
            for name, content in (("l1/Tree", l1), ("reco/Tree", reco)):
                file.mktree(name, {c: ak.type(v).content for c, v in content.items()}).extend(content)
        with uproot.recreate(desk.folder / f"friends/{number}_reco.root") as file:
            file.mktree("reco/Tree", {c: ak.type(v).content for c, v in reco.items()}).extend(reco)
        made["l1"].append(l1)
        made["reco"].append(reco)
    return made


def by_hand(trees: dict[str, list[dict[str, Any]]]) -> list[tuple[int, int, int]]:
    l1 = ak.concatenate([one["et"] for one in trees["l1"]])
    reco = ak.concatenate([one["et"] for one in trees["reco"]])
    tag = np.concatenate([one["tag"] for one in trees["reco"]])
    kept = ak.to_numpy(ak.num(l1) > 0)
    both = ak.to_numpy(ak.num(l1) * 1000 + ak.num(reco))
    return [(int(kept.sum()), int(both[kept].sum()), int(tag[kept].sum()))]


@pytest.mark.parametrize(
    ("join", "stage", "workers", "chunk"),
    [
        (JOINS, "", 1, 1000),
        (JOINS, "", 2, 70),
        (JOINS.replace("FILE", 'file: "../friends/{stem}_reco.root"'), "", 1, 130),
        ("", ZIP_STAGE, 1, 100),
    ],
    ids=["trees", "chunks", "friends", "stage"],
)
def test_sums_over_joined_trees_are_those_of_a_calculation_by_hand(
    desk: Desk, trees: dict[str, list[dict[str, Any]]], join: str, stage: str, workers: int, chunk: int
) -> None:
    text = FLOW.replace("JOIN", join).replace("STAGE", stage).replace("CHUNK", str(chunk)).replace("POLICY", "error")
    text = text.replace(", FILE", "").replace("stream: events, ", "" if stage else "stream: events, ")
    run = cenote.load(desk.write("flow.yaml", text)).run(desk.folder / "out", workers=workers)
    assert run.status == "succeeded", str(run.failures)
    assert run.product("Sums").rows() == by_hand(trees)


def test_different_numbers_of_events_are_an_error_or_a_warning(
    desk: Desk, trees: dict[str, list[dict[str, Any]]]
) -> None:
    short = columns(3, size=100)
    with uproot.recreate(desk.folder / "friends/1_reco.root") as file:
        file.mktree("reco/Tree", {c: ak.type(v).content for c, v in short.items()}).extend(short)
    join = JOINS.replace("FILE", 'file: "../friends/{stem}_reco.root"')
    text = FLOW.replace("JOIN", join).replace("STAGE", "").replace("CHUNK", "1000")
    desk.write("flow.yaml", text.replace("POLICY", "error"))
    refused = desk.typed("plan", "flow.yaml")
    assert refused.returncode == 11
    assert "different numbers of events: l1 300, off 100" in refused.stderr
    run = cenote.load(desk.write("flow.yaml", text.replace("POLICY", "warn"))).run(desk.folder / "out", workers=1)
    assert run.status == "succeeded", str(run.failures)
    assert any("l1 300, off 100: the first 100 are read" in warning for warning in run.summary["warnings"])
    trees["reco"][1] = short
    trees["l1"][1] = {name: values[:100] for name, values in trees["l1"][1].items()}
    assert run.product("Sums").rows() == by_hand(trees)
