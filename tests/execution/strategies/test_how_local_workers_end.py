"""What workers on this machine say when they cannot start reaches people in the words that batch jobs have."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cenote.execution.start_failures import StartFailure
from cenote.execution.strategies.interface import JobState, JobStatus
from cenote.execution.strategies.local.strategy import LocalStrategy
from cenote.testing.launches import a_launch


def ended(folder: Path, command: str) -> JobStatus:
    launch = a_launch("sh", "-c", command, folder=folder)
    launch.run.make_folders()
    strategy = LocalStrategy()
    (job,) = strategy.submit(launch, ["gpu-1"])
    while (status := strategy.poll([job])[job]).state is JobState.RUNNING:
        time.sleep(0.01)
    return status


def test_why_a_node_could_not_unpack_an_environment(tmp_path: Path) -> None:
    status = ended(tmp_path, f"exit {StartFailure.NO_SPACE.value.code}")
    assert status.state is JobState.FAILED
    assert status.reason == (
        "the node's folder for environments has too little free space (exit code 83): "
        "name another folder by the environment's `scratch`"
    )


def test_a_worker_whose_software_does_not_fit_is_told_from_one_that_died(tmp_path: Path) -> None:
    status = ended(tmp_path, f"exit {StartFailure.OTHER_SOFTWARE.value.code}")
    assert (status.state, status.cause) == (JobState.FAILED, "unfit")
    assert status.reason.startswith("the software of the worker does not fit the driver's (exit code 95): ")


@pytest.mark.parametrize(
    ("command", "reason", "cause"),
    [
        ("exit 0", "it exited", "retired"),
        ("exit 3", "it ended with exit code 3", "died"),
        ("kill -9 $$", "it was killed by SIGKILL", "died"),
        ("kill -11 $$", "it was killed by SIGSEGV", "crashed"),
    ],
)
def test_how_a_process_ended(tmp_path: Path, command: str, reason: str, cause: str) -> None:
    status = ended(tmp_path, command)
    assert (status.reason, status.cause) == (reason, cause)
