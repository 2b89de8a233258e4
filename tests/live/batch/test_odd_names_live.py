"""Folders and files of the oddest names, on real batch systems: the numbers are the same, and no shell reads a name."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cenote.common.errors import JOB_REFUSED, CenoteError
from cenote.engine.messages import WorkerRequested

from .conftest import OWN_POOLS, BatchSystem, Workshop, numbers, pools_of
from .htcondor_pool import HTCondorPool

FOLDER = "-it's $(touch owned) `touch owned`; touch owned & $HOME ${HOME} $ENV(HOME) 100% %j é ~ #1 (a) [b] {c} = *? 🐍"
"""As odd as a folder may be on both; Slurm takes no backslash, HTCondor transfers nothing with a comma or a quote."""
FILE = "-\n$(touch owned) `touch owned` \"';\\,\nqueue\n.root"


def in_a_folder_called(name: str, workshop: Workshop) -> Workshop:
    odd = workshop.folder / name
    odd.mkdir()
    for file in ("ops.py", "flow.yaml"):
        shutil.copy(workshop.folder / file, odd / file)
    shutil.move(workshop.folder / "a.root", odd / FILE)
    return Workshop(odd)


@pytest.fixture(autouse=True)
def _nothing_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    assert not [*tmp_path.rglob("owned"), *Path.home().glob("owned")]


def test_folders_and_files_of_the_oddest_names_work(workshop: Workshop, system: BatchSystem) -> None:
    quotes = ' "x", ' + ("\\" if isinstance(system, HTCondorPool) else "")
    odd = in_a_folder_called(FOLDER + quotes, workshop)
    run = odd.run(strategy="htcondor" if isinstance(system, HTCondorPool) else "slurm")
    assert numbers(run) == odd.local_numbers()
    assert pools_of(run) == OWN_POOLS
    assert "begins" in (odd.out / "debug" / "distributed" / "logs" / "gpu-1").read_text()


@pytest.mark.usefixtures("htcondor")
def test_they_are_transferred_by_htcondor(workshop: Workshop) -> None:
    odd = in_a_folder_called(FOLDER, workshop)
    run = odd.run("execution.config={transfer_files: true}", strategy="htcondor")
    assert numbers(run) == odd.local_numbers()


def test_what_a_job_cannot_express_is_refused_before_any_is_submitted(workshop: Workshop, system: BatchSystem) -> None:
    strategy = "htcondor" if isinstance(system, HTCondorPool) else "slurm"
    odd = in_a_folder_called("a\ntouch owned\nqueue\n#SBATCH --wrap=owned", workshop)
    with pytest.raises(CenoteError) as refused:
        odd.run(strategy=strategy)
    assert refused.value.problems[0].kind is JOB_REFUSED
    assert not odd.heard(WorkerRequested)
