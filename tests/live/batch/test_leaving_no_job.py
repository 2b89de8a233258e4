"""However a run ends, no job of it stays: on Slurm and on HTCondor."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress

import pytest

import cenote
from cenote.engine.messages import JobChanged, TaskStarted, WorkerJoined, WorkerRequested

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
        assert driver.wait(timeout=180) == 130
    system.wait_until_empty()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_after_a_signal_that_comes_again_and_again(
    workshop: Workshop, system: BatchSystem, number: signal.Signals
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup every process below would ignore it
    try:
        with workshop.driver("--strategy", system.strategy, "--set", FOR_LONG) as driver:
            workshop.wait_for(WorkerRequested)
            send_until_it_ends(driver, number)
            assert driver.wait() == 128 + number
    finally:
        signal.signal(signal.SIGHUP, before)
    assert cenote.open_run(workshop.out).status == "cancelled"
    system.wait_until_empty()


SUBMITTING = {"slurm": "sbatch", "htcondor": "condor_submit"}


def test_after_a_signal_that_comes_while_jobs_are_submitted(
    workshop: Workshop, system: BatchSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = SUBMITTING[system.strategy]
    real, own = shutil.which(program), workshop.folder / "bin" / program
    own.parent.mkdir()
    own.write_text(
        f"#!/bin/sh\ntouch {workshop.folder}/submitting\n"
        f'while [ ! -e {workshop.folder}/go ]; do sleep 0.05; done\nexec {real} "$@"\n'
    )
    own.chmod(0o755)
    monkeypatch.setenv("PATH", f"{own.parent}{os.pathsep}{os.environ['PATH']}")
    with workshop.driver("--strategy", system.strategy, "--set", FOR_LONG) as driver:
        until((workshop.folder / "submitting").exists, "the first job to be submitted")
        driver.send_signal(signal.SIGTERM)
        driver.send_signal(signal.SIGTERM)
        (workshop.folder / "go").touch()
        assert driver.wait(timeout=180) == 143
    assert cenote.open_run(workshop.out).status == "cancelled"
    system.wait_until_empty()


def send_until_it_ends(driver: subprocess.Popen[bytes], number: signal.Signals) -> None:
    deadline = time.monotonic() + 180
    while driver.poll() is None:
        assert time.monotonic() < deadline, "it goes on"
        driver.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            driver.wait(0.1)


def test_after_ctrl_c_while_a_worker_waits_in_the_queue_and_why_tells_slurms_reason(
    workshop: Workshop, slurm: SlurmCluster
) -> None:
    never = "execution.pools.gpu={resources: {gpus: null}, config: {partition: dead}}"
    with workshop.driver("--strategy", "slurm", "--set", never) as driver:
        until(lambda: any("DOWN" in job.reason for job in workshop.heard(JobChanged, pool="gpu")), "Slurm's reason")
        assert "required for job are DOWN" in workshop.why("RunInference")
        driver.send_signal(signal.SIGINT)
        assert driver.wait(timeout=180) == 130
    slurm.wait_until_empty()


def test_after_the_driver_was_killed_workers_end_by_themselves(workshop: Workshop, system: BatchSystem) -> None:
    with workshop.driver("--strategy", system.strategy, "--set", FOR_LONG) as driver:
        until(lambda: len(workshop.heard(WorkerJoined)) == 4, "all workers")
        driver.kill()
    system.wait_until_empty(seconds=120)
