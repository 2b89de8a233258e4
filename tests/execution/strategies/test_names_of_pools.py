"""A pool may be called anything: its workers, their jobs and files keep apart, and are found again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cenote.common.errors import CenoteError
from cenote.common.text import plain_name, worker_name
from cenote.execution.launch import WORKER, Launch, RunLocation
from cenote.execution.strategies.htcondor.strategy import HTCondor
from cenote.execution.strategies.slurm.queue import own_jobs
from cenote.execution.strategies.slurm.strategy import Slurm
from cenote.testing.launches import a_launch
from cenote.testing.scripted_shell import scripted_shell

ODD = [
    "50%",
    "%j",
    "a\\b",
    "a[1]",
    "two words",
    'a "b"',
    "it's",
    "$HOME",
    "$(x)",
    "#1",
    "größe",
    "-x",
    "x" * 400,
    "a|b",
]


def launch_of(pool: str, folder: Path) -> Launch:
    return a_launch("python", "--name", WORKER, pool=pool, folder=folder, location=RunLocation("here", folder, "1"))


def as_slurm_writes(pattern: str, index: int) -> str:
    """The name of a file by the rules of sbatch's "filename pattern"."""
    assert "\\" not in pattern  # it would switch the rules off
    symbols = {"%": lambda _: "%", "a": lambda width: f"{index:0{width or 0}}"}
    return re.sub(r"%(\d*)([a-zA-Z%])", lambda match: symbols[match[2]](match[1]), pattern)


def test_usual_names_stay_as_they_are() -> None:
    for name in ("default", "gpu", "high_memory", "a100.v2", "site@cern", "two words"):
        assert worker_name(name, 12) == f"{name}-12"


def test_odd_names_become_plain_ones_that_differ() -> None:
    assert len({plain_name(name) for name in [*ODD, "50_", "a_b", "x" * 80, "x" * 401]}) == len(ODD) + 4
    for name in ODD:
        assert re.fullmatch(r"\w[\w .+=@-]*", plain_name(name))
        assert len(worker_name(name, 1000).encode()) < 200


@pytest.mark.parametrize("pool", ODD)
@pytest.mark.parametrize("workers", [1, 3])
def test_slurm_writes_the_files_that_are_read(pool: str, workers: int, tmp_path: Path) -> None:
    folder = tmp_path / "100%"
    names = [worker_name(pool, number) for number in range(1, workers + 1)]
    (script,) = Slurm().render(launch_of(pool, folder), names)
    for option, stream in (("output", "out"), ("error", "err")):
        files = [folder / stream / name for name in names]
        match = re.search(rf'^#SBATCH --{option}="?(.*?)"?$', script, re.MULTILINE)
        assert match is not None
        assert [as_slurm_writes(match[1], number) for number in range(1, workers + 1)] == [str(file) for file in files]


@pytest.mark.parametrize("pool", ODD)
def test_slurm_tells_the_pool_of_a_job_that_was_left_behind(pool: str, tmp_path: Path) -> None:
    (script,) = Slurm().render(launch_of(pool, tmp_path), [worker_name(pool, 1)])
    name, comment = (
        re.search(rf'^#SBATCH --{key}="?(.*?)"?$', script, re.MULTILINE) for key in ("job-name", "comment")
    )
    assert name is not None
    assert comment is not None
    with scripted_shell(squeue=f"7|PENDING|2026-11-16T02:27:29|{name[1]}|{comment[1]}\n"):
        (job,) = own_jobs()
    assert (job.pool, job.worker, job.run) == (pool, worker_name(pool, 1), "r1")


def test_slurm_refuses_a_folder_that_it_cannot_write_to(tmp_path: Path) -> None:
    with pytest.raises(CenoteError, match="Slurm cannot write to"):
        Slurm().render(launch_of("gpu", tmp_path / "back\\slash"), ["gpu-1"])


@pytest.mark.parametrize("pool", ODD)
def test_htcondor_gets_names_that_it_does_not_read_as_something_else(pool: str, tmp_path: Path) -> None:
    (text,) = HTCondor().render(launch_of(pool, tmp_path), [worker_name(pool, number) for number in (1, 2)])
    listed = text.partition("queue worker from (\n")[2].splitlines()
    assert listed == [worker_name(pool, 1), worker_name(pool, 2), ")"]
    assert not re.search(r"[#$\\\"']", "".join(listed))
    assert f"cenote-r1-{plain_name(pool)}" in text
