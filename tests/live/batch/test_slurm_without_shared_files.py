"""A Slurm whose nodes have neither the run's folder nor Python: what workers need is sent there, once to each node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from builders.conda_channel import worker_project
from builders.small_archives import small_archive
from cenote.engine.messages import WorkerJoined
from cenote.execution.environments.support.packed import unpacked_on_node
from cenote.execution.launch import LOG, WORKER, Launch, Sent, SentFile
from cenote.execution.start_failures import StartFailure
from cenote.execution.strategies.interface import OVER, JobId, JobStatus
from cenote.execution.strategies.slurm.strategy import Slurm
from cenote.testing.launches import a_launch

from ..foreign_node import ForeignNode, foreign_node
from .conftest import LEFT_OUT, OWN_POOLS, Workshop, numbers, pools_of
from .slurm_cluster import SlurmCluster, slurm_cluster

COUNTED = """#!/bin/sh
echo "$@" >>{log}
exec {program} "$@"
"""
PYTHON = r"""#!/bin/sh
echo "$0 at $PWD"
cat "$2"
echo "$1 begins" >"$3"
[ ! -e "$4" ] || echo "it sees $4"
[ "$1" != gpu-2 ] || exec sh -c 'echo broken >&2; kill -SEGV $$'
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> ForeignNode:
    """All nodes of the cluster: they share what they keep in `/var/tmp`."""
    return foreign_node(tmp_path_factory.mktemp("node"))


@pytest.fixture(scope="module")
def cluster(node: ForeignNode) -> Iterator[SlurmCluster]:
    with slurm_cluster(node=node) as cluster:
        yield cluster


@pytest.fixture
def sent(cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The cluster without jobs; the file has a line for each archive that was sent to a node."""
    cluster.reset()
    log, counting = tmp_path / "sent.txt", tmp_path / "programs"
    counting.mkdir()
    (counting / "sbcast").write_text(COUNTED.format(log=log, program=cluster.programs / "sbcast"))
    (counting / "sbcast").chmod(0o755)
    log.touch()
    monkeypatch.setenv("SLURM_CONF", str(cluster.configuration))
    monkeypatch.setenv("PATH", os.pathsep.join([str(counting), cluster.environment["PATH"]]))
    yield log
    cluster.wait_until_empty()


def until_over(strategy: Slurm, jobs: Sequence[JobId]) -> dict[JobId, JobStatus]:
    """How the jobs ended."""
    deadline = time.monotonic() + 180
    found: dict[JobId, JobStatus] = {}
    while not found or any(status.state not in OVER for status in found.values()):
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
        found |= strategy.poll(jobs)
    return found


def a_worker(folder: Path, python: str = PYTHON) -> Launch:
    """The Python of its environment is a shell script."""
    identity = folder / "r1.pem"
    identity.write_text("the key\n")
    launch = a_launch("python", WORKER, Sent(identity.name), LOG, str(folder), folder=folder, run="r1")
    launch = unpacked_on_node(
        launch, [small_archive(folder, {"bin/python": python})], scratch=None, variables={"GREETING": "hello"}
    )
    launch.run.make_folders()
    return Launch(**{**vars(launch), "files": (SentFile(identity), *launch.files)})


def test_four_workers_get_their_files_with_one_sending_and_what_they_print_comes_home(
    sent: Path, tmp_path: Path
) -> None:
    strategy, launch = Slurm(transfer_files=True, poll_every=1), a_worker(tmp_path)
    jobs = strategy.submit(launch, ["gpu-1", "gpu-2", "gpu-3", "gpu-4"])
    ended = until_over(strategy, jobs)
    assert [ended[job].reason for job in jobs] == ["", "it was killed by SIGSEGV", "", ""]
    for worker in ("gpu-1", "gpu-2", "gpu-3", "gpu-4"):
        place, key = (tmp_path / "out" / worker).read_text().splitlines()
        assert place.startswith("/var/tmp/cenote-env-")
        assert key == "the key"
        assert (tmp_path / "logs" / worker).read_text() == f"{worker} begins\n"
    assert (tmp_path / "err" / "gpu-2").read_text() == "broken\n"
    assert len(sent.read_text().splitlines()) == 1
    again = strategy.submit(launch, ["gpu-5"])
    assert until_over(strategy, again)[again[0]].reason == ""
    assert len(sent.read_text().splitlines()) == 1


def test_an_archive_that_arrives_damaged_is_told_with_what_the_node_said(sent: Path, tmp_path: Path) -> None:
    strategy, launch = Slurm(transfer_files=True, poll_every=1), a_worker(tmp_path, "#!/bin/sh\n")
    (archive,) = [file.source for file in launch.files if file.on_demand]
    archive.write_bytes(archive.read_bytes()[:-1])
    jobs = strategy.submit(launch, ["gpu-1"])
    assert StartFailure.CORRUPT_ARCHIVE.value.words in until_over(strategy, jobs)[jobs[0]].reason
    assert "is damaged" in (tmp_path / "err" / "gpu-1").read_text()
    assert len(sent.read_text().splitlines()) == 2


def test_the_example_runs_in_an_environment_of_pixi_with_the_local_numbers_and_the_second_run_sends_nothing(
    workshop: Workshop, sent: Path, node: ForeignNode
) -> None:
    data = f"data.datasets=[{{name: d, files: [{shutil.move(workshop.folder / 'a.root', node.data)}]}}]"
    project = worker_project(workshop.folder / "project")
    config = "execution.config={host: 127.0.0.1, poll_every: 2s, transfer_files: true}"
    environment = f"execution.environment={{type: packed-pixi, manifest: {project.manifest}, exclude: {LEFT_OUT}}}"
    first = workshop.run(data, config, environment, strategy="slurm")
    assert numbers(first) == workshop.local_numbers(data)
    assert pools_of(first) == OWN_POOLS
    archives = sent.read_text().splitlines()
    packed = stamps(workshop.folder / ".cache")
    for worker in {event.worker for event in workshop.heard(WorkerJoined)}:
        assert f"{worker} begins" in (workshop.out / "debug" / "distributed" / "logs" / worker).read_text()
    shutil.rmtree(workshop.out)
    second = workshop.run(data, config, environment, strategy="slurm")
    assert numbers(second) == numbers(first)
    assert len(archives) == 2  # the environment, and the code of Cenote
    left_out = {"missing there: pyarrow"}
    assert probe(workshop, data, config, environment) == dict.fromkeys(("default", "high_memory", "gpu"), left_out)
    assert sent.read_text().splitlines() == archives
    assert stamps(workshop.folder / ".cache") == packed


def probe(workshop: Workshop, *sets: str) -> dict[str, set[str]]:
    """Pool → the problems that `cenote probe` has with it, and what it says of packages."""
    command = [sys.executable, "-m", "cenote", "probe", "flow.yaml", "--json", "--strategy", "slurm"]
    command += [word for one in sets for word in ("--set", one)]
    told = subprocess.run(command, cwd=workshop.folder, capture_output=True, text=True, timeout=240, check=False)
    return {
        pool["name"]: {
            found["words"]
            for found in pool["findings"]
            if found["verdict"] == "problem" or found["question"] == "packages"
        }
        for pool in json.loads(told.stdout)["pools"]
    }


def stamps(folder: Path) -> dict[Path, int]:
    """Archives, and when each was made."""
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*.tar.*")}
