"""Test that the fold of a journal says what happened, and no more."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from builders.plans import a_plan, a_segment
from cenote.analysis.modifiers.support.measures import MOST_OF_RUN
from cenote.engine.messages import (
    AnyEvent,
    CancelAsked,
    FailureInfo,
    FellBack,
    JobChanged,
    PoolChanged,
    RunFinished,
    RunStarted,
    StageStats,
    TaskDone,
    TaskFailed,
    TaskGivenUp,
    TaskReused,
    TasksAbandoned,
    TasksNotNeeded,
    TaskSplit,
    TaskStarted,
    Warned,
    WorkerJoined,
    WorkerLost,
    WorkerRequested,
)
from cenote.engine.scaling import PoolState
from cenote.execution.runs.summary import iso_time
from cenote.execution.runs.view.view import RunView
from cenote.planning.record import (
    GrantedPool,
    PlannedPool,
    PlannedProduct,
    PlannedSegment,
    PlannedStage,
    PlanRecord,
    TaskBlock,
    as_json,
)

T0 = 1_700_000_000.0


def some_record(**changes: Any) -> PlanRecord:
    """Two fused stages on `default` (tasks 0-3), one on `gpu` that may fall back (4-7), and two merges (8, 9)."""
    values: dict[str, Any] = {
        "stages": (
            PlannedStage("Select", "hep.select", segment=0),
            PlannedStage("MuonPt", "hep.hist", segment=0),
            PlannedStage("Score", "custom.score", segment=1),
        ),
        "segments": (
            PlannedSegment(0, stages=("Select", "MuonPt"), pools=("default",)),
            PlannedSegment(1, stages=("Score",), pools=("gpu", "default")),
        ),
        "task_blocks": (TaskBlock(4, 0, False), TaskBlock(4, 1, False), TaskBlock(1, 0, True), TaskBlock(1, 1, True)),
        "pools": (
            PlannedPool("default", "local", granted=GrantedPool(workers=2)),
            PlannedPool("gpu", "local", granted=GrantedPool(workers=1, slots=2), cost=3.6),
        ),
        "products": (PlannedProduct("MuonPt", "MuonPt", "histogram"),),
        "events": 400,
    }
    return PlanRecord(workflow="flow.yaml", **{**values, **changes})


def begun(at: float = T0) -> RunStarted:
    return RunStarted(at=at, run="r1", tasks=10)


def started(task: int, at: float, pool: str = "default", worker: str = "default-1") -> TaskStarted:
    return TaskStarted(at=at, task=task, pool=pool, worker=worker)


def done(task: int, at: float, pool: str = "default", worker: str = "default-1", **more: Any) -> TaskDone:
    return TaskDone(at=at, task=task, pool=pool, worker=worker, **{"seconds": 1.0, **more})


def failed(task: int, at: float, message: str = "boom", pool: str = "default", **more: Any) -> TaskFailed:
    info = FailureInfo(**{"cause": "error", "message": message, **more})
    return TaskFailed(at=at, task=task, pool=pool, worker=f"{pool}-1", failure=info, seconds=0.5)


def given_up(task: int, at: float, message: str = "boom", pool: str = "default", **more: Any) -> TaskGivenUp:
    info = FailureInfo(**{"cause": "error", "message": message, **more})
    return TaskGivenUp(at=at, task=task, pool=pool, worker=f"{pool}-1", failure=info)


def view_of(*events: AnyEvent, plan: PlanRecord | None = None) -> RunView:
    return RunView.of(plan or some_record(), (begun(), *events))


def test_a_fused_task_counts_for_each_of_its_stages() -> None:
    stats = {
        "Select": StageStats(seconds=0.7, events_in=100, events_out=40),
        "MuonPt": StageStats(seconds=0.3, events_in=40, events_out=40),
    }
    view = view_of(started(0, T0), done(0, T0 + 1, stages=stats, peak_memory=5_000_000, events=100))
    select, muon_pt, score = view.stages
    assert (select.tasks, select.done, select.seconds, select.events_in, select.events_out) == (4, 1, 0.7, 100, 40)
    assert (muon_pt.tasks, muon_pt.done, muon_pt.seconds, muon_pt.events_in) == (4, 1, 0.3, 40)
    assert select.pools == {"default": 1}
    assert select.workers == ("default-1",)
    assert select.peak_memory == muon_pt.peak_memory == 5_000_000
    assert (score.done, score.workers) == (0, ())
    assert view.events_read == 100


def test_merges_are_counted_apart() -> None:
    view = view_of(started(8, T0), done(8, T0 + 1))
    assert (view.merges.total, view.merges.done) == (2, 1)
    assert [stage.done for stage in view.stages] == [0, 0, 0]
    assert view.tasks.total == 10


def test_time_left_follows_the_pace_of_done_tasks() -> None:
    view = view_of(started(0, T0), started(1, T0), done(0, T0 + 2), done(1, T0 + 4))
    assert view.stages[0].time_left == pytest.approx(4.0)
    assert view.stages[2].time_left is None
    assert view.time_left == pytest.approx(4.0)


def test_the_rate_is_events_per_second_of_wall_time() -> None:
    stats = {"Select": StageStats(seconds=1, events_in=100, events_out=100)}
    view = view_of(started(0, T0), started(1, T0), done(0, T0 + 2, stages=stats), done(1, T0 + 2, stages=stats))
    assert view.stages[0].rate == pytest.approx(100.0)


def test_the_rate_of_a_stage_stays_once_it_is_through() -> None:
    stats = {"Select": StageStats(seconds=1, events_in=100, events_out=100)}
    view = view_of(*(done(task, T0 + 1, stages=stats) for task in range(4)), Warned(at=T0 + 99, message="later"))
    assert view.stages[0].rate == pytest.approx(400.0)


def test_reused_tasks_are_done_but_do_not_make_the_pace() -> None:
    view = view_of(TaskReused(at=T0, task=0), TaskReused(at=T0, task=1), started(2, T0 + 1), done(2, T0 + 3))
    select = view.stages[0]
    assert (select.done, select.reused) == (3, 2)
    assert select.pools == {"default": 1}
    assert select.time_left == pytest.approx(2.0)


def test_tasks_that_are_not_needed_count_as_reused_and_abandoned_ones_as_not_run() -> None:
    view = view_of(
        TaskReused(at=T0, task=8),
        TasksNotNeeded(at=T0, tasks=((0, 3),)),
        given_up(4, T0 + 1),
        TasksAbandoned(at=T0 + 1, tasks=((9, 9),), reason="task 4 failed", failed=4),
        RunFinished(at=T0 + 2, status="failed", seconds=2.0),
    )
    tasks = view.summary().tasks
    assert (tasks.total, tasks.done, tasks.reused, tasks.not_needed) == (10, 5, 5, 4)
    assert (tasks.failed, tasks.not_run, tasks.abandoned, tasks.waiting) == (1, 4, 1, 0)


def test_a_failed_attempt_is_no_failure_while_the_task_is_tried_again() -> None:
    view = view_of(started(0, T0), failed(0, T0 + 1))
    assert (view.stages[0].failed, view.failures, view.tasks.waiting) == (0, (), 10)
    for event in (started(0, T0 + 2), done(0, T0 + 3)):
        view.apply(event)
    assert (view.stages[0].failed, view.failures, view.retries) == (0, (), 1)
    assert view.stages[0].done == 1


def test_a_task_that_was_stopped_on_purpose_did_not_fail() -> None:
    view = view_of(started(0, T0), failed(0, T0 + 1, cause="stopped"))
    assert (view.tasks.failed, view.tasks.waiting, view.failures, view.retries) == (0, 10, (), 0)
    assert view.pools[0].slot_seconds_busy == 0.5


def test_a_task_that_was_given_up_stays_failed() -> None:
    view = view_of(started(0, T0), failed(0, T0 + 1), given_up(0, T0 + 1), failed(0, T0 + 1))
    assert (view.tasks.failed, view.stages[0].failed, len(view.failures)) == (1, 1, 1)


def test_a_failure_names_stage_file_and_attempts() -> None:
    view = view_of(
        started(4, T0, pool="gpu"),
        failed(4, T0 + 1, pool="gpu"),
        started(4, T0 + 2, pool="gpu"),
        failed(4, T0 + 3, "bad", pool="gpu"),
        given_up(4, T0 + 3, "bad", pool="gpu", file="a.root", dataset="data", entries=(0, 10), traceback="tb"),
    )
    (failure,) = view.summary().failures
    assert failure.stage == "Score"
    assert failure.attempts == 2
    assert failure.kind == "stage-failed"
    assert (failure.file, failure.entries, failure.message) == ("a.root", (0, 10), "bad")


def test_a_move_to_another_pool_is_recorded_with_its_reason() -> None:
    reason = "pool 'gpu' had no worker for 10m"
    move = FellBack(
        at=T0 + 2, stage="Score", task=None, tasks=6, from_pool="gpu", to_pool="default", reason=reason, waited=600.0
    )
    (fallback,) = as_json(view_of(move).summary())["fallbacks"]
    assert fallback == {
        "stage": "Score",
        "task": None,
        "tasks": 6,
        "from": "gpu",
        "to": "default",
        "reason": reason,
        "waited": 600.0,
        "alternatives": [],
        "at": "2023-11-14T22:13:22.000Z",
    }


def test_a_partition_that_was_taken_in_pieces_is_noted_with_the_last_number() -> None:
    view = view_of(*(TaskSplit(at=T0 + pieces, task=4, pieces=pieces, reason="out of memory") for pieces in (2, 4)))
    (split,) = view.summary().splits
    assert (split.stage, split.task, split.pieces) == ("Score", 4, 4)


def test_a_pool_keeps_its_states_with_times_and_reasons() -> None:
    view = view_of(
        PoolChanged(at=T0, pool="gpu", state=PoolState.SUBMITTED, reason="waits for 2 workers"),
        PoolChanged(at=T0 + 5, pool="gpu", state=PoolState.FULLY_EXECUTING, reason="2 of 2 workers joined"),
    )
    gpu = view.summary().pools[1]
    assert gpu.state == "FullyExecuting"
    assert [(change.state, change.reason) for change in gpu.states] == [
        ("Submitted", "waits for 2 workers"),
        ("FullyExecuting", "2 of 2 workers joined"),
    ]


def test_workers_are_counted_from_the_request_to_their_end() -> None:
    view = view_of(
        *(WorkerRequested(at=T0, pool="gpu", worker=f"gpu-{number}") for number in range(4)),
        JobChanged(at=T0, pool="gpu", worker="gpu-3", job="7", state="pending", reason="Priority"),
        *(WorkerJoined(at=T0, worker=f"gpu-{number}", pool="gpu", slots=2) for number in range(2)),
        WorkerLost(at=T0 + 1, worker="gpu-2", pool="gpu", reason="bad partition", cause="refused"),
        WorkerLost(at=T0 + 2, worker="gpu-0", pool="gpu", reason="killed", cause="died"),
        WorkerLost(at=T0 + 3, worker="gpu-1", pool="gpu", reason="idle", cause="retired"),
    )
    gpu = view.pools[1]
    assert (gpu.workers_requested, gpu.workers_started, gpu.workers_lost, gpu.workers_refused) == (4, 2, 1, 1)
    assert (gpu.workers, gpu.awaited, gpu.last_word, gpu.empty_since) == (0, 1, "Priority", iso_time(T0 + 3))


def test_the_largest_task_of_a_pool_is_kept() -> None:
    large = TaskDone(at=T0 + 1, task=4, pool="gpu", worker="gpu-1", seconds=1.0, peak_memory=5_000_000)
    assert view_of(large, done(5, T0 + 2, pool="gpu")).summary().pools[1].peak_memory == 5_000_000


def test_slots_are_busy_or_idle_and_workers_cost_what_they_live() -> None:
    view = view_of(
        WorkerJoined(at=T0, worker="gpu-1", pool="gpu", slots=2),
        started(4, T0 + 2, pool="gpu"),
        done(4, T0 + 5, pool="gpu", seconds=3.0),
        WorkerLost(at=T0 + 10, worker="gpu-1", pool="gpu", reason="preempted"),
        Warned(at=T0 + 20, message="later"),
    )
    gpu = view.pools[1]
    assert (gpu.workers_started, gpu.workers_lost, gpu.workers) == (1, 1, 0)
    assert gpu.slot_seconds_busy == pytest.approx(3.0)
    assert gpu.slot_seconds_idle == pytest.approx(17.0)
    assert gpu.cost == pytest.approx(0.01)
    assert view.pools[0].cost is None


def test_a_pool_says_in_words_what_it_is_doing() -> None:
    view = RunView(some_record())
    words = [view.pools[1].state]
    for event in (
        begun(),
        WorkerJoined(at=T0, worker="gpu-1", pool="gpu", slots=2),
        started(4, T0, pool="gpu"),
        done(4, T0 + 1, pool="gpu"),
        WorkerLost(at=T0 + 2, worker="gpu-1", pool="gpu", reason="preempted"),
        RunFinished(at=T0 + 3, status="failed", seconds=3.0),
    ):
        view.apply(event)
        words.append(view.pools[1].state)
    assert words == ["waiting", "no worker yet", "idle", "working", "idle", "workers lost", "done"]


def test_repeated_and_late_events_change_nothing() -> None:
    once = view_of(started(0, T0), done(0, T0 + 1), started(1, T0 + 1))
    again = view_of(started(0, T0), done(0, T0 + 1), done(0, T0 + 1), failed(0, T0 + 1), started(0, T0 + 1))
    again.apply(started(1, T0 + 1))
    again.apply(started(1, T0 + 1))
    assert once.summary() == again.summary()


def test_a_second_attempt_forgets_the_first() -> None:
    view = view_of(started(0, T0), failed(0, T0 + 1), given_up(0, T0 + 1), Warned(at=T0, message="old"))
    view.apply(RunStarted(at=T0 + 60, run="r1", tasks=10, resumed=True))
    assert (view.failures, view.warnings, view.seconds, view.resumed) == ((), (), 0.0, True)


def test_tasks_of_another_plan_are_passed_over() -> None:
    assert view_of(started(99, T0), done(99, T0 + 1), failed(99, T0 + 2), given_up(99, T0 + 2)).tasks.done == 0


def test_the_end_leaves_nothing_running() -> None:
    view = view_of(started(0, T0), CancelAsked(at=T0 + 1))
    assert view.status == "cancelling"
    view.apply(RunFinished(at=T0 + 2, status="cancelled", seconds=2.0))
    assert (view.status, view.tasks.running, view.tasks.waiting, view.time_left) == ("cancelled", 0, 0, 0.0)
    assert view.summary().tasks.not_run == 10
    assert view.seconds == 2.0


def test_warnings_of_the_plan_and_of_the_run_are_each_said_once() -> None:
    warned = [Warned(at=T0, message="no GPU here"), Warned(at=T0, message="slow disk")]
    assert view_of(*warned, plan=some_record(warnings=("no GPU here",))).warnings == ("no GPU here", "slow disk")


def test_a_run_keeps_so_many_warnings_of_its_tasks_and_counts_the_others() -> None:
    said = tuple(f"{number}" for number in range(MOST_OF_RUN + 5))
    change = msgspec.structs.replace
    first, second = change(done(0, T0), warnings=said), change(done(1, T0), warnings=said[:3], more_warnings=2)
    ended = RunFinished(at=T0 + 1, status="succeeded", seconds=1.0)
    found = view_of(started(0, T0), first, started(1, T0), second, ended).warnings
    assert found == (*said[:MOST_OF_RUN], "modifiers warned 7 more times, which is not kept")


def test_the_summary_has_the_promised_keys_and_is_json() -> None:
    summary = as_json(view_of(started(0, T0), done(0, T0 + 1)).summary())
    assert {"status", "seconds", "stages", "pools", "fallbacks", "failures", "warnings"} <= summary.keys()
    assert {"id", "op", "pools", "workers", "tasks", "done", "failed", "seconds", "peak_memory"} <= summary["stages"][
        0
    ].keys()
    assert {
        "name",
        "state",
        "workers_started",
        "workers_lost",
        "slot_seconds_busy",
        "slot_seconds_idle",
        "cost",
    } <= summary["pools"][0].keys()
    (product,) = summary["products"]
    assert {"name": "MuonPt", "stage": "MuonPt", "kind": "histogram"}.items() <= product.items()


def test_a_view_of_nothing_is_waiting() -> None:
    view = RunView(some_record())
    assert (view.status, view.seconds, view.time_left, view.finished) == ("waiting", 0.0, None, False)
    assert view.summary().started is None


def test_a_plan_is_the_same_from_its_json() -> None:
    plan = a_plan(segments=[a_segment("Index", pools=["big"]), a_segment("Hist", needs=["Index"], product=True)])
    record = PlanRecord.of(plan)
    assert msgspec.json.decode(msgspec.json.encode(record), type=PlanRecord) == record
    assert sum(block.count for block in record.task_blocks) == record.tasks == len(plan.tasks)


def test_tasks_that_are_not_needed_count_as_reused() -> None:
    view = view_of(TaskReused(at=T0, task=2), TasksNotNeeded(at=T0, tasks=((0, 2),)))
    assert (view.tasks.reused, view.tasks.done, view.tasks.waiting) == (3, 3, view.tasks.total - 3)


def test_abandoned_tasks_wait_no_more_and_keep_their_reason() -> None:
    view = view_of(done(0, T0 + 1), TasksAbandoned(at=T0 + 2, tasks=((0, 1),), reason="task 9 failed", failed=9))
    assert (view.tasks.done, view.tasks.not_run) == (1, 1)
    assert view.abandoned(0) == {"task 9 failed": 1}
