"""Own operations: a decorated function or class beside the workflow, or in an installed package, is a stage."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import uproot

import cenote
from cenote.engine.messages import TaskReused
from cenote.execution.runs.journal import read_events

from ..conftest import Desk

OPS = '''
    import os
    import awkward as ak
    import numpy as np
    from cenote import operation

    @operation("custom.count", reads=lambda column: [column], adds=["passing"])
    def count(events, *, column: str, above: float = 10.0):
        """How many are above a threshold."""
        return {"passing": ak.sum(events[column] > above, axis=1)}

    @operation("custom.scaled", reads=["MET_pt"], adds=["scaled"])
    class Scaled:
        """Needs something large that is loaded once."""

        def __init__(self, *, factor: float = 2.0):
            self.factor = factor

        def prepare(self):
            with open("prepared.log", "a") as log:
                log.write(f"{os.getpid()}\\n")
            self.table = np.array([self.factor])

        def run(self, events):
            return {"scaled": events["MET_pt"] * self.table[0]}

    @operation("custom.even", reads=["MET_pt"], filter=True)
    def even(events):
        return np.floor(events["MET_pt"]).astype(int) % 2 == 0

    @operation("custom.tally", reads=["nMuon"], product="tally", merge=lambda parts: sum(parts, start=[]))
    def tally(events):
        return [(events.dataset.name, int(np.sum(events["nMuon"])))]

    @operation("custom.mean", reads=["MET_pt"], scope="dataset", product="mean")
    def mean(events):
        return float(np.mean(events["MET_pt"], dtype="f8"))

    @operation("custom.centred", reads=["MET_pt"], adds=["centred"])
    def centred(events):
        return {"centred": events["MET_pt"] - events.product("Mean")}

    @operation("custom.spread", reads=["MET_pt"], scope="run", product="spread")
    def spread(events):
        means = events.product("Mean")
        return {"largest": max(means, key=means.get), "difference": max(means.values()) - min(means.values())}

    @operation("custom.train", reads=["MET_pt"], scope="run", product="model")
    def train(events):
        return {"mean": float(np.mean(events["MET_pt"], dtype="f8")), "events": len(events)}

    @operation("custom.predict", reads=["MET_pt"], adds=["excess"])
    def predict(events):
        return {"excess": events["MET_pt"] - events.product("Train")["mean"]}
'''

HEAD = """
    plugins: [ops.py]
    data: {datasets: [{name: first, files: [a.root]}, {name: second, files: [b.root], eventtype: mc}]}
    sources: {events: {kind: root_tree, chunk_size: 250}}
    analysis:
      stages:
"""


def hist_of(column: str, *, low: float = 0, high: float = 100, bins: int = 10) -> str:
    axis = f"{{name: x, source: {column}, bins: {{nbins: {bins}, low: {low}, high: {high}}}}}"
    return f"        - {{id: H, op: hep.hist, render: [], params: {{axes: [{axis}]}}}}\n"


@pytest.fixture
def ops(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(desk.folder)
    desk.muons("a.root", events=1000)
    desk.muons("b.root", events=500, seed=2)
    desk.write("ops.py", OPS)
    return desk


def column(desk: Desk, name: str, *files: str) -> np.ndarray:
    return np.concatenate([uproot.open(desk.folder / file)["events"][name].array(library="np") for file in files])


def test_a_function_with_params_adds_a_column(ops: Desk) -> None:
    stage = "        - {id: Count, op: custom.count, params: {column: Muon_pt, above: 20}}\n"
    flow = ops.write("flow.yaml", HEAD + stage + hist_of("passing", low=-0.5, high=9.5))
    run = cenote.load(flow).run("out")
    jagged = column(ops, "Muon_pt", "a.root", "b.root")
    expected = np.bincount([int(np.sum(np.asarray(pt) > 20)) for pt in jagged], minlength=10)
    assert run.product("H").values().tolist() == expected.tolist()
    plan = cenote.load(flow).plan()
    assert plan.stages[0].reads == ("Muon_pt",)
    assert dict(plan.segments[0].source.columns)["first"] == ("Muon_pt",), "a source reads nothing else"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_class_is_prepared_once_per_worker(ops: Desk, workers: int) -> None:
    stage = "        - {id: Scaled, op: custom.scaled, params: {factor: 3}}\n"
    flow = ops.write("flow.yaml", HEAD + stage + hist_of("scaled", high=300))
    run = cenote.load(flow).run("out", workers=workers)
    expected = np.histogram(column(ops, "MET_pt", "a.root", "b.root") * 3.0, bins=10, range=(0, 300))[0]
    assert run.product("H").values().tolist() == expected.tolist()
    prepared = (ops.folder / "prepared.log").read_text().split()
    assert 1 <= len(prepared) <= workers
    assert len(prepared) == len(set(prepared))


def test_a_mask_keeps_events(ops: Desk) -> None:
    flow = ops.write("flow.yaml", HEAD + "        - {id: Even, op: custom.even}\n" + hist_of("MET_pt"))
    run = cenote.load(flow).run("out")
    values = column(ops, "MET_pt", "a.root", "b.root")
    assert run.product("H").sum(flow=True) == np.sum(np.floor(values).astype(int) % 2 == 0)


def test_products_of_partitions_merge_in_order_by_the_given_function(ops: Desk) -> None:
    flow = ops.write("flow.yaml", HEAD + "        - {id: Tally, op: custom.tally}\n")
    run = cenote.load(flow).run("out", workers=2)
    assert [name for name, _ in run.product("Tally")] == ["first"] * 4 + ["second"] * 2
    assert sum(count for _, count in run.product("Tally")) == column(ops, "nMuon", "a.root", "b.root").sum()


def test_a_dataset_scope_operation_sees_all_events_of_a_dataset_and_later_stages_see_its_product(ops: Desk) -> None:
    stages = "        - {id: Mean, op: custom.mean}\n        - {id: Centred, op: custom.centred}\n"
    flow = ops.write("flow.yaml", HEAD + stages + hist_of("centred", low=-100, high=100))
    run = cenote.load(flow).run("out")
    assert run.status == "succeeded", str(run.failures)
    values = {"first": column(ops, "MET_pt", "a.root"), "second": column(ops, "MET_pt", "b.root")}
    means = {name: float(np.mean(found, dtype="f8")) for name, found in values.items()}
    assert run.product("Mean") == means
    centred = np.concatenate([found - means[name] for name, found in values.items()])
    assert run.product("H").values().tolist() == np.histogram(centred, bins=10, range=(-100, 100))[0].tolist()


@pytest.mark.parametrize("workers", [None, 2])
def test_a_run_scope_product_is_used_by_later_stages(ops: Desk, workers: int | None) -> None:
    stages = "        - {id: Train, op: custom.train}\n        - {id: Predict, op: custom.predict}\n"
    flow = ops.write("flow.yaml", HEAD + stages + hist_of("excess", low=-100, high=100))
    run = cenote.load(flow).run("out", workers=workers)
    assert run.status == "succeeded", str(run.failures)
    values = column(ops, "MET_pt", "a.root", "b.root")
    model = run.product("Train")
    assert model == {"mean": float(np.mean(values, dtype="f8")), "events": 1500}
    expected = np.histogram(values - model["mean"], bins=10, range=(-100, 100))[0]
    assert run.product("H").values().tolist() == expected.tolist()


def test_a_run_scope_operation_sees_the_products_of_all_datasets(ops: Desk) -> None:
    flow = ops.write(
        "flow.yaml", HEAD + "        - {id: Mean, op: custom.mean}\n        - {id: S, op: custom.spread}\n"
    )
    run = cenote.load(flow).run("out", workers=2)
    assert run.status == "succeeded", str(run.failures)
    means = run.product("Mean")
    assert run.product("S")["difference"] == abs(means["first"] - means["second"])


def test_a_product_that_a_stage_does_not_need_is_explained(ops: Desk) -> None:
    stages = (
        "        - {id: Train, op: custom.train}\n        - {id: Even, op: custom.even}\n"
        "        - {id: Predict, op: custom.predict}\n"
    )
    ops.write("flow.yaml", HEAD + stages + hist_of("excess"))
    finished = ops.typed("run", "flow.yaml", "--out", "out")
    assert "no product of a stage 'Train' here, only: none; name 'Train' under `needs`" in finished.stderr
    repaired = ops.typed(
        "run", "flow.yaml", "--out", "out", "--replace", "--set", "analysis.stages.Predict.needs=[Even, Train]"
    )
    assert repaired.returncode == 0, repaired.stderr
    even = np.sum(np.floor(column(ops, "MET_pt", "a.root", "b.root")).astype(int) % 2 == 0)
    assert cenote.open_run(ops.folder / "out").product("H").sum(flow=True) == even


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ('{"other": events["MET_pt"]}', ("did not return the column mine", "it declares columns mine")),
        ("None", ("returned nothing where a mapping of columns",)),
        ('{"mine": [1, 2]}', ("column 'mine' has 2 values for 250 events",)),
        ('{"mine": events["HLT"]}', ("no column 'HLT' here", "reads=['MET_pt']: add it there")),
    ],
    ids=["another-column", "nothing", "too-short", "undeclared"],
)
def test_something_else_than_declared_is_explained(ops: Desk, returned: str, words: tuple[str, ...]) -> None:
    ops.write(
        "ops.py",
        f"""
        from cenote import operation

        @operation("custom.mine", reads=["MET_pt"], adds=["mine"])
        def mine(events):
            return {returned}
        """,
    )
    ops.write("flow.yaml", HEAD + "        - {id: Mine, op: custom.mine}\n")
    finished = ops.typed("run", "flow.yaml", "--out", "out")
    assert finished.returncode == 20
    assert "Mine raised an exception on" in finished.stderr
    assert re.search(r"a\.root, events (0 to 250|250 to 500) \(dataset first\)", finished.stderr)
    assert [word for word in words if word not in finished.stderr] == [], finished.stderr
    assert "cenote/worker" not in finished.stderr


def test_a_wrong_parameter_is_told_before_anything_runs(ops: Desk) -> None:
    ops.write("flow.yaml", HEAD + "        - {id: Count, op: custom.count, params: {column: Muon_pt, abve: 2}}\n")
    finished = ops.typed("check", "flow.yaml")
    assert "there is no key 'abve' in the params of stage 'Count'" in finished.stderr
    assert "did you mean 'above'?" in finished.stderr
    assert finished.returncode == 10


def test_a_column_that_own_code_wants_and_nobody_has_is_told_before_anything_runs(ops: Desk) -> None:
    ops.write("flow.yaml", HEAD + "        - {id: Count, op: custom.count, params: {column: Muon_ptt}}\n")
    finished = ops.typed("check", "flow.yaml")
    assert "stage 'Count' reads 'Muon_ptt'" in finished.stderr
    assert finished.returncode == 11


def test_own_operations_describe_themselves(ops: Desk) -> None:
    ops.write("flow.yaml", HEAD + "        - {id: Even, op: custom.even}\n")
    shown = ops.typed("ops", "custom.count", "--plugin", "ops.py")
    assert "How many are above a threshold." in shown.stdout, shown.stderr
    assert "above" in shown.stdout


def test_an_installed_package_gives_operations_by_its_registry_entry(
    ops: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = ops.folder / "site"
    (site / "my_group").mkdir(parents=True)
    (site / "my_group" / "__init__.py").write_text("")
    (site / "my_group" / "cuts.py").write_text(
        "from cenote import operation\n\n"
        "@operation('anything', reads=['MET_pt'], filter=True)\n"
        "def hard(events, *, above: float = 50.0):\n    return events['MET_pt'] > above\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=":")
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    flow = ops.write(
        "flow.yaml",
        """
        data: {datasets: [{name: first, files: [a.root]}]}
        registry: {transforms: {group.hard: {impl: "my_group.cuts:hard"}}}
        analysis:
          stages:
            - {id: Hard, op: group.hard, params: {above: 60}}
            - {id: H, op: hep.hist, params: {axes: [{name: x, source: MET_pt, bins: {nbins: 1, low: 0, high: 60}}]}}
        """,
    )
    run = cenote.load(flow).run("out", workers=2)
    assert run.status == "succeeded", str(run.failures)
    assert run.product("H").sum(flow=True) == np.sum(column(ops, "MET_pt", "a.root") > 60)
    assert run.product("H").values().tolist() == [0]


def test_editing_the_plugin_file_makes_a_resumed_run_do_its_work_again(ops: Desk) -> None:
    flow = ops.write("flow.yaml", HEAD + "        - {id: Tally, op: custom.tally}\n")
    first = cenote.load(flow).run("out")
    assert not reused(ops.folder / "out")
    again = cenote.load(flow).run("out", resume=True)
    everything = len(reused(ops.folder / "out"))
    assert everything > 0
    assert all(sum(stage["pools"].values()) == 0 for stage in again.summary["stages"]), "nothing ran again"

    ops.write("ops.py", OPS.replace("int(np.sum(events", "2 * int(np.sum(events"))
    edited = cenote.load(flow).run("out", resume=True)
    assert len(reused(ops.folder / "out")) == everything, "nothing more was reused"
    before, after = (sum(count for _, count in run.product("Tally")) for run in (first, edited))
    assert before == after, "both read the folder, which has the new numbers"
    assert after == 2 * column(ops, "nMuon", "a.root", "b.root").sum()


def reused(folder: Path) -> list[int]:
    return [event.task for event in read_events(folder) if isinstance(event, TaskReused)]
