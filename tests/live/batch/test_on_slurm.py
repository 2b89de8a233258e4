"""On a real Slurm: the same numbers, stages on their pools, and whatever happens to a job is told in Slurm's words."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from cenote.engine.messages import AnyEvent, TaskStarted
from cenote.runtime.journal import read_events

from .conftest import OWN_POOLS, SLOWLY, Workshop, numbers, pools_of
from .slurm_cluster import SlurmCluster, until


def test_three_pools_give_the_local_numbers_and_leave_no_job(workshop: Workshop, slurm: SlurmCluster) -> None:
    run = workshop.run(strategy="slurm")
    assert numbers(run) == workshop.local_numbers()
    assert pools_of(run) == OWN_POOLS
    until(lambda: slurm.queue() == [], "the queue to become empty")


def test_a_cancelled_worker_is_replaced_and_slurms_word_is_told(workshop: Workshop, slurm: SlurmCluster) -> None:
    def cancel_one() -> bool:
        for job, _ in slurm.jobs("high_memory")[:1]:
            slurm.ask("scancel", job)
            return True
        return False

    run = workshop.run(SLOWLY, strategy="slurm", disturb=cancel_one)
    assert numbers(run) == workshop.local_numbers()
    (lost,) = workshop.losses("high_memory")
    assert "CANCELLED" in lost.reason
    until(lambda: slurm.queue() == [], "the queue to become empty")


def test_a_request_that_no_node_can_hold_is_refused_at_once_in_slurms_words(
    workshop: Workshop, slurm: SlurmCluster
) -> None:
    start = time.monotonic()
    run = workshop.run("execution.pools.high_memory.resources={memory: 9TB}", strategy="slurm")
    assert time.monotonic() - start < 20
    assert run.status == "failed"
    assert "Requested node configuration is not available" in run.failures[0]["message"]
    until(lambda: slurm.queue() == [], "the queue to become empty")


def test_a_lost_node_costs_time_and_nothing_else(workshop: Workshop, slurm: SlurmCluster) -> None:
    def lose_one() -> bool:
        for _, node in slurm.jobs("high_memory")[:1]:
            slurm.lose(node)
            return True
        return False

    run = workshop.run(SLOWLY, strategy="slurm", disturb=lose_one)
    assert numbers(run) == workshop.local_numbers()
    assert workshop.losses("high_memory")
    until(lambda: slurm.queue() == [], "the queue to become empty")


def test_a_preempted_worker_is_called_preempted(workshop: Workshop, slurm: SlurmCluster) -> None:
    def preempt() -> bool:
        for _, node in slurm.jobs("high_memory")[:1]:
            options = ["--partition=urgent", f"--nodelist={node}", "--exclusive", "--time=1", "--output=/dev/null"]
            slurm.ask("sbatch", *options, "--wrap=sleep 1")
            return True
        return False

    run = workshop.run(SLOWLY, strategy="slurm", disturb=preempt)
    assert numbers(run) == workshop.local_numbers()
    assert {lost.cause for lost in workshop.losses("high_memory")} == {"preempted"}
    until(lambda: slurm.queue() == [], "the queue to become empty")


def test_work_for_a_partition_without_nodes_falls_back_with_slurms_reason(
    workshop: Workshop, slurm: SlurmCluster
) -> None:
    run = workshop.run(
        "execution.pools.gpu={resources: {gpus: null}, config: {partition: dead}, fallback: [default],"
        " fallback_when: {no_worker_for: 5s}}",
        strategy="slurm",
    )
    assert numbers(run) == workshop.local_numbers()
    assert pools_of(run)["RunInference"] == {"default"}
    assert "no_worker_for" in run.summary["fallbacks"][0]["reason"]
    assert "down" in run.summary["fallbacks"][0]["reason"].lower()
    until(lambda: slurm.queue() == [], "the queue to become empty")


def test_workers_end_by_themselves_when_the_driver_is_killed(workshop: Workshop, slurm: SlurmCluster) -> None:
    out = workshop.folder / "out"
    words = [sys.executable, "-m", "cenote", "run", "flow.yaml", "--strategy", "slurm", "--out", str(out), "--set"]
    with subprocess.Popen(
        [*words, "analysis.stages.BuildIndex.params={seconds: 5}"], cwd=workshop.folder, stderr=subprocess.DEVNULL
    ) as driver:
        try:
            until(lambda: any(isinstance(event, TaskStarted) for event in events_so_far(out)), "a task to start")
        finally:
            os.kill(driver.pid, signal.SIGKILL)
    until(lambda: slurm.queue() == [], "the queue to become empty", seconds=120)


def events_so_far(out: Path) -> list[AnyEvent]:
    """What the journal says, if there is one yet."""
    return list(read_events(out)) if (out / "journal.jsonl").exists() else []
