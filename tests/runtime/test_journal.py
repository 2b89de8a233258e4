"""The journal survives what kills its writer."""

from __future__ import annotations

from pathlib import Path

import pytest

from cenote.engine.messages import RunStarted, TaskDone, Warned
from cenote.errors import CenoteError
from cenote.runs.folder import RunFolder
from cenote.runs.journal import Journal, read_events

STARTED = RunStarted(at=1.0, run="r", tasks=2)
DONE = TaskDone(at=2.0, task=0, pool="default", worker="default-1", seconds=0.5)


def test_events_come_back_as_they_were_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write([STARTED])
    journal.write([DONE])
    assert list(read_events(tmp_path)) == [STARTED, DONE]
    journal.close()


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
