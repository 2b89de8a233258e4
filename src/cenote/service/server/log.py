"""Write events to SQLite before anything is done about them, so that a killed service goes on where it was.

`append` returns when the events are safe, also from a machine that loses its power; what was decided is appended before
it is done. Records of ended tasks move to an archive, and the rest can be compacted.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Self, TypeVar

import msgspec

from cenote.common import errors, storage
from cenote.common.errors import CenoteError, ErrorKind, Problem
from cenote.service.allocator.messages import ServiceEvent, TaskArchived
from cenote.service.allocator.snapshot import TaskKept
from cenote.service.client.definitions import TaskState
from cenote.service.client.home import ServiceHome
from cenote.service.server.earlier_logs import rewrite_events

LOG_VERSION = 2
"""Of the tables and of the events in them; a log of a higher one is not touched."""
_NAME = "service.sqlite"
_LAST = "service.last"
"""The number of the last event that is safe."""
_TABLES = """
create table events (id integer primary key, at real not null, body blob not null);
create table tasks (id text primary key, name text not null, user text not null, pool text not null,
                    state text not null, submitted real not null, ended real not null, body blob not null);
create index tasks_by_end on tasks (ended);
"""
_EVENTS: msgspec.json.Decoder[ServiceEvent] = msgspec.json.Decoder(ServiceEvent)
_RECORDS = msgspec.json.Decoder(TaskKept)
Found = TypeVar("Found")


class ServiceLog:
    """One service's events and ended tasks, in a folder that only its user can read. One process has it at a time."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / _NAME
        self._folder = folder
        self._lock: IO[str] | None = None
        self._opened: sqlite3.Connection | None = None
        self.missing = 0
        """Events that were here when it was last written, and are not any more: its end was damaged."""

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Make it where there is none; raises where another process has it, or it cannot be read."""
        with storage.writing(self._folder):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.chmod(0o700)
        self._lock = _locked(ServiceHome(self._folder).lock, self._folder)
        try:
            with storage.writing(self._file):
                os.close(os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
                self._file.chmod(0o600)
            with self._explained():
                self._connect()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let others have it; closing twice is not an error."""
        if self._opened is not None:
            self._opened.close()
        if self._lock is not None:
            self._lock.close()
        self._opened = self._lock = None

    def append(self, events: Iterable[ServiceEvent]) -> None:
        """Add events, all or none: when this returns, they are there to stay."""
        with self.change() as database:
            _add(database, events)

    def archive(self, records: Sequence[TaskKept], at: float) -> list[TaskArchived]:
        """Put ended tasks into the archive, and say so in the log: the events are for the allocator.

        One that is there already is not an error.
        """
        if not records:
            return []
        events = [TaskArchived(at=at, task=record.task.id) for record in records]
        with self.change() as database:
            database.executemany(
                "insert or replace into tasks values (?, ?, ?, ?, ?, ?, ?, ?)", (_row(record, at) for record in records)
            )
            _add(database, events)
        return events

    def compact(self, events: Iterable[ServiceEvent]) -> None:
        """Put these in the place of all events so far, or change nothing."""
        with self.change() as database:
            _add(database, events, instead_of=_last(database))  # numbers only grow
        with self._explained():
            self._database.execute("pragma wal_checkpoint(truncate)")

    def read(self) -> Iterator[ServiceEvent]:
        """All events, in order, for `Allocator.replay`."""
        with self._explained():
            for number, body in self._database.execute("select id, body from events order by id"):
                yield _read(_EVENTS, body, f"event {number}", self._file)

    def __len__(self) -> int:
        """How many events it holds: worth compacting when that is many."""
        return int(self.ask("select count(*) from events")[0][0])

    @property
    def latest(self) -> float:
        """When the last event happened; 0 where there is none."""
        return float(self.ask("select coalesce((select at from events order by id desc limit 1), 0.0)")[0][0])

    def ended_task(self, task: str) -> TaskKept | None:
        """The record of one ended task; None where the archive has none."""
        rows = self.ask("select body from tasks where id = ?", task)
        return _read(_RECORDS, rows[0][0], f"task {task}", self._file) if rows else None

    def ending_of(self, task: str) -> TaskState | None:
        """How a task of the archive ended; None where it is not there. For `Allocator.why_never`."""
        rows = self.ask("select state from tasks where id = ?", task)
        return TaskState(rows[0][0]) if rows else None

    def ended_before(self, at: float) -> set[str]:
        """Ids of tasks of the archive that ended before then."""
        with self._explained():
            return {str(name) for (name,) in self._database.execute("select id from tasks where ended < ?", (at,))}

    def latest_ended(self, most: int) -> dict[str, float]:
        """The tasks of the archive that were submitted last → when."""
        rows = self.ask("select id, submitted from tasks order by submitted desc limit ?", most)
        return {name: float(submitted) for name, submitted in rows}

    def ended_meant(self, text: str) -> list[str]:
        """Ids that begin so, and those of tasks with this name, of the tasks that ended last."""
        latest = "select id, name from tasks order by ended desc limit 1000"
        rows = self.ask(f"select id from ({latest}) where name = ? or substr(id, 1, ?) = ?", text, len(text), text)
        return [name for (name,) in rows]

    def ended_tasks(self, *, user: str | None = None, most: int = 100) -> list[TaskKept]:
        """Records of tasks, those first that ended last."""
        where = "" if user is None else "where user = ?"
        given = () if user is None else (user,)
        rows = self.ask(f"select id, body from tasks {where} order by ended desc, id limit ?", *given, most)
        return [_read(_RECORDS, body, f"task {name}", self._file) for name, body in rows]

    @property
    def _database(self) -> sqlite3.Connection:
        if self._opened is None:
            raise AssertionError("the log is not open")
        return self._opened

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """One transaction, also for those who keep tables of their own here."""
        with self._explained():
            self._database.execute("begin immediate")
            try:
                yield self._database
            except BaseException:
                with suppress(sqlite3.Error):
                    self._database.execute("rollback")
                raise
            self._database.execute("commit")
            self._note_last()

    def _note_last(self) -> None:
        """Remember elsewhere how far the log goes: SQLite takes a damaged end of its journal for none. Where that
        cannot be written, an older number stays, which is no harm."""
        with suppress(OSError):
            number = f"{_last(self._database):020}\n".encode()
            descriptor = os.open(self._folder / _LAST, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.pwrite(descriptor, number, 0)
            finally:
                os.close(descriptor)

    def ask(self, question: str, *given: str | int) -> list[tuple[str, ...]]:
        """The rows that answer a question."""
        with self._explained():
            return self._database.execute(question, given).fetchall()

    def _connect(self) -> None:
        # autocommit: transactions begin and end where this file says so
        self._opened = database = sqlite3.connect(self._file, isolation_level=None)
        version = int(database.execute("pragma user_version").fetchone()[0])
        if version > LOG_VERSION:
            hint = "use the newer version, or another folder; nothing was changed"
            message = f"{self._file}: a newer version of Cenote wrote this (format {version}, here {LOG_VERSION})"
            raise CenoteError(Problem(errors.NOT_AVAILABLE, message, hint=hint))
        database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = full")
        if version == 0:
            database.executescript(f"begin immediate; {_TABLES} pragma user_version = {LOG_VERSION}; commit;")
        elif (verdict := database.execute("pragma quick_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(verdict)
        elif version < LOG_VERSION:
            with self.change():
                rewrite_events(database, version)
                database.execute(f"pragma user_version = {LOG_VERSION}")
        self.missing = max(0, _noted(self._folder / _LAST) - _last(database))
        database.execute("create index if not exists tasks_by_submission on tasks (submitted)")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """What SQLite refuses in here is an error about the file."""
        try:
            yield
        except sqlite3.Error as problem:
            raise CenoteError(_problem_of(problem, self._file)) from problem


def _last(database: sqlite3.Connection) -> int:
    """The number of the last event; 0 where there is none."""
    return int(database.execute("select coalesce(max(id), 0) from events").fetchone()[0])


def _noted(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0


def _add(database: sqlite3.Connection, events: Iterable[ServiceEvent], *, instead_of: int = 0) -> None:
    """After the others; or instead of all up to a number."""
    rows = ((event.at, msgspec.json.encode(event)) for event in events)
    database.executemany("insert into events (at, body) values (?, ?)", rows)
    if instead_of:
        database.execute("delete from events where id <= ?", (instead_of,))


def _row(record: TaskKept, at: float) -> tuple[str | float | bytes, ...]:
    task, state = record.task, str(record.state or TaskState.FAILURE)
    ended = record.ended or at
    return task.id, task.name, task.user, task.pool, state, task.submitted, ended, msgspec.json.encode(record)


def _read(decoder: msgspec.json.Decoder[Found], body: str | bytes, what: str, file: Path) -> Found:
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as problem:
        raise CenoteError(_damaged(file, f"{what}: {problem}")) from problem


def _locked(file: Path, folder: Path) -> IO[str]:
    """Hold the lock of a folder for as long as the file is open; the system lets go of it when a process dies."""
    with storage.writing(file):
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    opened = os.fdopen(descriptor, "r+")
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as problem:
        owner = opened.read().strip() or "unknown"
        opened.close()
        message = f"{folder}: another service uses this folder (process {owner})"
        hint = "talk to that one, end it with `cenote serve --stop`, or choose another folder"
        raise CenoteError(Problem(errors.STILL_RUNNING, message, hint=hint)) from problem
    opened.truncate(0)
    opened.write(f"{os.getpid()}\n")
    opened.flush()
    return opened


_REFUSED: dict[int, ErrorKind] = {
    sqlite3.SQLITE_FULL: errors.DISK_FULL,
    sqlite3.SQLITE_READONLY: errors.NO_ACCESS,
    sqlite3.SQLITE_CANTOPEN: errors.NO_ACCESS,
    sqlite3.SQLITE_IOERR: errors.BROKEN_STORAGE,
    sqlite3.SQLITE_BUSY: errors.STILL_RUNNING,
}
"""What SQLite answers → the kind of error. Everything else is a file that is not what it was."""


def _problem_of(problem: sqlite3.Error, file: Path) -> Problem:
    code = getattr(problem, "sqlite_errorcode", 0) & 0xFF  # the rest are details of the same
    if (kind := _REFUSED.get(code)) is None:
        return _damaged(file, str(problem))
    return Problem(kind, f"{file}: {problem}", hint="nothing was lost; correct this, then start the service again")


def _damaged(file: Path, what: str) -> Problem:
    hint = "move the file away to begin with an empty service, or put a copy of it back"
    return Problem(errors.DAMAGED_RUN, f"{file}: the log of the service is damaged: {what}", hint=hint)


# Have events in the log before anything is done about them; where the log cannot be written, both wait.


_LOG = logging.getLogger("cenote.service")
_MAY_PASS = (errors.DISK_FULL, errors.NO_ACCESS, errors.BROKEN_STORAGE, errors.STILL_RUNNING)
"""Kinds of errors after which the log may be written later: somebody makes room, a file system comes back."""


class WriteAhead:
    """What is to be written, and what is to be done then, in one order."""

    def __init__(self, log: ServiceLog) -> None:
        self._log = log
        self._events: list[ServiceEvent] = []
        self._acts: deque[Callable[[], None]] = deque()
        self._turns = 0
        self.trouble = ""
        """Why nothing can be written just now; empty where it can."""

    def add(self, events: Iterable[ServiceEvent], act: Callable[[], None]) -> None:
        """Write these, then do that: at the end of the turn, or as soon as the log can be written."""
        self._events += events
        self._acts.append(act)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """What is added in here is written at its end, in one piece; turns within turns end with the outermost."""
        self._turns += 1
        try:
            yield
        finally:
            self._turns -= 1
            if not self._turns:
                self.flush()

    def flush(self) -> None:
        """Write and do what waits. What cannot be written waits on, with all that comes after it."""
        try:
            while self._events or self._acts:
                if self._events:
                    self._log.append(self._events)
                    self._events.clear()
                self._acts[0]()
                self._acts.popleft()
        except CenoteError as problem:
            first = problem.problems[0]
            if first.kind not in _MAY_PASS:
                raise
            if not self.trouble:
                _LOG.warning("the log cannot be written, and nothing new is begun: %s", first.message)
            self.trouble = first.message
            return
        if self.trouble:
            _LOG.warning("the log can be written again")
            self.trouble = ""

    def refuse_if_stuck(self) -> None:
        """Raise where what is asked for could not be written down."""
        if self.trouble:
            raise errors.error(
                errors.DISK_FULL,
                f"the service cannot write its log: {self.trouble}",
                hint="nothing was changed; make room, then ask again",
            )
