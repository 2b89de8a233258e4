"""Whatever was kept of dear stages: after an edit of any workflow its numbers are those of a run that starts anew."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

import cenote

from ..conftest import DEEP, Desk

OPS = """
    import time
    import awkward as ak
    import numpy as np
    from cenote import operation

    DEAR = 0.012  # seconds, for a few hundred events

    @operation("custom.add", reads=lambda p: [p.one, p.two], adds=lambda p: [p.out])
    def add(events, *, one: str, two: str, out: str, k: float = 1.0):
        time.sleep(DEAR)
        return {out: np.asarray(events[one]) * np.float32(k) + np.asarray(events[two])}

    @operation("custom.lists", reads=["Muon_pt"], adds=lambda p: [p.out, p.out + "_all"])
    def lists(events, *, out: str, k: float = 1.0):
        time.sleep(DEAR)
        found = events["Muon_pt"][events["Muon_pt"] > 5 * k]
        return {out + "_all": found, out: np.asarray(ak.fill_none(ak.max(found, axis=1), 0)).astype("f4")}

    @operation("custom.cut", reads=lambda p: [p.one], filter=True)
    def cut(events, *, one: str, k: float = 1.0):
        time.sleep(DEAR)
        return np.asarray(events[one]) > 8 * k
"""
WORKFLOWS, EDITS = (60, 5) if DEEP else (3, 2)
HISTOGRAMS = ("H0", "H1", "H2")
Flow = dict[str, Any]


@pytest.mark.parametrize("seed", range(WORKFLOWS))
def test_numbers_are_those_of_a_run_that_starts_anew(desk: Desk, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk.folder)
    desk.write("ops.py", OPS)
    for number, name in enumerate(("a", "b", "c")):
        desk.muons(f"{name}.root", events=700, seed=number, weighted=True)
    choose = random.Random(seed)
    flow = workflow(choose)
    for _ in range(1 + EDITS):
        Path("flow.yaml").write_text(yaml.safe_dump(flow, sort_keys=False))
        again = ran("again", seed)
        anew = ran("anew", seed, fresh=True)
        for name in HISTOGRAMS:
            found, expected = (run.product(name).view(flow=True) for run in (again, anew))
            assert found.tobytes() == expected.tobytes(), (name, flow)
        assert not [words for words in again.warnings if "damaged" in words]
        edit(flow, choose)


def ran(out: str, seed: int, **options: Any) -> cenote.Run:
    """Each folder has a store of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CENOTE_STORE", str(Path(f"store-{out}-{seed}").absolute()))
        run = cenote.load("flow.yaml").run(out, report=False, **options)
    if options:
        shutil.rmtree(f"store-{out}-{seed}")
    assert run.status == "succeeded", run.failures
    return run


def workflow(choose: random.Random) -> Flow:
    """A few stages, dear and cheap ones, in branches and on two pools; with variations or without."""
    stages: list[Flow] = []
    columns = {"": ["MET_pt", "EventWeight"]}
    for number in range(choose.randint(4, 7)):
        need = choose.choice([one["id"] for one in stages[-2:]] or [""])
        stage = one_stage(f"S{number}", columns[need], choose)
        if need:
            stage["needs"] = [need]
        columns[stage["id"]] = [*columns[need], *([f"x{number}"] if adds(stage) else [])]
        stages.append(stage)
    ids = [one["id"] for one in stages]
    for name in HISTOGRAMS:
        need = choose.choice(ids)
        axes = [{"name": "v", "source": choose.choice(columns[need]), "bins": {"nbins": 20, "low": 0, "high": 200}}]
        params = {"dataset_axis": True, "weight": choose.choice(["EventWeight", "1"]), "axes": axes}
        stages.append({"id": name, "op": "hep.hist", "needs": [need], "render": [], "params": params})
    kinds = {"A": "data", "B": "mc", "C": "mc"}
    datasets = [{"name": name, "files": [f"{name.lower()}.root"], "eventtype": kind} for name, kind in kinds.items()]
    flow: Flow = {
        "plugins": ["ops.py"],
        "data": {"datasets": datasets},
        "sources": {"events": {"kind": "root_tree", "chunk_size": 400}},
        "analysis": {"stages": stages},
        "execution": {"pools": {"default": {"workers": 1}, "other": {"workers": 1}}},
    }
    if choose.random() < 0.5:
        variations = [{"name": "up", "replace": {"MET_pt": "EventWeight"}, "applies_to": "mc"}]
        other = {"name": "other", "datasets": {"replace": {"B": "C"}}}
        flow["systematics"] = {"variations": [*variations, *([other] if choose.random() < 0.6 else [])]}
    return flow


def one_stage(name: str, columns: list[str], choose: random.Random) -> Flow:
    op = choose.choice(["custom.add", "custom.add", "custom.lists", "custom.cut", "define", "filter"])
    new = name.replace("S", "x")
    params = {
        "custom.add": {"one": choose.choice(columns), "two": choose.choice(columns), "out": new, "k": 1.0},
        "custom.lists": {"out": new, "k": 1.0},
        "custom.cut": {"one": choose.choice(columns), "k": 1.0},
        "define": {new: f"{choose.choice(columns)} * 1.0 + {choose.choice(columns)}"},
        "filter": {"expr": f"{choose.choice(columns)} > 1.0"},
    }
    stage: Flow = {"id": name, "op": op, "params": params[op]}
    if not adds(stage) and choose.random() < 0.3:
        stage["applies_to"] = {"datasets": ["B"]}
    execution: Flow = {"require": "other"} if choose.random() < 0.25 else {}
    if choose.random() < 0.1:
        execution["modifiers"] = ["cache"]
    return {**stage, "execution": execution} if execution else stage


def adds(stage: Flow) -> bool:
    return stage["op"] not in ("custom.cut", "filter")


def edit(flow: Flow, choose: random.Random) -> None:
    """Another number in one of the stages."""
    params = choose.choice(flow["analysis"]["stages"])["params"]
    if "k" in params:
        params["k"] = choose.choice([0.5, 1.0, 1.5, 2.0])
    elif "axes" in params:
        params["axes"][0]["bins"]["nbins"] = choose.choice([10, 20, 40])
    else:
        (name,) = params
        text = params[name]
        numbers = ("1.0", "1.5", "5.0")
        old = next(number for number in numbers if number in text)
        params[name] = text.replace(old, choose.choice(numbers))
