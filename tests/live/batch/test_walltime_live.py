"""On real batch systems: workers leave before their walltime ends, and a job that brings no worker is given up."""

from __future__ import annotations

from cenote.engine.messages import JobChanged, TaskFailed, WorkerJoined, WorkerLeaving, WorkerLost

from .conftest import Workshop, numbers, pools_of
from .htcondor_pool import HTCondorPool
from .slurm_cluster import SlurmCluster, until

SHORT = (
    "analysis.stages.BuildIndex.params={seconds: 6}",  # two workers: more than half a minute
    "execution.pools.high_memory.config={walltime: 1m}",  # of which the last half is for handing over
)


def test_on_slurm_workers_leave_before_their_walltime_and_others_take_over(
    workshop: Workshop, slurm: SlurmCluster
) -> None:
    run = workshop.run(*SHORT, strategy="slurm")
    assert numbers(run) == workshop.local_numbers()
    assert_that_they_left_in_good_order(workshop)
    until(lambda: slurm.queue() == [], "the queue to become empty")


def test_on_htcondor_workers_leave_before_their_walltime_and_others_take_over(
    workshop: Workshop, htcondor: HTCondorPool
) -> None:
    run = workshop.run(*SHORT, strategy="htcondor")
    assert numbers(run) == workshop.local_numbers()
    assert_that_they_left_in_good_order(workshop)
    htcondor.wait_until_empty()


def assert_that_they_left_in_good_order(workshop: Workshop) -> None:
    leaving = [event.worker for event in workshop.events if isinstance(event, WorkerLeaving)]
    assert leaving
    gone = [event for event in workshop.events if isinstance(event, WorkerLost) and event.worker in leaving]
    # The run may end before the batch system says that their jobs are over: how they left is what counts.
    assert [event for event in gone if event.cause != "walltime"] == []
    joined = {
        event.worker for event in workshop.events if isinstance(event, WorkerJoined) and event.pool == "high_memory"
    }
    assert joined > set(leaving)  # others took over
    assert [event for event in workshop.events if isinstance(event, TaskFailed)] == []


def test_a_job_that_runs_and_brings_no_worker_is_given_up_and_its_work_falls_back(
    workshop: Workshop, slurm: SlurmCluster
) -> None:
    run = workshop.run(
        "execution.pools.gpu={config: {join_timeout: 4s, prologue: [echo hangs here >&2, sleep 600]},"
        " fallback: [default], fallback_when: {no_worker_for: 10s}}",
        strategy="slurm",
    )
    assert numbers(run) == workshop.local_numbers()
    assert pools_of(run)["RunInference"] == {"default"}
    lost = workshop.losses("gpu")[0]
    assert "has run for 4.0 s, and it has not joined" in lost.reason
    assert lost.log == "hangs here"
    assert [event for event in workshop.events if isinstance(event, JobChanged) and event.pool == "gpu"]
    until(lambda: slurm.queue() == [], "the queue to become empty")
