"""The journal survives what kills its writer."""

from __future__ import annotations

from pathlib import Path

import pytest

from cenote.common.errors import CenoteError
from cenote.engine.messages import RunStarted, TaskDone, TaskReused, TasksAbandoned, Warned
from cenote.engine.tasks import ranges_of, tasks_in
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.journal import Journal, JournalReader, read_events, runs_in

STARTED = RunStarted(at=1.0, run="r", tasks=2)
DONE = TaskDone(at=2.0, task=0, pool="default", worker="default-1", seconds=0.5)


def test_events_come_back_as_they_were_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write([STARTED])
    journal.write([DONE])
    assert list(read_events(tmp_path)) == [STARTED, DONE]
    journal.close()


def test_a_journal_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    lines = (
        '{"type":"RunStarted","at":1.0,"run":"r","plan_digest":"d","tasks":2}',
        '{"type":"TaskReused","at":1.0,"task":0,"spared":true}',
    )
    RunFolder(tmp_path).journal.write_text("\n".join(lines) + "\n")
    assert list(read_events(tmp_path)) == [STARTED, TaskReused(at=1.0, task=0)]


def test_tasks_that_are_left_out_are_kept_as_ranges(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    left_out = [*range(100_000), 100_002]
    event = TasksAbandoned(at=2.0, tasks=ranges_of(left_out), reason="the run was cancelled")
    journal.write([event])
    journal.close()
    assert RunFolder(tmp_path).journal.stat().st_size < 200
    (found,) = read_events(tmp_path)
    assert found == event
    assert list(tasks_in(event.tasks)) == left_out


def test_a_line_that_was_cut_short_is_passed_over_and_does_not_spoil_the_next(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write([STARTED, DONE])
    journal.close()
    path = RunFolder(tmp_path).journal
    path.write_bytes(path.read_bytes()[:-20])
    again = Journal(tmp_path)
    again.write([Warned(at=3.0, message="resumed")])
    again.close()
    assert list(read_events(tmp_path)) == [STARTED, Warned(at=3.0, message="resumed")]


def test_a_folder_without_a_journal_holds_no_run(tmp_path: Path) -> None:
    with pytest.raises(CenoteError, match="holds no run"):
        list(read_events(tmp_path))


def test_only_lines_with_a_word_are_read_where_one_is_asked_for(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write([STARTED, DONE, STARTED])
    journal.close()
    assert list(read_events(tmp_path, naming="RunStarted")) == [STARTED, STARTED]
    assert runs_in(tmp_path) == [STARTED.run, STARTED.run]
    assert runs_in(tmp_path / "none") == []


def test_a_reader_goes_on_where_it_stopped(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write([STARTED])
    reader = JournalReader(tmp_path)
    assert list(reader.news()) == [STARTED]
    journal.write([DONE])
    journal.close()
    assert list(reader.news()) == [DONE]
    assert list(reader.news()) == []
