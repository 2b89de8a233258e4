"""A stranger on the machine of the driver or on a node gets nothing out of a run on a real batch system."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import cenote
from builders.strangers import can_be_opened_by_another_user, doors_of, processes_of, what_strangers_get
from cenote.engine.messages import TaskStarted

from .conftest import BatchSystem, Workshop, numbers

SECONDS_EACH = "analysis.stages.BuildIndex.params={seconds: 1.5}"
TRANSFERRED = "execution.config={host: 127.0.0.1, poll_every: 2s, transfer_files: true}"
"""HTCondor brings the key of the workers to the node by itself."""


def test_no_port_of_driver_and_workers_answers_strangers_and_no_key_is_readable(
    workshop: Workshop, system: BatchSystem
) -> None:
    words = ["--strategy", system.strategy, "--set", SECONDS_EACH]
    words += ["--set", TRANSFERRED] if system.strategy == "htcondor" else []
    with workshop.driver(*words) as driver:
        workshop.wait_for(TaskStarted)
        (identity,) = (workshop.out / "debug" / "distributed" / "identity").iterdir()
        workers = [process for process in processes_of(identity.stem) if doors_of(process)]
        doors = [door for process in (driver.pid, workers[0]) for door in doors_of(process)]
        keys = [identity, *key_files(workers[0])]
        assert [stat.S_IMODE(key.stat().st_mode) for key in keys] == [0o600] * len(keys)
        if os.geteuid() == 0:
            assert [path for path in (*keys, identity.parent) if can_be_opened_by_another_user(path)] == []
        assert [door.process for door in doors] == [driver.pid, workers[0]], "one port each"
        assert not any(door.is_everywhere for door in doors)
        assert [got for door in doors for got in what_strangers_get(door)] == []
        assert driver.wait(timeout=180) == 0, (workshop.folder / "driver.txt").read_text()
    assert numbers(cenote.open_run(workshop.out)) == workshop.local_numbers()
    assert not identity.exists()


def key_files(worker: int) -> list[Path]:
    """The key that a worker has read, on its node."""
    words = Path(f"/proc/{worker}/cmdline").read_text().split("\0")
    return [Path(words[words.index("--identity") + 1])]
