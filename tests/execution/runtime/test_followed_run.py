"""Test that a run can be followed from its folder while somebody else writes it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from builders.plans import a_plan
from cenote.common.errors import CenoteError
from cenote.engine.messages import RunStarted, TaskReused
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.follow import FollowedRun
from cenote.execution.runs.journal import Journal
from cenote.planning.record import PlanRecord


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run that has begun."""
    RunFolder(tmp_path).plan.write_bytes(msgspec.json.encode(PlanRecord.of(a_plan(partitions=4))))
    write(tmp_path, RunStarted(at=1.0, run="r", tasks=5))
    return tmp_path


def write(folder: Path, *events: RunStarted | TaskReused) -> None:
    journal = Journal(folder)
    journal.write(events)
    journal.close()


def test_only_what_is_new_is_read(folder: Path) -> None:
    run = FollowedRun(folder)
    assert run.catch_up().status == "running"
    write(folder, TaskReused(at=2.0, task=0))
    assert run.catch_up().tasks.reused == 1
    assert run.catch_up().tasks.reused == 1


def test_a_line_that_is_still_being_written_is_read_when_it_is_whole(folder: Path) -> None:
    run = FollowedRun(folder)
    line = '{"type":"TaskReused","task":1,"at":2.0}\n'
    with (RunFolder(folder).journal).open("a") as journal:
        journal.write(line[:20])
        journal.flush()
        assert run.catch_up().tasks.reused == 0
        journal.write(line[20:])
    assert run.catch_up().tasks.reused == 1


def test_a_replaced_run_is_read_from_its_start(folder: Path) -> None:
    write(folder, *(TaskReused(at=2.0, task=task) for task in range(4)))
    run = FollowedRun(folder)
    assert run.catch_up().tasks.reused == 4
    (RunFolder(folder).journal).unlink()
    write(folder, RunStarted(at=9.0, run="other", tasks=5))
    assert (run.catch_up().run, run.view.tasks.reused) == ("other", 0)


def test_a_run_is_driven_while_its_lock_is_held(folder: Path) -> None:
    run = FollowedRun(folder)
    assert not run.driven
    with RunFolder(folder).lock():
        assert run.driven
    assert not run.driven


def test_a_folder_without_a_run_or_without_its_plan_is_an_error(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CenoteError, match="holds no run"):
        FollowedRun(tmp_path / "none")
    RunFolder(folder).plan.write_text("{}")
    with pytest.raises(CenoteError, match=r"plan\.json is damaged"):
        FollowedRun(folder)
