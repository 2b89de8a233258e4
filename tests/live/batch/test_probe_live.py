"""On real batch systems: a probe of each pool tells what a worker would find, in words, and leaves no job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

import cenote
from builders.credentials import GridAuthority

from .conftest import Workshop
from .htcondor_pool import HTCondorPool
from .slurm_cluster import SlurmCluster, until

QUESTIONS = {"job", "network", "python", "packages", "worker", "plugins", "cpus", "memory", "scratch", "folder", "data"}


def probed(workshop: Workshop, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
    """Pool → what `cenote probe --json` says of it."""
    command = [sys.executable, "-m", "cenote", "probe", "flow.yaml", "--json", *words]
    told = subprocess.run(command, cwd=workshop.folder, capture_output=True, text=True, timeout=120, check=False)
    assert told.returncode == code, told.stderr
    return {pool["name"]: pool for pool in json.loads(told.stdout)["pools"]}


def found(pool: dict[str, Any], question: str) -> str:
    return "; ".join(one["words"] for one in pool["findings"] if one["question"] == question)


@pytest.fixture
def proxy(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A setting: a credential that probes get too."""
    authority = GridAuthority(tmp_path_factory.mktemp("authority"))
    return f"execution.credentials=[{{type: x509, path: {authority.proxy()}, certificates: {authority.directory}}}]"


def test_three_pools_of_slurm_are_probed_and_leave_nothing(workshop: Workshop, slurm: SlurmCluster, proxy: str) -> None:
    before = sorted(path.name for path in workshop.folder.iterdir())

    pools = probed(workshop, "--strategy", "slurm", "--set", proxy)

    assert list(pools) == ["default", "high_memory", "gpu"]
    for pool in pools.values():
        assert {one["question"] for one in pool["findings"]} >= QUESTIONS
        assert "reaches the driver at 127.0.0.1:" in found(pool, "network")
        assert "opened in" in found(pool, "data")
        assert "x509 arrived, closed to other users" in found(pool, "credentials")
        assert pool["verdict"] != "problem"
    assert pools["gpu"]["node"]["gpus"]
    assert slurm.queue() == []
    assert sorted({*before, ".cache"}) == sorted(path.name for path in workshop.folder.iterdir())


def test_three_pools_of_htcondor_are_probed_and_leave_nothing(
    workshop: Workshop, htcondor: HTCondorPool, proxy: str
) -> None:
    pools = probed(workshop, "--strategy", "htcondor", "--set", proxy)

    assert list(pools) == ["default", "high_memory", "gpu"]
    for pool in pools.values():
        assert {one["question"] for one in pool["findings"]} >= QUESTIONS
        assert "reaches the driver at 127.0.0.1:" in found(pool, "network")
        assert "x509 arrived, closed to other users" in found(pool, "credentials")
        assert pool["verdict"] != "problem"
    assert pools["gpu"]["node"]["gpus"]
    assert htcondor.jobs() == []
    assert not (workshop.folder / "out").exists()


def test_reports_come_home_by_file_transfer_where_the_network_is_closed(
    workshop: Workshop, htcondor: HTCondorPool
) -> None:
    away = "execution.config={contact: '127.0.0.1:9', transfer_files: true, poll_every: 2s}"

    pools = probed(workshop, "--strategy", "htcondor", "--set", away, code=21)

    for pool in pools.values():
        assert "does not reach the driver at 127.0.0.1:9" in found(pool, "network")
        assert "opened in" in found(pool, "data")
        assert pool["node"]["plugins"][0]["problem"] == ""
    assert htcondor.jobs() == []


def test_a_partition_that_never_starts_is_told_in_slurms_words_and_the_plan_remembers(
    workshop: Workshop, slurm: SlurmCluster
) -> None:
    dead = ["--strategy", "slurm", "--set", "execution.pools.gpu={resources: {gpus: null}, config: {partition: dead}}"]

    pools = probed(workshop, *dead, "--wait", "6s", code=21)

    assert "did not start within" in found(pools["gpu"], "job")
    assert "down" in found(pools["gpu"], "job").lower()
    assert pools["default"]["verdict"] != "problem"
    assert slurm.queue() == []
    plan = cenote.load(workshop.folder / "flow.yaml", sets=[dead[-1]], strategy="slurm").plan()
    (warning,) = [words for words in plan.warnings if "its probe" in words]
    assert warning.startswith("pool 'gpu' failed its probe on ")


def test_a_request_that_slurm_refuses_is_told_at_once(workshop: Workshop, slurm: SlurmCluster) -> None:
    huge = "execution.pools.high_memory.resources={memory: 9TB}"

    pools = probed(workshop, "--strategy", "slurm", "--set", huge, code=21)

    assert "Requested node configuration is not available" in found(pools["high_memory"], "job")
    assert slurm.queue() == []


def test_a_job_that_fails_is_told_with_what_it_wrote_last(workshop: Workshop, slurm: SlurmCluster) -> None:
    broken = "execution.pools.gpu.config={prologue: ['echo the module is gone >&2', 'exit 3']}"

    pools = probed(workshop, "--strategy", "slurm", "--set", broken, code=21)

    (job,) = pools["gpu"]["findings"]
    assert "exit code 3" in job["words"]
    assert job["lines"] == ["the module is gone"]
    assert slurm.queue() == []


def test_a_driver_out_of_reach_is_a_problem_and_the_rest_is_told_all_the_same(
    workshop: Workshop, slurm: SlurmCluster
) -> None:
    away = "execution.config={contact: '127.0.0.1:9', poll_every: 2s}"

    pools = probed(workshop, "--strategy", "slurm", "--set", away, code=21)

    assert "does not reach the driver at 127.0.0.1:9" in found(pools["default"], "network")
    assert "opened in" in found(pools["default"], "data")
    assert slurm.queue() == []


def test_ctrl_c_takes_the_jobs_back(workshop: Workshop, slurm: SlurmCluster) -> None:
    words = [sys.executable, "-m", "cenote", "probe", "flow.yaml", "--strategy", "slurm", "--set"]
    with subprocess.Popen(
        [*words, "execution.config={partition: dead, poll_every: 2s}"], cwd=workshop.folder, stderr=subprocess.DEVNULL
    ) as probing:
        until(lambda: len(slurm.queue()) > 0, "a job to be there")
        os.kill(probing.pid, signal.SIGINT)
        assert probing.wait(60) == 130
    assert slurm.queue() == []
    assert not (workshop.folder / "out").exists()
