"""However a run ends, no job of it stays: on Slurm and on HTCondor."""

from __future__ import annotations

import signal

from cenote.engine.messages import JobChanged, TaskStarted, WorkerJoined

from .conftest import FOR_LONG, BatchSystem, Workshop
from .processes import until
from .slurm_cluster import SlurmCluster


def test_after_a_run_that_failed(workshop: Workshop, system: BatchSystem) -> None:
    run = workshop.run("analysis.stages.BuildIndex.params={broken: true}", strategy=system.strategy)
    assert run.status == "failed"
    assert "this is my own mistake" in run.failures[0]["message"]
    system.wait_until_empty()


def test_after_ctrl_c(workshop: Workshop, system: BatchSystem) -> None:
    with workshop.driver("--strategy", system.strategy, "--set", FOR_LONG) as driver:
        workshop.wait_for(TaskStarted)
        driver.send_signal(signal.SIGINT)
        assert driver.wait(timeout=60) == 130
    system.wait_until_empty()


def test_after_ctrl_c_while_a_worker_waits_in_the_queue_and_why_tells_slurms_reason(
    workshop: Workshop, slurm: SlurmCluster
) -> None:
    never = "execution.pools.gpu={resources: {gpus: null}, config: {partition: dead}}"
    with workshop.driver("--strategy", "slurm", "--set", never) as driver:
        until(lambda: any("DOWN" in job.reason for job in workshop.heard(JobChanged, pool="gpu")), "Slurm's reason")
        assert "required for job are DOWN" in workshop.why("RunInference")
        driver.send_signal(signal.SIGINT)
        assert driver.wait(timeout=60) == 130
    slurm.wait_until_empty()


def test_after_the_driver_was_killed_workers_end_by_themselves(workshop: Workshop, system: BatchSystem) -> None:
    with workshop.driver("--strategy", system.strategy, "--set", FOR_LONG) as driver:
        until(lambda: len(workshop.heard(WorkerJoined)) == 5, "all workers")
        driver.kill()
    system.wait_until_empty(seconds=120)
