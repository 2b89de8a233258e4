"""Whatever stages apply to other datasets, each dataset gets the result of a workflow that was written for it alone."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import cenote
from cenote.common.errors import CenoteError
from cenote.execution.runtime.task_specs import TaskSpecs, make_run_spec
from cenote.execution.worker.results.store import Store
from cenote.execution.worker.run_task import TaskRunner
from cenote.planning.plan import Plan

COLUMNS = {
    "run_a": ("x", "y", "k"),
    "run_b": ("x", "k", "y", "z"),
    "zmumu": ("x", "y", "k", "genWeight"),
    "ttbar": ("genWeight", "x", "y", "z", "genPt"),
}
TYPES = {"run_a": "data", "run_b": "data", "zmumu": "mc", "ttbar": "mc"}
EVENTS = 12
EVERYTHING = ("project", {"keep": ["*"]})


@dataclass(frozen=True)
class Sketch:
    """A stage, as the test writes it."""

    id: str
    op: str
    params: Mapping[str, Any]
    needs: tuple[str, ...]
    datasets: frozenset[str] | None = None
    """None for everywhere."""
    applies_to: Mapping[str, Any] = field(default_factory=dict)
    write: tuple[Mapping[str, Any], ...] = ()
    pool: str = "default"

    def applies(self, dataset: str) -> bool:
        return self.datasets is None or dataset in self.datasets

    def written(self) -> dict[str, Any]:
        optional = {"applies_to": dict(self.applies_to), "write": list(self.write)}
        return {
            "id": self.id,
            "op": self.op,
            "params": dict(self.params),
            "needs": list(self.needs),
            **{key: value for key, value in optional.items() if value},
            "execution": {"require": self.pool},
        }


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    numbers = np.random.default_rng(1)
    for dataset, names in COLUMNS.items():
        columns = {name: numbers.uniform(0, 2, EVENTS) for name in names}
        pq.write_table(pa.table(columns), folder / f"{dataset}.parquet")
    return folder


def alone(stages: Sequence[Sketch], dataset: str) -> list[Sketch]:
    """The stages as somebody would write them who has this dataset only."""
    needs: dict[str, tuple[str, ...]] = {}
    kept: dict[str, Sketch] = {}
    for stage in stages:
        found = dict.fromkeys(n for need in stage.needs for n in ((need,) if need in kept else needs[need]))
        beside_files = [need for need in stage.needs if need not in kept and not needs[need]] if found else []
        for name in beside_files:  # the files themselves beside a stage: only a stage that changes nothing says that
            operation, params = EVERYTHING
            kept[name] = Sketch(name, operation, params, ())
            found[name] = None
        needs[stage.id] = tuple(found)
        if stage.applies(dataset):
            kept[stage.id] = replace(stage, needs=tuple(found), applies_to={}, datasets=None)
    return list(kept.values())


def plan_of(stages: Sequence[Sketch], datasets: Sequence[str], data: Path, folder: Path) -> Plan:
    flow = {
        "data": {
            "datasets": [
                {"name": name, "files": [str(data / f"{name}.parquet")], "eventtype": TYPES[name]} for name in datasets
            ]
        },
        "sources": {"events": {"kind": "parquet", "chunk_size": 7}},
        "analysis": {"stages": [stage.written() for stage in stages]},
        "execution": {"pools": {"default": {"workers": 1}, "big": {"workers": 1}}},
    }
    folder.mkdir()
    (folder / "flow.yaml").write_text(json.dumps(flow))
    return cenote.load(folder / "flow.yaml").plan()


def results_of(plan: Plan, folder: Path) -> dict[str, Any]:
    store = Store(folder / "work")
    (folder / "files").mkdir()
    runner = TaskRunner(make_run_spec(plan, store=store.folder, files=folder / "files"))
    envelopes = TaskSpecs(plan)
    for task in sorted(envelopes.demand.made):
        outcome = runner.run(envelopes.write(task, attempt=1))
        assert outcome.failure is None, outcome.failure
    return {product.name: store.read(plan.tasks.key(product.task))[product.name] for product in plan.products}


def outcome(
    stages: Sequence[Sketch], datasets: Sequence[str], data: Path, folder: Path
) -> dict[str, dict[str, Any]] | None:
    """Dataset → what a run gives for it; None where the plan is refused."""
    if not any(stage.applies(dataset) for stage in stages for dataset in datasets):
        return {dataset: {} for dataset in datasets}
    try:
        plan = plan_of(stages, datasets, data, folder)
    except CenoteError:
        return None
    results = results_of(plan, folder)
    return {dataset: seen_of(dataset, results, folder) for dataset in datasets}


def seen_of(dataset: str, results: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What a run says of one dataset: histograms it fills; skims with their columns, in order, and values."""
    seen: dict[str, Any] = {}
    for name, product in results.items():
        if name.endswith(":files"):
            for file in product:
                if file["dataset"] == dataset:
                    table = pq.read_table(folder / "files" / file["path"])
                    seen[file["path"]] = [(column, table[column].to_pylist()) for column in table.column_names]
        elif np.any(entries := product[{"dataset": dataset}].values(flow=True).tolist()):
            seen[name] = entries
    return seen


def bins(source: str) -> dict[str, Any]:
    axis = {"name": "v", "type": "regular", "source": source, "bins": {"nbins": 5, "low": 0, "high": 4}}
    return {"dataset_axis": True, "axes": [axis]}


@st.composite
def stage_graphs(draw: st.DrawFn) -> list[Sketch]:
    """Stages over random datasets; what they read is mostly there."""
    stages: list[Sketch] = []
    after: dict[tuple[str, str], set[str]] = {}
    for number in range(draw(st.integers(2, 6))):
        name = f"S{number}"
        earlier = [stage.id for stage in stages]
        needs = tuple(draw(st.lists(st.sampled_from(earlier), max_size=2, unique=True))) if earlier else ()
        needs = needs or tuple(earlier[-1:] if draw(st.booleans()) else ())
        applies_to, datasets = draw(st.sampled_from(APPLYING))
        here = {d: set().union(*(after[d, need] for need in needs)) if needs else set(COLUMNS[d]) for d in COLUMNS}
        common = sorted(set.intersection(*(here[d] for d in datasets or COLUMNS)))
        names = st.sampled_from(common if common and draw(st.integers(0, 15)) else ["x", "genWeight", "w"])
        op, params, adds, keeps = draw(operations(names))
        for dataset in COLUMNS:
            applied = datasets is None or dataset in datasets
            kept = {n for n in here[dataset] if keeps is None or any(n.startswith(k) for k in keeps)}
            after[dataset, name] = kept | adds if applied else here[dataset]
        stages.append(
            Sketch(
                name,
                op,
                params,
                needs,
                datasets,
                applies_to,
                draw(st.sampled_from([(), (), *(({"kind": "parquet", "path": name, **skim},) for skim in SKIMS)])),
                draw(st.sampled_from(["default", "default", "big"])),
            )
        )
    return stages


SKIMS: list[Mapping[str, Any]] = [{}, {"keep": ["*"]}]
APPLYING: list[tuple[dict[str, Any], frozenset[str] | None]] = [
    ({}, None),
    ({"eventtype": "data"}, frozenset({"run_a", "run_b"})),
    ({"eventtype": "mc"}, frozenset({"zmumu", "ttbar"})),
    ({"datasets": ["zmumu"]}, frozenset({"zmumu"})),
    ({"datasets": ["run_b", "ttbar"]}, frozenset({"run_b", "ttbar"})),
]


@st.composite
def operations(
    draw: st.DrawFn, names: st.SearchStrategy[str]
) -> tuple[str, dict[str, Any], set[str], tuple[str, ...] | None]:
    """(operation, params, columns it adds, beginnings of the only columns that go on)."""
    one, other = draw(names), draw(names)
    match draw(st.sampled_from(["define", "define", "filter", "project", "hep.hist", "hep.hist"])):
        case "define":
            new = draw(st.sampled_from(["w", "v", "x"]))
            return "define", {new: f"{one} * 0.5 + {other}"}, {new}, None
        case "filter":
            return "filter", {"selection": f"{one} + {other} > 0.7"}, set(), None
        case "project":
            return "project", {"keep": [f"{one[0]}*", f"{other[0]}*"]}, set(), (one[0], other[0])
        case _:
            return "hep.hist", bins(f"{one} + {other}"), set(), None


@given(stages=stage_graphs(), datasets=st.permutations(list(COLUMNS)))
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
def test_each_dataset_gets_what_a_workflow_of_its_own_gives(
    data: Path, stages: list[Sketch], datasets: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CENOTE_CACHE", str(data / "cache"))
        apart = {d: outcome(alone(stages, d), [d], data, Path(scratch) / d) for d in datasets}
        together = outcome(stages, datasets, data, Path(scratch) / "together")
    if together is None:
        event("refused")
        assert None in apart.values()
    else:
        event("run")
        assert {d: {d: together[d]} for d in datasets} == apart


def flow_of(*stages: Sketch) -> list[Sketch]:
    """Each stage after the one before."""
    return [replace(stage, needs=(stages[at - 1].id,) if at else ()) for at, stage in enumerate(stages)]


def sketch(name: str, op: str, params: Mapping[str, Any], eventtype: str = "", *, skim: bool = False) -> Sketch:
    return Sketch(
        name,
        op,
        params,
        (),
        frozenset(d for d, kind in TYPES.items() if kind == eventtype) if eventtype else None,
        {"eventtype": eventtype} if eventtype else {},
        ({"kind": "parquet", "path": name},) if skim else (),
    )


@pytest.fixture
def together(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs stages one after the other on all datasets: dataset → what it gets."""
    monkeypatch.setenv("CENOTE_CACHE", str(data / "cache"))
    return lambda *stages: outcome(flow_of(*stages), list(COLUMNS), data, tmp_path / "together")


def test_a_filter_of_the_data_takes_no_columns_from_the_simulation(together: Callable[..., Any]) -> None:
    found = together(
        sketch("Golden", "filter", {"selection": "x > 0.1"}, "data"),
        sketch("Hard", "filter", {"selection": "y > 0.1"}, skim=True),
    )
    columns = {d: [name for name, _ in found[d][f"Hard/{d}/00000.parquet"]] for d in COLUMNS}
    assert columns == {d: sorted(names) for d, names in COLUMNS.items()}


def test_a_column_may_be_defined_by_one_stage_for_data_and_by_another_for_simulation(
    together: Callable[..., Any],
) -> None:
    found = together(
        sketch("WeightData", "define", {"w": "1 + 0 * x"}, "data"),
        sketch("WeightMC", "define", {"w": "genWeight * 0.5"}, "mc"),
        sketch("Weighted", "hep.hist", {**bins("x"), "weight_expr": "w"}),
    )
    assert sum(found["run_a"]["Weighted"]) == EVENTS
    assert 0 < sum(found["zmumu"]["Weighted"]) != EVENTS


def test_a_pattern_keeps_what_it_matches_in_each_dataset(together: Callable[..., Any]) -> None:
    found = together(sketch("Few", "project", {"keep": ["x", "*"]}, skim=True))
    columns = {d: {name for name, _ in found[d][f"Few/{d}/00000.parquet"]} for d in COLUMNS}
    assert columns == {d: set(names) for d, names in COLUMNS.items()}


def test_a_histogram_without_axes_takes_a_column_that_all_datasets_have(together: Callable[..., Any]) -> None:
    found = together(sketch("Any", "hep.hist", {"dataset_axis": True}))
    assert all(sum(found[d]["Any"]) == EVENTS for d in COLUMNS)


def test_variations_of_the_simulation_need_no_weights_of_the_data(together: Callable[..., Any]) -> None:
    variations = {"weights": {"nominal": "genWeight", "up": "genWeight * 2"}, "apply_to": {"eventtype": "mc"}}
    found = together(sketch("Varied", "hep.hist", {**bins("x"), "variations": variations}))
    assert np.sum(found["run_a"]["Varied"], axis=0).tolist() == [EVENTS, 0]
    nominal, up = np.sum(found["ttbar"]["Varied"], axis=0)
    assert up == pytest.approx(2 * nominal)
