"""The log of the service: what was appended stays, whatever becomes of the process."""

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from builders.service import ServiceStory, a_service_pool, a_task
from cenote.common.errors import CenoteError
from cenote.engine.messages import Tick
from cenote.service.allocator.allocator import Allocator
from cenote.service.allocator.messages import PoolAdded, TaskAdded
from cenote.service.allocator.queued_task import restored_task
from cenote.service.allocator.reasons import view_instances, view_task
from cenote.service.client.definitions import InstanceState, TaskState
from cenote.service.server.log import LOG_VERSION, ServiceLog

WRITER = """
import sys
from pathlib import Path
from cenote.engine.messages import Tick
from cenote.service.server.log import ServiceLog

log = ServiceLog(Path(sys.argv[1]))
log.open()
number = 0
while True:
    log.append([Tick(at=float(number)), Tick(at=float(number))])
    print(number, flush=True)
    number += 1
"""


def a_played_story() -> ServiceStory:
    story = ServiceStory()
    story.add_pool(a_service_pool())
    story.add_task(a_task("one", 3, retries=1, constants={"CUT": "ä > 5"}))
    story.end("one", 0, code=2, message="odd")
    return story


def test_events_come_back_as_they_were(tmp_path: Path) -> None:
    story = a_played_story()
    with ServiceLog(tmp_path) as log:
        log.append(story.log[:3])
        log.append(story.log[3:])
    with ServiceLog(tmp_path) as log:
        assert list(log.read()) == story.log
        assert len(log) == len(story.log)


def test_a_log_whose_end_was_damaged_says_how_much_is_missing(tmp_path: Path) -> None:
    folder, copy = tmp_path / "service", tmp_path / "copy"
    with ServiceLog(folder) as log:
        log.append(Tick(at=float(number)) for number in range(5))
        for number in range(5, 8):
            log.append([Tick(at=float(number))])
        shutil.copytree(folder, copy)  # as a service that was killed leaves it
    journal = copy / "service.sqlite-wal"
    content = bytearray(journal.read_bytes())
    content[-100] ^= 0xFF  # in the last page that was written
    journal.write_bytes(content)

    with ServiceLog(copy) as log:
        assert (len(log), log.missing) == (7, 1)
        log.append([Tick(at=9.0)])
    with ServiceLog(copy) as log:
        assert log.missing == 0


def test_a_log_that_was_compacted_or_killed_misses_nothing(tmp_path: Path) -> None:
    folder, copy = tmp_path / "service", tmp_path / "copy"
    with ServiceLog(folder) as log:
        log.append(Tick(at=float(number)) for number in range(5))
        log.compact([Tick(at=5.0)])
        shutil.copytree(folder, copy)

    for place in (folder, copy):
        with ServiceLog(place) as log:
            assert ([event.at for event in log.read()], log.missing) == ([5.0], 0)


def test_a_compacted_log_leads_to_the_same_state(tmp_path: Path) -> None:
    story = a_played_story()
    with ServiceLog(tmp_path) as log:
        log.append(story.log)
        log.compact(story.allocator.compacted())
        assert len(log) < len(story.log)
    with ServiceLog(tmp_path) as log:
        assert Allocator.replay(log.read()).compacted() == story.allocator.compacted()


def test_everything_is_for_its_user_only(tmp_path: Path) -> None:
    folder = tmp_path / "service"
    with ServiceLog(folder) as log:
        log.append([Tick(at=1.0)])
        modes = {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_was_appended_outlives_a_killed_process(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child, child.stdout as lines:
        for _ in range(25):
            last = int(next(lines))
        child.send_signal(signal.SIGKILL)
        rest = [int(line) for line in lines if line.endswith("\n")]

    with ServiceLog(tmp_path) as log:
        found = [event.at for event in log.read()]
    confirmed = max([last, *rest])
    assert found[: 2 * (confirmed + 1)] == [float(number // 2) for number in range(2 * (confirmed + 1))]
    assert len(found) in (2 * (confirmed + 1), 2 * (confirmed + 2))


def test_events_of_one_call_are_added_together_or_not_at_all(tmp_path: Path) -> None:
    def some_and_an_error() -> object:
        yield Tick(at=1.0)
        raise KeyError("half way")

    with ServiceLog(tmp_path) as log:
        with pytest.raises(KeyError):
            log.append(some_and_an_error())  # type: ignore[arg-type]  # what breaks is the point
        log.append([Tick(at=2.0)])
        assert list(log.read()) == [Tick(at=2.0)]


def test_only_one_process_has_it_and_the_error_names_that_one(tmp_path: Path) -> None:
    with ServiceLog(tmp_path), pytest.raises(CenoteError, match=f"another service .*process {os.getpid()}"):
        ServiceLog(tmp_path).open()
    with ServiceLog(tmp_path) as log:
        assert len(log) == 0


def test_a_damaged_file_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "service.sqlite"
    file.write_bytes(b"this is no database" * 100)

    with pytest.raises(CenoteError, match=r"service\.sqlite: the log of the service is damaged"):
        ServiceLog(tmp_path).open()
    assert file.read_bytes() == b"this is no database" * 100


def test_pages_that_were_overwritten_are_noticed(tmp_path: Path) -> None:
    with ServiceLog(tmp_path) as log:
        log.append([TaskAdded(at=1.0, task=a_task(f"task-{number}")) for number in range(500)])
    file = tmp_path / "service.sqlite"
    content = bytearray(file.read_bytes())
    content[8192:20000] = os.urandom(20000 - 8192)
    file.write_bytes(content)

    with pytest.raises(CenoteError, match="damaged"), ServiceLog(tmp_path) as log:
        list(log.read())


def test_an_event_that_makes_no_sense_is_named(tmp_path: Path) -> None:
    with ServiceLog(tmp_path) as log:
        log.append([PoolAdded(at=1.0, pool=a_service_pool()), Tick(at=2.0)])
    with sqlite3.connect(tmp_path / "service.sqlite") as database:
        database.execute("""update events set body = '{"type": "Unheard", "at": 1.0}' where id = 2""")
    database.close()

    with ServiceLog(tmp_path) as log, pytest.raises(CenoteError, match="damaged: event 2: "):
        list(log.read())


def test_a_log_of_a_newer_version_is_not_touched(tmp_path: Path) -> None:
    with ServiceLog(tmp_path) as log:
        log.append([Tick(at=1.0)])
    with sqlite3.connect(tmp_path / "service.sqlite") as database:
        database.execute(f"pragma user_version = {LOG_VERSION + 1}")
    database.close()

    with pytest.raises(CenoteError, match="a newer version of Cenote wrote this"):
        ServiceLog(tmp_path).open()


def test_ended_tasks_are_in_the_archive_with_their_instances(tmp_path: Path) -> None:
    story = ServiceStory()
    story.add_pool(a_service_pool())
    story.add_task(a_task("one", 2))
    story.end("one", 0)
    story.end("one", 1, code=7, message="no luck")
    with ServiceLog(tmp_path) as log:
        story.after(*log.archive([story.allocator.record_of("one")], at=story.now))
        log.archive([log.ended_task("one") or pytest.fail("it is not there")], at=story.now)
    with ServiceLog(tmp_path) as log:
        record = log.ended_task("one")
        assert record is not None
        assert log.ended_tasks(user="ada") == [record]
        assert log.ended_tasks(user="bob") == []
        assert (log.ending_of("one"), log.ending_of("two")) == (TaskState.FAILURE, None)
    task = restored_task(record)
    assert view_task(task).state is TaskState.FAILURE
    assert [(view.state, view.exit_code, view.message) for view in view_instances(task)] == [
        (InstanceState.SUCCEEDED, 0, ""),
        (InstanceState.FAILED, 7, "no luck"),
    ]
    assert story.allocator.task("one") is None
