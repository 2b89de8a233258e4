"""HTCondor's file transfer: workers that see neither the run's folder nor the plugin file give the same numbers."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import awkward as ak
import pytest

from ..conftest import cannot_run
from .conftest import OWN_POOLS, Workshop, numbers, pools_of
from .htcondor_pool import HTCondorPool

HIDDEN = """#!/bin/sh
exec unshare --user --map-root-user --mount sh -c 'mount -t tmpfs none {folder} && exec sh "$@"' worker "$@"
"""
"""Is the shell that starts a worker, in a mount namespace of its own, where the folder is another one, and empty."""


@pytest.fixture
def blindfold(workshop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Settings for a run whose workers do not see the folder that holds the workflow, the plugin and the run."""
    outside = tmp_path_factory.mktemp("outside")
    shutil.move(workshop.folder / "a.root", outside / "a.root")
    script = outside / "hidden.sh"
    script.write_text(HIDDEN.format(folder=shlex.quote(str(workshop.folder))))
    script.chmod(0o755)
    look = f"ls -A {shlex.quote(str(workshop.folder))} && echo nothing"
    seen = subprocess.run([script, "-c", look], capture_output=True, text=True, check=False)
    if seen.stdout != "nothing\n":
        cannot_run(f"no mount namespace for a worker: {seen.stderr.strip()}")
    return [
        f"data.datasets=[{{name: d, files: [{outside / 'a.root'}]}}]",
        f"execution.config={{transfer_files: true, directives: ['executable = {script}']}}",
    ]


def test_workers_that_do_not_see_the_runs_folder_give_the_same_numbers_and_their_logs_come_home(
    workshop: Workshop, htcondor: HTCondorPool, blindfold: list[str]
) -> None:
    (workshop.folder / "ops.py").write_text(
        (workshop.folder / "ops.py").read_text()
        + f"\nimport os\nprint('sees', os.listdir({str(workshop.folder)!r}), 'from', os.getcwd(), flush=True)\n"
    )
    data, transfer = blindfold
    run = workshop.run(data, transfer, strategy="htcondor")
    assert numbers(run) == workshop.local_numbers(data)
    assert pools_of(run) == OWN_POOLS
    htcondor.wait_until_empty()
    debug = workshop.out / "debug" / "distributed"
    for worker in ("default-1", "high_memory-1", "high_memory-2", "gpu-1"):
        assert f"{worker} begins" in (debug / "logs" / worker).read_text()
        said = (debug / "out" / worker).read_text()
        assert said.startswith("sees [] from ")
        assert str(htcondor.root) in said  # where HTCondor keeps the jobs' scratch folders
        assert (debug / "err" / worker).exists()


def test_their_skims_are_written_into_the_runs_folder(
    workshop: Workshop, htcondor: HTCondorPool, blindfold: list[str]
) -> None:
    stages = (
        "analysis.stages=[{id: Hard, op: hep.select, params: {expr: MET_pt > 40}, "
        "write: {kind: parquet, path: skim.parquet}}]"
    )
    pools = "execution.pools={high_memory: null, gpu: null, default: {workers: 1}}"
    run = workshop.run(*blindfold, stages, pools, strategy="htcondor")
    assert run.status == "succeeded", str(run.failures)
    files = [workshop.out / "products" / one["path"] for one in run.product("Hard:files")]
    assert len(files) == 12
    assert ak.min(ak.from_parquet([str(file) for file in files]).MET_pt) > 40
    htcondor.wait_until_empty()


def test_what_a_worker_wrote_that_died_is_told(
    workshop: Workshop, htcondor: HTCondorPool, blindfold: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    marker = Path(tmp_path_factory.mktemp("marker")) / "died"
    (workshop.folder / "ops.py").write_text(
        (workshop.folder / "ops.py").read_text()
        + f"""
@operation("custom.fragile", reads=["MET_pt"], adds=["whole"])
def fragile(events):
    import os, sys
    if not os.path.exists({os.fspath(marker)!r}):
        open({os.fspath(marker)!r}, "w").close()
        print("something is about to break", file=sys.stderr, flush=True)
        os._exit(3)
    return {{"whole": events["MET_pt"]}}
"""
    )
    stages = "analysis.stages=[{id: Fragile, op: custom.fragile}]"
    pools = "execution.pools={high_memory: null, gpu: null, default: {workers: 1}}"
    run = workshop.run(*blindfold, stages, pools, strategy="htcondor")
    assert run.status == "succeeded", str(run.failures)
    (lost,) = workshop.losses("default")
    assert "exit code 3" in lost.reason
    assert "something is about to break" in lost.log
    htcondor.wait_until_empty()
