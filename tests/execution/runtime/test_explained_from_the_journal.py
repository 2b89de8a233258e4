"""Test that the journal alone says why a run, or a stage of it, is where it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from cenote.common.errors import CenoteError
from cenote.engine.messages import (
    AnyEvent,
    FailureInfo,
    FellBack,
    JobChanged,
    PoolChanged,
    PoolHeld,
    RunFinished,
    RunStarted,
    TaskDone,
    TaskGivenUp,
    TasksAbandoned,
    TaskStarted,
    Tick,
    WorkerJoined,
    WorkerLost,
    WorkerRequested,
)
from cenote.engine.scaling import PoolState
from cenote.execution.runs.explain import explain_run, explain_stage, waiting_in_words
from cenote.execution.runs.view.view import RunView
from cenote.language.execution import FallbackWhen
from cenote.planning.probes.result import Finding, Probed
from cenote.planning.record import GrantedPool, PlannedPool, PlannedSegment, PlannedStage, PlanRecord, TaskBlock

TWO = GrantedPool(workers=2)
GPU = PlannedPool("gpu", "slurm", granted=TWO, queue_timeout=7200)
CALM = PlannedPool("gpu", "slurm", granted=TWO)
BEGUN = RunStarted(at=0.0, run="r", tasks=4)
WAITS = PoolChanged(at=0.0, pool="gpu", state=PoolState.SUBMITTED, reason="waits for 2 workers")


def why(
    plan: PlanRecord,
    events: Iterable[AnyEvent],
    stage: str | None = None,
    probes: Mapping[str, Probed] | None = None,
) -> str:
    """Why the run, or one stage of it, is where it is after these events."""
    view = RunView.of(plan, events, probes)
    return explain_run(view) if stage is None else explain_stage(view, stage)


def some_record(gpu: PlannedPool = GPU, pools: tuple[str, ...] = ("gpu",)) -> PlanRecord:
    """Index on `default` (tasks 0, 1), then Infer on `gpu` (tasks 2, 3)."""
    return PlanRecord(
        workflow="flow.yaml",
        stages=(PlannedStage("Index", segment=0), PlannedStage("Infer", segment=1)),
        segments=(
            PlannedSegment(0, stages=("Index",), pools=("default",)),
            PlannedSegment(1, stages=("Infer",), pools=pools, imports=("Index",)),
        ),
        task_blocks=(TaskBlock(2, 0, False), TaskBlock(2, 1, False)),
        pools=(PlannedPool("default", "local", granted=GrantedPool(workers=1)), gpu),
    )


def done(task: int, at: float) -> TaskDone:
    return TaskDone(at=at, task=task, pool="default", worker="default-1", seconds=1.0)


def requested(*, reason: str = "Priority") -> list[AnyEvent]:
    asked: list[AnyEvent] = [WorkerRequested(at=0.0, pool="gpu", worker=f"gpu-{n}", job=str(n)) for n in (1, 2)]
    return [*asked, JobChanged(at=1.0, pool="gpu", worker="gpu-2", job="2", state="pending", reason=reason)]


def test_a_waiting_stage_names_data_pool_workers_reason_and_timer() -> None:
    told = why(some_record(), [BEGUN, WAITS, *requested(), done(0, 5.0), Tick(at=600.0)], "Infer")

    assert told == (
        "Stage 'Infer': 0 of 2 tasks done, 2 waiting. "
        "Its events come from 'Index', which has 1 of 2 tasks done. "
        "Pool 'gpu' has 0 of 2 workers, 2 requested and not joined yet (Priority). "
        "For 10m its state has been Submitted (no worker has a machine yet): waits for 2 workers. "
        "Tasks that wait fail in 1h 50m (queue_timeout: 2h)."
    )


def test_a_pool_whose_tasks_are_held_says_why_until_they_are_not() -> None:
    held = PoolHeld(at=5.0, pool="default", reason="the credential 'x509' ended 03:10")
    assert "the credential 'x509' ended 03:10" in why(some_record(), [BEGUN, held])
    assert "x509" not in why(some_record(), [BEGUN, held, PoolHeld(at=6.0, pool="default")])


def test_a_stage_that_waits_for_a_pool_tells_what_its_last_probe_found() -> None:
    far = Finding("network", "problem", "does not reach the driver at 10.0.0.5:8786: Connection refused")
    events: list[AnyEvent] = [BEGUN, WAITS, *requested(), done(0, 5.0), Tick(at=7500.0)]

    def told(*findings: Finding) -> str:
        return why(some_record(CALM), events, "Infer", {"gpu": Probed(300.0, "flow.yaml", "node07", findings)})

    assert (
        "The last probe of 'gpu', 2h ago on node07: "
        "network: does not reach the driver at 10.0.0.5:8786: Connection refused."
    ) in told(far)
    assert "The last probe of 'gpu', 2h ago on node07: no problems." in told()
    there = WorkerJoined(at=7500.0, worker="gpu-1", pool="gpu", slots=1)
    probes = {"gpu": Probed(300.0, "flow.yaml", "node07", (far,))}
    assert "probe" not in why(some_record(CALM), [*events, there], "Infer", probes), (
        "a pool with workers speaks for itself"
    )


def test_a_stage_with_a_fallback_says_when_it_moves() -> None:
    patient = PlannedPool("gpu", "slurm", granted=TWO, fallback_when=FallbackWhen(no_worker_for=900))
    events: list[AnyEvent] = [BEGUN, WAITS, Tick(at=600.0)]

    assert "move to 'default' in 5m (no_worker_for: 15m)." in why(
        some_record(patient, ("gpu", "default")), events, "Infer"
    )
    assert "move to 'default' now (limits.no_worker_for: 1m)" in why(
        some_record(CALM, ("gpu", "default")), events, "Infer"
    )
    assert "Tasks wait indefinitely" in why(some_record(CALM), events, "Infer")


def test_a_stage_that_moved_says_why_and_how_its_new_pool_is() -> None:
    move = FellBack(
        at=60.0, stage="Infer", task=None, tasks=2, from_pool="gpu", to_pool="default", reason="no worker for 1m"
    )
    there = WorkerJoined(at=1.0, worker="default-1", pool="default", slots=1)

    told = why(some_record(pools=("gpu", "default")), [BEGUN, WAITS, there, move], "Infer")

    assert "2 tasks moved from 'gpu' to 'default': no worker for 1m." in told
    assert "Pool 'default' has 1 of 1 workers, 0 of 1 slots busy." in told


def test_a_run_tells_of_every_stage_that_is_not_done() -> None:
    told = why(some_record(), [BEGUN, WAITS, done(0, 1.0), done(1, 2.0), Tick(at=9.0)])

    assert told.startswith("The run is in progress: 2 of 4 tasks done.\n\nStage 'Infer': 0 of 2 tasks done")
    assert "'Index'" not in told


def test_a_run_that_failed_says_what_with() -> None:
    failure = FailureInfo(cause="lost", message="no worker to run it", stage="Infer")
    ended: list[AnyEvent] = [
        TaskGivenUp(at=9.0, task=2, pool="gpu", worker="", failure=failure),
        RunFinished(at=9.0, status="failed", seconds=9.0),
    ]

    told = why(some_record(), [BEGUN, WAITS, *ended])

    assert "The run failed: 0 of 4 tasks done, 1 failed." in told
    assert "Task 2 failed in 'gpu': no worker to run it." in told
    assert "given up in" not in told, "no timer runs any more"


def test_a_run_that_was_cut_off_is_not_said_to_go_on() -> None:
    events: list[AnyEvent] = [BEGUN, WAITS, *requested(), done(0, 5.0)]
    started = TaskStarted(at=5.0, task=1, pool="default", worker="default-1")
    told = explain_run(RunView.of(some_record(), [*events, started]), status="interrupted")

    assert told == (
        "The run was interrupted and has no driver, continue with `cenote run`: 1 of 4 tasks done."
        "\n\nStage 'Index': 1 of 2 tasks done, 1 waiting."
        "\n\nStage 'Infer': 0 of 2 tasks done, 2 waiting. "
        "Its events come from 'Index', which has 1 of 2 tasks done."
    )


def test_a_run_tells_which_pools_lost_workers_and_why_also_when_others_came() -> None:
    joined = [WorkerJoined(at=2.0, pool="gpu", worker=f"gpu-{n}", slots=1) for n in (1, 2, 3)]
    lost = WorkerLost(at=3.0, pool="gpu", worker="gpu-1", reason="Slurm says CANCELLED", cause="died")
    ended = RunFinished(at=9.0, status="succeeded", seconds=9.0)
    told = why(some_record(), [BEGUN, *joined[:2], lost, joined[2], ended])

    assert told.startswith(
        "The run succeeded: 0 of 4 tasks done.\n\nPool 'gpu' lost 1 worker; the last: Slurm says CANCELLED."
    )


def test_a_stage_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(CenoteError, match="did you mean 'Infer'"):
        why(some_record(), [BEGUN], "Infre")


def test_the_progress_view_says_why_a_stage_waits_once_it_has_waited_for_a_moment() -> None:
    view = RunView.of(some_record(), [BEGUN, WAITS, *requested(), done(0, 3.0)])
    assert waiting_in_words(view) == []

    view.apply(Tick(at=30.0))

    assert waiting_in_words(view)[-1] == (
        "Infer waits for pool 'gpu': 0 of 2 workers, 2 requested and not joined yet (Priority), for 30s"
    )


def test_the_progress_view_does_not_blame_the_pool_while_the_data_is_not_there() -> None:
    view = RunView.of(some_record(), [BEGUN, WAITS, Tick(at=30.0)])

    assert not [line for line in waiting_in_words(view) if line.startswith("Infer")]


def test_a_stage_that_runs_says_how_many_slots_are_busy() -> None:
    there = WorkerJoined(at=1.0, worker="default-1", pool="default", slots=1)
    running = TaskStarted(at=2.0, task=0, pool="default", worker="default-1")
    view = RunView.of(some_record(), [BEGUN, there, running])

    assert explain_stage(view, "Index") == (
        "Stage 'Index': 0 of 2 tasks done, 1 running, 1 waiting. Pool 'default' has 1 of 1 workers, 1 of 1 slots busy."
    )


def test_a_stage_whose_tasks_were_abandoned_says_why() -> None:
    abandoned = TasksAbandoned(at=9.0, tasks=((2, 3),), reason="task 0 failed", failed=0)
    words = why(some_record(GPU, ("gpu",)), [BEGUN, WAITS, abandoned], "Infer")
    assert "0 of 2 tasks done, 2 not run." in words
    assert "2 tasks were abandoned: task 0 failed." in words
