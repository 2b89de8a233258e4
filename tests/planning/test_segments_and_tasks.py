"""Neighbours on one pool fuse; only what is read later is read, kept and sent on; tasks come in a fixed order."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from builders.plans import tasks_in
from cenote.analysis.operations.support.events import DatasetInfo
from cenote.common.machine import Machine
from cenote.language.execution import Amounts
from cenote.language.read import read_workflow
from cenote.language.workflow import Workflow
from cenote.planning.identity import lineages
from cenote.planning.placement.place import place
from cenote.planning.plan import Partition, Segment, TaskTable
from cenote.planning.stages.columns import column_flow
from cenote.planning.stages.resolve import Resolved, flavours_of, resolve_stages
from cenote.planning.tasks.segments import make_segments
from cenote.planning.tasks.tasks import FAN_IN, lay_out

COLUMNS = ("nMuon", "Muon_pt", "Muon_eta", "MET_pt", "HLT", "EventWeight")
DATA = """
data: {datasets: [{name: data, files: [d.root], eventtype: data}, {name: mc, files: [m.root], eventtype: mc}]}
"""


@pytest.fixture
def read(tmp_path: Path):  # type: ignore[no-untyped-def]  # a function that the tests call
    (tmp_path / "ops.py").write_text(
        textwrap.dedent(
            """
            from cenote import operation

            @operation("custom.train", reads=["score"], scope="run", product="model", merge=lambda parts: parts[0])
            def train(events):
                return float(events["score"].sum())

            @operation("custom.score", reads=["MET_pt"], adds=["score"])
            def score(events):
                return {"score": events["MET_pt"]}
            """
        )
    )

    def read_text(text: str, data: str = DATA) -> Workflow:
        path = tmp_path / "flow.yaml"
        path.write_text("plugins: [ops.py]\n" + data + textwrap.dedent(text))
        checked = read_workflow(path)
        assert checked.workflow is not None, checked.problems
        assert not checked.problems
        return checked.workflow

    return read_text


def resolved_with(workflow: Workflow, columns: Mapping[str, Sequence[str]] | None = None) -> Resolved:
    there = columns or {dataset.name: COLUMNS for dataset in workflow.datasets}
    return resolve_stages(workflow, flavours_of(workflow, {(name, "events"): found for name, found in there.items()}))


def segments_of(workflow: Workflow, columns: Mapping[str, Sequence[str]] | None = None) -> list[Segment]:
    resolved = resolved_with(workflow, columns)
    assert not resolved.problems, resolved.problems
    placement = place(workflow, Machine(cpus=8, memory=2**35), on_this_machine=True)
    return make_segments(workflow, resolved, column_flow(workflow, resolved), placement)


def tasks_of(workflow: Workflow, partitions: Mapping[str, int]) -> tuple[list[Segment], TaskTable, dict[str, int]]:
    resolved = resolved_with(workflow)
    flow = column_flow(workflow, resolved)
    placement = place(workflow, Machine(cpus=8, memory=2**35), on_this_machine=True)
    segments = make_segments(workflow, resolved, flow, placement)
    parts = [
        Partition(name, "events", f"{name}.root", 100 * number, 100 * number + 100)
        for name, count in partitions.items()
        for number in range(count)
    ]
    infos = [DatasetInfo(dataset.name, eventtype=dataset.eventtype) for dataset in workflow.datasets]
    lineage, _ = lineages(workflow, segments, resolved, flow, infos)
    table, _, _, results = lay_out(segments, parts, infos, resolved, flow, lineage)
    return segments, table, results


HIST = "{axes: [{name: x, type: regular, source: %s, bins: {nbins: 2, low: 0, high: 1}}]}"
THREE_POOLS = f"""
analysis:
  stages:
    - {{id: Select, op: filter, params: {{expr: "HLT"}}}}
    - {{id: Index, op: define, params: {{lead: "max(Muon_pt)"}}, execution: {{require: big}}}}
    - {{id: Score, op: custom.score, execution: {{require: gpu}}}}
    - {{id: H, op: hep.hist, params: {HIST % "lead * score"}}}
execution: {{pools: {{default: {{workers: 4}}, big: {{workers: 2}}, gpu: {{workers: 1}}}}}}
"""


def test_stages_on_one_pool_fuse_into_one_segment(read) -> None:  # type: ignore[no-untyped-def]
    (segment,) = segments_of(
        read(
            f"""
            analysis:
              stages:
                - {{id: A, op: filter, params: {{expr: "HLT"}}}}
                - {{id: B, op: define, params: {{x: "MET_pt * 2"}}}}
                - {{id: C, op: hep.hist, params: {HIST % "x"}}}
                - {{id: D, op: hep.hist, needs: [A], params: {HIST % "MET_pt"}}}
            """
        )
    )
    assert segment.stages == ("A", "B", "C", "D")
    assert segment.source is not None
    assert segment.source.columns["data"] == ("HLT", "MET_pt")


def test_a_segment_asks_for_the_most_of_each_amount_and_fits_where_unstated_cpus_count_as_one(read) -> None:  # type: ignore[no-untyped-def]
    (segment,) = segments_of(
        read(
            """
            analysis:
              stages:
                - {id: A, op: filter, params: {expr: "HLT"}, execution: {resources: {memory: 2GB}}}
                - {id: B, op: filter, params: {expr: "MET_pt > 1"}, execution: {resources: {cpus: 0.5, memory: 1GB}}}
            """
        )
    )
    assert segment.amounts == Amounts(cpus=0.5, memory=2 * 10**9)
    assert segment.room == Amounts(cpus=1, memory=2 * 10**9)


def test_each_change_of_pool_starts_a_segment_and_only_needed_columns_cross(read) -> None:  # type: ignore[no-untyped-def]
    segments = segments_of(read(THREE_POOLS))
    assert [(segment.stages, segment.pools) for segment in segments] == [
        (("Select",), ("default",)),
        (("Index",), ("big",)),
        (("Score",), ("gpu",)),
        (("H",), ("default",)),
    ]
    assert [dict(segment.exports) for segment in segments] == [
        {"Select": ("MET_pt", "Muon_pt")},
        {"Index": ("MET_pt", "lead")},
        {"Score": ("lead", "score")},
        {},
    ]
    assert [segment.source is not None for segment in segments] == [True, False, False, False]


def test_a_column_is_dropped_as_soon_as_nobody_reads_it_any_more(read) -> None:  # type: ignore[no-untyped-def]
    segments = segments_of(read(THREE_POOLS))
    live = {step.stage: step.live for segment in segments for step in segment.steps}
    assert live == {
        "Select": ("MET_pt", "Muon_pt"),
        "Index": ("MET_pt", "lead"),
        "Score": ("lead", "score"),
        "H": (),
    }


def test_independent_branches_do_not_wait_for_each_others_pools(read) -> None:  # type: ignore[no-untyped-def]
    segments = segments_of(
        read(
            f"""
            analysis:
              stages:
                - {{id: A, op: define, params: {{a: "MET_pt"}}, execution: {{require: big}}}}
                - {{id: B, op: define, needs: [], params: {{b: "MET_pt"}}, execution: {{require: gpu}}}}
                - {{id: HA, op: hep.hist, needs: [A], params: {HIST % "a"}}}
                - {{id: HB, op: hep.hist, needs: [B], params: {HIST % "b"}}}
            execution: {{pools: {{default: {{workers: 1}}, big: {{workers: 1}}, gpu: {{workers: 1}}}}}}
            """
        )
    )
    assert sorted(segment.stages for segment in segments) == [("A",), ("B",), ("HA",), ("HB",)]


def test_a_join_of_two_branches_gets_the_columns_of_both(read) -> None:  # type: ignore[no-untyped-def]
    (segment,) = segments_of(
        read(
            f"""
            analysis:
              stages:
                - {{id: A, op: define, needs: [], params: {{a: "MET_pt"}}}}
                - {{id: B, op: define, needs: [], params: {{b: "MET_pt"}}}}
                - {{id: J, op: hep.hist, needs: [A, B], params: {HIST % "a + b"}}}
            """
        )
    )
    assert segment.steps[-1].inputs == ("A", "B")


def test_branches_that_define_one_column_differently_cannot_join(read) -> None:  # type: ignore[no-untyped-def]
    workflow = read(
        f"""
        analysis:
          stages:
            - {{id: A, op: define, needs: [], params: {{x: "MET_pt"}}}}
            - {{id: B, op: define, needs: [], params: {{x: "MET_pt * 2"}}}}
            - {{id: J, op: hep.hist, needs: [A, B], params: {HIST % "x"}}}
        """
    )
    (problem,) = column_flow(workflow, resolved_with(workflow)).problems[:1]
    assert problem.kind.name == "column-clash"
    assert "'x'" in problem.message


def test_a_stage_for_mc_only_reads_its_columns_from_mc_only(read) -> None:  # type: ignore[no-untyped-def]
    workflow = read(
        f"""
        analysis:
          stages:
            - {{id: W, op: define, params: {{w: "genWeight * 2"}}, applies_to: {{eventtype: mc}}}}
            - {{id: H, op: hep.hist, params: {HIST % "MET_pt"}}}
        """
    )
    (segment,) = segments_of(workflow, {"data": ["MET_pt"], "mc": ["MET_pt", "genWeight"]})
    assert segment.source is not None
    assert segment.source.columns == {"data": ("MET_pt",), "mc": ("MET_pt", "genWeight")}


def test_a_column_that_one_dataset_lacks_is_explained(read) -> None:  # type: ignore[no-untyped-def]
    workflow = read(f"analysis: {{stages: [{{id: H, op: hep.hist, params: {HIST % 'genWeight'}}}]}}")
    (problem,) = resolved_with(workflow, {"data": ["MET_pt"], "mc": ["MET_pt", "genWeight"]}).problems
    assert problem.kind.name == "unknown-column"
    assert "dataset 'data'" in problem.message
    assert problem.hint is not None
    assert "applies_to" in problem.hint


def test_an_unknown_column_is_placed_in_the_expression_with_the_nearest_name(read) -> None:  # type: ignore[no-untyped-def]
    workflow = read(
        """
        analysis:
          stages:
            - id: Cut
              op: filter
              params:
                expr: "MET_pp > 20"
        """
    )
    (problem, *_) = resolved_with(workflow).problems
    assert problem.hint == "did you mean 'MET_pt'?"
    assert problem.place is not None
    assert problem.place.line == 10


def test_events_pass_by_a_segment_that_does_not_apply(read) -> None:  # type: ignore[no-untyped-def]
    workflow = read(
        f"""
        analysis:
          stages:
            - {{id: W, op: custom.score, applies_to: {{eventtype: mc}}, execution: {{require: gpu}}}}
            - {{id: H, op: hep.hist, params: {HIST % "MET_pt"}}}
        execution: {{pools: {{default: {{workers: 1}}, gpu: {{workers: 1}}}}}}
        """
    )
    segments, table, _ = tasks_of(workflow, {"data": 2, "mc": 3})
    assert [segment.stages for segment in segments] == [("W",), ("H",)]
    assert segments[1].source is not None
    assert segments[1].source.columns == {"data": ("MET_pt",)}
    runs = [task for task in tasks_in(table) if task.kind == "run"]
    assert [(task.segment, task.partition, len(task.needs)) for task in runs] == [
        *((0, partition, 0) for partition in (2, 3, 4)),
        *((1, partition, 0) for partition in (0, 1)),
        *((1, partition, 1) for partition in (2, 3, 4)),
    ]


def test_a_run_scope_stage_needs_all_partitions_and_what_follows_it_waits(read) -> None:  # type: ignore[no-untyped-def]
    workflow = read(
        f"""
        analysis:
          stages:
            - {{id: Score, op: custom.score}}
            - {{id: Train, op: custom.train}}
            - {{id: H, op: hep.hist, params: {HIST % "score"}}}
        """
    )
    segments, table, results = tasks_of(workflow, {"data": 2, "mc": 1})
    assert [(segment.stages, segment.scope) for segment in segments] == [
        (("Score",), "partition"),
        (("Train",), "run"),
        (("H",), "partition"),
    ]
    train = next(task for task in tasks_in(table) if task.segment == 1)
    assert train.needs == (0, 1, 2)
    after = [task for task in tasks_in(table) if task.segment == 2 and task.kind == "run"]
    assert [task.needs for task in after] == [(number, train.number) for number in (0, 1, 2)]
    assert results["Train"] == train.number


def test_merges_form_a_tree_of_fixed_shape(read) -> None:  # type: ignore[no-untyped-def]
    workflow = read(f"analysis: {{stages: [{{id: H, op: hep.hist, params: {HIST % 'MET_pt'}}}]}}")
    parts = FAN_IN * 2 + 1
    _, table, results = tasks_of(workflow, {"data": parts, "mc": 0})
    merges = [task for task in tasks_in(table) if task.kind == "merge"]
    assert [task.needs for task in merges] == [
        tuple(range(FAN_IN)),
        tuple(range(FAN_IN, 2 * FAN_IN)),
        (2 * FAN_IN,),
        (parts, parts + 1, parts + 2),
    ]
    assert results["H"] == merges[-1].number
    assert table.users_of(0) == [parts]


def test_keys_change_with_what_decides_the_result_and_with_nothing_else(read) -> None:  # type: ignore[no-untyped-def]
    text = f"analysis: {{stages: [{{id: H, op: hep.hist, params: {HIST % 'MET_pt'}}}]}}\n"
    pools = "execution: {pools: {default: {workers: 7}}}"

    def key(written: str) -> str:
        return tasks_of(read(written), {"data": 1, "mc": 0})[1].key(0)

    assert key(text) == key(text)
    assert key(text) == key(text + pools)
    assert key(text) != key(text.replace("MET_pt", "EventWeight"))


def test_skims_without_keep_read_every_column(read) -> None:  # type: ignore[no-untyped-def]
    (segment,) = segments_of(
        read(
            """
            analysis:
              stages:
                - {id: A, op: filter, params: {expr: "HLT"}, write: {kind: root_tree, path: skim.root}}
            """
        )
    )
    assert segment.source is not None
    assert set(segment.source.columns["data"]) == set(COLUMNS)
    assert segment.products == {"A:files": "files"}
