"""`cenote clean` takes away jobs that never started, and so cannot end by themselves, after their driver was killed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from cenote.engine.messages import WorkerRequested

from .conftest import BatchSystem, Workshop
from .htcondor_pool import HTCondorPool
from .processes import until
from .slurm_cluster import SlurmCluster

NEVER = {
    "slurm": "execution.pools={default: {config: {partition: dead}}, high_memory: {config: {partition: dead},"
    " resources: {memory: 4GB}}, gpu: {config: {partition: dead}, resources: {gpus: null}}}",
    "htcondor": 'execution.config={requirements: TARGET.Planet == "Mars", machines_come_later: true}',
}
"""Workers that wait for ever."""


def clean(*words: str, code: int = 0) -> Any:
    """What `cenote clean --json` says."""
    command = [sys.executable, "-m", "cenote", "clean", "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def states(found: Any) -> set[tuple[str, str, bool]]:
    return {(job["pool"], job["run_is"], job["removed"]) for job in found["jobs"]}


def test_jobs_that_wait_are_found_by_their_folder_and_removed_once_their_driver_is_gone(
    workshop: Workshop, system: BatchSystem
) -> None:
    with workshop.driver("--strategy", system.strategy, "--set", NEVER[system.strategy]) as driver:
        until(lambda: len(workshop.heard(WorkerRequested)) == 4, "all workers to be asked for")
        everywhere = clean("--dry-run")  # with whatever else goes on here
        ours = {"jobs": [job for job in everywhere["jobs"] if job["folder"] == str(workshop.out)]}
        assert states(ours) == {(pool, "driven", False) for pool in ("default", "high_memory", "gpu")}
        refused = clean(str(workshop.out), "--yes", code=2)  # named, and still driven: --force would be needed
        assert refused["problems"][0]["kind"] == "usage"
        driver.kill()
        driver.wait()
    found = clean(str(workshop.out), "--dry-run")
    waiting = {"default-1", "high_memory-1", "high_memory-2", "gpu-1"}
    assert {job["worker"] for job in found["jobs"]} == waiting
    assert {job["folder"] for job in found["jobs"]} == {str(workshop.out)}
    assert states(found) == {(pool, "over", False) for pool in ("default", "high_memory", "gpu")}
    assert states(clean("--run", found["jobs"][0]["run"], "--yes")) == {
        (pool, "over", True) for pool in ("default", "high_memory", "gpu")
    }
    system.wait_until_empty()
    assert clean(str(workshop.out))["jobs"] == []


def test_held_jobs_are_removed_too(workshop: Workshop, htcondor: HTCondorPool) -> None:
    with workshop.driver("--strategy", "htcondor", "--set", NEVER["htcondor"]):
        until(lambda: len(workshop.heard(WorkerRequested)) == 4, "all workers to be asked for")
    htcondor.ask("condor_hold", "-all")
    until(lambda: len(htcondor.jobs(status=5)) == 4, "all jobs to be held")
    assert {job["state"] for job in clean(str(workshop.out), "--yes")["jobs"]} == {"HELD"}
    htcondor.wait_until_empty()


def test_a_batch_system_that_does_not_answer_is_told(
    workshop: Workshop, slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    del workshop
    configuration = slurm.root / "nobody.conf"
    configuration.write_text("ClusterName=nobody\nSlurmctldHost=localhost\nSlurmctldPort=1\nMessageTimeout=2\n")
    monkeypatch.setenv("SLURM_CONF", str(configuration))
    assert "slurm" in clean("--dry-run", code=40)["silent"]
