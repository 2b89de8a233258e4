"""Packed environments on a real HTCondor whose machine has no Python and sees no file of the run but the data."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from builders.conda_channel import worker_project
from builders.small_archives import small_archive
from builders.wheels import small_wheel
from cenote.engine.messages import WorkerJoined
from cenote.execution.environments.support.packed import unpacked_on_node
from cenote.execution.packing.stock import Stock
from cenote.execution.start_failures import StartFailure
from cenote.execution.strategies.htcondor.strategy import HTCondor
from cenote.execution.strategies.interface import OVER, JobId, JobStatus
from cenote.testing.launches import a_launch

from ..foreign_node import ForeignNode, foreign_node
from .conftest import LEFT_OUT, OWN_POOLS, Workshop, numbers, pools_of
from .htcondor_pool import HTCondorPool
from .processes import until

TELL = """
import importlib.util, os, sys
print(sys.prefix, importlib.util.find_spec("gputool") is not None, os.path.exists({folder!r}), flush=True)
"""
COUNTED = """#!/bin/sh
echo "$@" >>{log}
exec {program} "$@"
"""


@pytest.fixture
def node(tmp_path_factory: pytest.TempPathFactory) -> ForeignNode:
    return foreign_node(tmp_path_factory.mktemp("node"))


@pytest.fixture
def on_node(workshop: Workshop, htcondor: HTCondorPool, node: ForeignNode, tmp_path: Path) -> list[str]:
    """Settings for a run whose workers are on the node; those of pool `gpu` have an environment of their own."""
    ops = workshop.folder / "ops.py"
    ops.write_text(ops.read_text() + TELL.format(folder=str(workshop.folder)))
    shutil.move(workshop.folder / "a.root", node.data / "a.root")
    shown = [htcondor.root / "execute", htcondor.release]
    script = node.script(tmp_path / "on_node.sh", shown, own_users=True, starts="/bin/sh")
    worker_project(workshop.folder)
    gpu = worker_project(workshop.folder / "gpu")
    gpu.add_wheels([small_wheel(workshop.folder / "gpu", "gputool", {"gputool.py": ""})])
    return [
        f"data.datasets=[{{name: d, files: [{node.data / 'a.root'}]}}]",
        f"execution.config={{transfer_files: true, directives: ['executable = {script}']}}",
        f"execution.environment={{type: packed-pixi, exclude: {LEFT_OUT}}}",
        f"execution.pools.gpu.environment={{type: packed-pixi, manifest: gpu/pixi.toml, exclude: {LEFT_OUT}}}",
    ]


def test_three_pools_run_with_their_environments_where_nothing_is_installed(
    workshop: Workshop, htcondor: HTCondorPool, node: ForeignNode, on_node: list[str]
) -> None:
    run = workshop.run(*on_node, strategy="htcondor")
    assert numbers(run) == workshop.local_numbers(on_node[0])
    assert pools_of(run) == OWN_POOLS
    htcondor.wait_until_empty()
    for worker in {event.worker for event in workshop.heard(WorkerJoined)}:
        said = (workshop.out / "debug" / "distributed" / "out" / worker).read_text()
        assert said.startswith("/var/tmp/cenote-env-0/")
        assert said.split()[1:3] == [str(worker.startswith("gpu")), "False"]
    (unpacked,) = node.kept.glob("cenote-env-*")
    trees = _trees(unpacked)
    archives = [file for file in Stock().folder.iterdir() if ".tar." in file.name]
    assert trees == {file.name.split("-")[-1][:16] for file in archives}
    assert len(trees) == 3  # two environments, and this program's own code

    # What is packed and unpacked already is needed no more: from here on the archives are no longer what they were.
    for file in archives:
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
    found = numbers(run)
    shutil.rmtree(workshop.out)
    assert numbers(workshop.run(*on_node, strategy="htcondor")) == found
    htcondor.wait_until_empty()

    shutil.rmtree(unpacked)
    shutil.rmtree(workshop.out)
    one_stage = "analysis.stages=[{id: Hard, op: hep.select, params: {expr: MET_pt > 40}}]"
    one_pool = "execution.pools={high_memory: null, gpu: null, default: {workers: 1}}"
    failed = workshop.run(*on_node[:-1], one_stage, one_pool, "execution.limits.pool=1", strategy="htcondor")
    assert failed.status == "failed"
    told = str(failed.failures)
    assert "the archive of the environment reached the node damaged: its digest is wrong (exit code 82)" in told
    assert "is damaged: its SHA-256 is " in told  # what the node said, with the figures
    assert _trees(unpacked) == set()


def test_an_archive_is_fetched_once_for_all_workers_of_a_machine_or_sent_where_that_cannot_be(
    htcondor: HTCondorPool, node: ForeignNode, tmp_path: Path
) -> None:
    counting = tmp_path / "counting"
    counting.mkdir()
    chirp = counting / "condor_chirp"
    chirp.write_text(
        COUNTED.format(log=counting / "log", program=htcondor.release / "libexec" / "condor" / "condor_chirp")
    )
    chirp.chmod(0o755)
    execute = htcondor.root / "execute"
    with_chirp = node.script(tmp_path / "with.sh", [execute, htcondor.release, counting], own_users=True, starts="sh")
    without = node.script(tmp_path / "without.sh", [execute], own_users=True, starts="sh")
    launch = a_launch("python", folder=tmp_path / "run")
    launch.run.make_folders()
    archive = small_archive(tmp_path)
    launch = unpacked_on_node(launch, [archive], scratch=None, variables={"PATH": f"{counting}:/usr/bin:/bin"})

    def ended(script: Path, *workers: str, **settings: Any) -> list[JobStatus]:
        strategy = HTCondor(transfer_files=True, directives=(f"executable = {script}",), poll_every=1, **settings)
        jobs = strategy.submit(launch, workers)
        found: dict[JobId, JobStatus] = {}
        until(lambda: found.update(strategy.poll(jobs)) or _are_over(found, jobs), "the end of the jobs")
        return [found[job] for job in jobs]

    place = f"python in /var/tmp/cenote-env-0/{archive.digest[:16]}\n"
    four = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
    assert [status.reason for status in ended(with_chirp, *four)] == ["it exited"] * 4
    assert [(launch.run.folder("out") / worker).read_text() for worker in four] == [place] * 4
    assert (counting / "log").read_text() == f"fetch {archive.file} {place[10:-1]}.archive\n"

    shutil.rmtree(node.kept / "cenote-env-0")
    (failed,) = ended(without, "gpu-5")
    assert failed.reason == str(StartFailure.NO_ARCHIVE)
    assert "condor_chirp: not found" in (launch.run.folder("err") / "gpu-5").read_text()

    (sent,) = ended(without, "gpu-6", archives="sent")
    assert sent.reason == "it exited"
    assert (launch.run.folder("out") / "gpu-6").read_text() == place


def _trees(folder: Path) -> set[str]:
    """What was unpacked there, whole or not."""
    return {one.name for one in folder.iterdir() if one.is_dir()}


def _are_over(found: dict[JobId, JobStatus], jobs: list[JobId]) -> bool:
    return all(job in found and found[job].state in OVER for job in jobs)
