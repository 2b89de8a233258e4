"""What a run has to do, where earlier ones have done some of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cenote
from cenote.execution.runtime.demand import Demand, demand_of, everything, running_stages
from cenote.execution.runtime.task_specs import TaskSpecs
from cenote.planning.plan import MERGE, Plan
from cenote.testing.muons import write_muons

FLOW = """
    data:
      datasets:
        - {name: a, files: [a.root]}
        - {name: b, files: [b.root]}
    sources: {events: {kind: root_tree, chunk_size: 100}}
    analysis:
      stages:
        - {id: Score, op: define, params: {score: "MET_pt * 2"}}
        - {id: Early, op: hep.hist, render: [], params: {axes: [MET_pt]}}
        - {id: Cut, op: filter, params: {expr: "MET_pt > 20"}, execution: {require: other}}
        - {id: Late, op: hep.hist, render: [], params: {axes: [score]}, execution: {require: other}}
        - {id: Plain, op: hep.hist, render: [], needs: [Cut], params: {axes: [MET_pt]}, execution: {require: other}}
    execution: {pools: {default: {workers: 1}, other: {workers: 1}}}
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return plan_of(FLOW, tmp_path_factory.mktemp("demand"))


def plan_of(flow: str, folder: Path) -> Plan:
    for name in ("a", "b"):
        write_muons(folder / f"{name}.root", events=300, seed=1)
    (folder / "flow.yaml").write_text(dedent(flow))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("CENOTE_CACHE", str(folder / "cache"))
        return cenote.load("flow.yaml").plan()


def with_there(plan: Plan, there: frozenset[bytes], held: frozenset[bytes] = frozenset()) -> Demand:
    def asked(some: frozenset[bytes]) -> object:
        return lambda _task, ids: [name for name, one in ids.items() if one in some]

    return demand_of(plan, asked(there), asked(held))  # type: ignore[arg-type]


def ids_of(plan: Plan) -> Mapping[int, Mapping[str, bytes]]:
    return {task: plan.ids.of(plan.tasks, task) for task in range(len(plan.tasks))}


def test_a_stage_runs_for_the_results_that_its_events_lead_to(plan: Plan) -> None:
    without_late = frozenset(one for ids in ids_of(plan).values() for name, one in ids.items() if name != "Late")
    running = running_stages(plan, with_there(plan, without_late))
    assert running.wanted["Score"] == {"Late"}
    assert running.makes == {"Late"}
    assert "Plain" not in running.tasks


def test_the_same_events_have_a_name_for_each_stage_that_hands_them_over(tmp_path: Path) -> None:
    unread = "- {id: Unread, op: define, params: {u: score}, execution: {require: third}}"
    flow = FLOW.replace("- {id: Late,", f"{unread}\n        - {{id: Late,")
    plan = plan_of(flow.replace("other: {workers: 1}", "other: {workers: 1}, third: {workers: 1}"), tmp_path)
    leaving = [plan.ids.leaving_of(segment, plan.layout.runs[segment.index][0]) for segment in plan.segments]
    assert len({one for ids in leaving for one in ids.values()}) < sum(map(len, leaving))
    specs = TaskSpecs(plan)
    names = [name for task in specs.demand.made for name in specs.names_of_events(task)]
    assert len(set(names)) == len(names)


def test_what_a_variation_makes_beside_the_nominal_events_is_no_part_of_these(tmp_path: Path) -> None:
    good = "{collection: Muon, output: Good, selection: [pt > 9], keep: [pt]}"
    objects = f"- {{id: Good, op: hep.select_objects, params: {good}}}\n        - {{id: Cut,"
    varied = """
    systematics: {variations: [{name: v, anchor: Good, patch: {selection: [pt > 10]}}]}
    analysis:"""
    flow = (
        FLOW.replace("- {id: Cut,", objects)
        .replace("axes: [score]", "axes: [nGood]")
        .replace("\n    analysis:", varied)
    )
    made = []
    for threshold in ("10", "11"):
        plan = plan_of(flow.replace("pt > 10", f"pt > {threshold}"), tmp_path)
        made.append({name: stage.lineage for name, stage in plan.made_of.items()})
    assert {name for name in made[0] if made[0][name] != made[1][name]} == {"Good@v", "Late"}


def test_everything_is_made_where_nothing_is_there(plan: Plan) -> None:
    demand = everything(plan)
    assert set(demand.made) == set(range(len(plan.tasks)))
    assert not demand.found


def test_nothing_is_made_where_the_published_products_are_there(plan: Plan) -> None:
    there = frozenset(plan.ids.of(plan.tasks, product.task)[product.name] for product in plan.products)
    demand = with_there(plan, there)
    assert not demand.made
    assert {name for names in demand.found.values() for name in names} == {"Early", "Late", "Plain"}


def test_only_what_leads_to_a_missing_product_is_made(plan: Plan) -> None:
    """Early needs neither the cut nor what the other pool does."""
    final = {product.name: plan.ids.of(plan.tasks, product.task)[product.name] for product in plan.products}
    demand = with_there(plan, frozenset(one for name, one in final.items() if name != "Early"))
    assert {name for names in demand.made.values() for name in names} == {"Early"}
    assert not demand.leaving


def test_events_that_are_there_are_not_made_again(plan: Plan) -> None:
    runs = [task for task in range(len(plan.tasks)) if plan.tasks.kind[task] != MERGE]
    events = {
        one for task in runs for one in plan.ids.leaving_of(plan.segments[int(plan.tasks.segment[task])], task).values()
    }
    early = {ids["Early"] for ids in ids_of(plan).values() if "Early" in ids}
    demand = with_there(plan, frozenset(early), frozenset(events))
    assert {name for names in demand.made.values() for name in names} == {"Late", "Plain"}
    assert not demand.leaving
    assert demand.held


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_what_is_made_can_be_made_of_what_is_there(plan: Plan, data: st.DataObject) -> None:
    """Whatever is there: each product that is wanted is there or made, and so is everything that it is made of."""
    everyone = sorted({one for ids in ids_of(plan).values() for one in ids.values()})
    there = data.draw(st.frozensets(st.sampled_from(everyone)))
    demand = with_there(plan, there)
    ids = ids_of(plan)

    def is_had(task: int, name: str) -> bool:
        return name in demand.made.get(task, ()) or name in demand.found.get(task, ())

    assert all(is_had(product.task, product.name) for product in plan.products)
    for task, names in demand.made.items():
        assert not there.intersection(ids[task][name] for name in names)
        if plan.tasks.kind[task] == MERGE:
            parts = [need for need in plan.tasks.needs_of(task) for name in names if name in ids[need]]
            assert parts
            assert all(is_had(need, name) for need in plan.tasks.needs_of(task) for name in names if name in ids[need])
    for task, names in demand.found.items():
        assert there.issuperset(ids[task][name] for name in names)
    late = {task for task, names in demand.made.items() if names & {"Late", "Plain"} and plan.tasks.kind[task] != MERGE}
    handed = {task for task in demand.leaving if task in demand.made}
    positions = {int(plan.tasks.partition[task]) for task in late}
    assert {int(plan.tasks.partition[task]) for task in handed} == positions


PASSED_ON = """
    data: {datasets: [{name: a, files: [a.root]}]}
    analysis:
      stages:
        - {id: One, op: define, params: {one: "MET_pt * 2"}}
        - {id: Two, op: define, params: {two: one * 2}, execution: {require: other}}
        - {id: H, op: hep.hist, render: [], params: {axes: [one]}}
    execution: {pools: {default: {workers: 1}, other: {workers: 1}}}
"""


def test_events_that_are_passed_on_as_they_came_are_those_of_both_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same events, known by the same id: when one task's are no longer needed, the other's stay."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    write_muons(Path("a.root"), events=300, seed=1)
    Path("flow.yaml").write_text(dedent(PASSED_ON))
    plan = cenote.load("flow.yaml").plan()
    specs = TaskSpecs(plan)
    names = [name for task in range(len(plan.tasks)) for name in specs.names_of_events(task)]
    assert len(names) == len(set(names)) == 2
