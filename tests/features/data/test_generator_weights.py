"""Simulation is normalised by the sum of its generator weights: of all events, before any selection."""

from __future__ import annotations

import numpy as np
import pytest
import uproot

import cenote

from ..conftest import Desk

OPS = """
    import numpy as np
    from cenote import operation

    @operation("custom.sum", reads=lambda params: [params.column], scope="dataset", product="sum")
    def total(events, *, column: str = "genWeight"):
        return float(np.sum(events[column], dtype=float))

    @operation("custom.normalise", reads=["genWeight"], adds=["w"])
    def normalise(events, *, lumi: float):
        return {"w": events["genWeight"] * events.dataset.metadata["xsec"] * lumi / events.product("SumW")}
"""
HEAD = """
    plugins: [ops.py]
    data:
      datasets:
        - {name: data, files: [data.root], eventtype: data}
        - {name: dy, files: [dy_*.root], xsec: 3}
        - {name: top, files: [top.root], xsec: 5}
    sources: {events: {tree: Events, chunk_size: 20}, runs: {tree: Runs}}
    analysis:
      stages:
"""
REST = """
        - {id: Twice, op: define, needs: [], params: {pt: pt * 2}}
        - {id: Hard, op: filter, params: {selection: pt > 100}}
        - {id: Weight, op: custom.normalise, needs: [Hard, SumW], applies_to: {eventtype: mc}, params: {lumi: 10}}
        - {id: One, op: define, applies_to: {eventtype: data}, params: {w: "1.0"}}
        - id: Pt
          op: hep.hist
          render: []
          params: {dataset_axis: true, weight_expr: w, axes: [{source: pt, bins: [2, 0, 200]}]}
"""
FROM_EVENTS = "        - {id: SumW, op: custom.sum, needs: [], applies_to: {eventtype: mc}}\n"
FROM_RUNS = (
    "        - {id: SumW, op: custom.sum, from: runs, applies_to: {eventtype: mc}, params: {column: genEventSumw}}\n"
)


@pytest.fixture
def data(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(desk.folder)
    desk.write("ops.py", OPS)
    for number, name in enumerate(("data", "dy_1", "dy_2", "top")):
        size = 50 + 10 * number
        weights = {} if name == "data" else {"genWeight": np.where(np.arange(size) % 5 == 0, -1.0, 2.0 + number)}
        sums = {} if name == "data" else {"genEventSumw": np.array([weights["genWeight"].sum()])}
        with uproot.recreate(f"{name}.root") as file:
            file.mktree("Events", {"pt": "f8", **dict.fromkeys(weights, "f8")}).extend(
                {"pt": np.linspace(0, 100, size), **weights}
            )
            runs = {"run": np.array([1.0]), **sums}
            file.mktree("Runs", dict.fromkeys(runs, "f8")).extend(runs)
    return desk


@pytest.mark.parametrize("where", [FROM_EVENTS, FROM_RUNS], ids=["from the events", "from the tree of runs"])
def test_each_dataset_is_normalised_by_its_own_sum(data: Desk, where: str) -> None:
    run = cenote.load(data.write("flow.yaml", HEAD + where + REST)).run("out", workers=1)
    assert run.status == "succeeded", str(run.failures)
    found = run.product("Pt")
    for name, xsec, files in (("dy", 3, ("dy_1", "dy_2")), ("top", 5, ("top",))):
        columns = [uproot.open(f"{file}.root")["Events"].arrays(library="np") for file in files]
        weights = np.concatenate([one["genWeight"] for one in columns])
        hard = np.concatenate([one["pt"] for one in columns]) > 50
        expected = xsec * 10 * weights[hard].sum() / weights.sum()
        assert found[{"dataset": name}].sum(flow=True).value == pytest.approx(expected)
    assert found[{"dataset": "data"}].sum(flow=True).value == 25
    assert run.product("SumW").keys() == {"dy", "top"}


def test_files_without_the_tree_that_no_stage_of_theirs_reads_are_welcome(data: Desk) -> None:
    flow = data.write("flow.yaml", HEAD + FROM_RUNS + REST)
    expected = cenote.load(flow).run("out", workers=1).product("Pt")
    with uproot.open("data.root") as file:
        pt = file["Events"]["pt"].array(library="np")
    with uproot.recreate("data.root") as file:
        file.mktree("Events", {"pt": "f8"}).extend({"pt": pt})
    assert cenote.load(flow).check().problems == ()
    assert cenote.load(flow).check_data().all_problems == ()
    run = cenote.load(flow).run("again", workers=1)
    assert run.status == "succeeded", str(run.failures)
    assert run.product("Pt") == expected


def test_a_stage_of_theirs_that_reads_a_tree_that_is_not_there_is_refused(data: Desk) -> None:
    everywhere = FROM_RUNS.replace("applies_to: {eventtype: mc}, ", "").replace("genEventSumw", "run")
    with uproot.recreate("data.root") as file:
        file.mktree("Events", {"pt": "f8"}).extend({"pt": np.ones(3)})
    with pytest.raises(cenote.CenoteError, match="holds no tree 'Runs'"):
        cenote.load(data.write("flow.yaml", HEAD + everywhere + REST)).plan()


def test_weights_that_are_not_finite_are_said_at_the_end(data: Desk) -> None:
    data.write(
        "odd.yaml",
        """
        data: {datasets: [{name: dy, files: [dy_1.root]}, {name: top, files: [top.root]}]}
        analysis:
          stages:
            - {id: Weight, op: define, params: {w: "where(dataset_name == 'top' & pt == 0, nan, genWeight)"}}
            - {id: Cut, op: hep.selection.cutflow, params: {weight_expr: w, selection: [pt >= 0]}}
            - id: Pt
              op: hep.hist
              render: []
              params: {dataset_axis: true, weight_expr: w, axes: [{source: pt, bins: [2, 0, 200]}]}
        """,
    )
    finished = cenote.load("odd.yaml").run(out="out")
    assert [words.split(":")[:2] for words in finished.summary["warnings"]] == [
        ["stage 'Cut'", " sums of weights are not finite for dataset top"],
        ["stage 'Pt'", " sums of weights are not finite in 1 of 8 bins, dataset top"],
    ]
