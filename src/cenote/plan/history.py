"""This file remembers between runs how much memory tasks took, in one small database that may vanish at any time."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from cenote.plan.fingerprint import digest_of
from cenote.plan.metadata_cache import cache_folder
from cenote.plan.plan import Segment

_LOG = logging.getLogger(__name__)

_TABLE = """
create table if not exists peaks (
    key text not null, size integer not null, events integer not null, peak integer not null, tasks integer not null,
    at real not null, primary key (key, size)
)
"""
_FORMAT = 1
"""Part of the database's name: another layout starts a new file."""
_MOST_ROWS = 20_000
"""Those that are older than so many others are forgotten: about a megabyte."""
_AT_ONCE = 500
_PATIENCE = 2.0
"""Seconds to wait for another process that writes."""


@dataclass(frozen=True)
class Seen:
    """What tasks of about the same size took."""

    events: int
    """Of the task that took the most."""
    peak: int
    """Bytes."""
    tasks: int

    @property
    def size(self) -> int:
        """Tasks whose numbers of events differ by less than a factor of two are alike."""
        return self.events.bit_length()


def memory_key(segment: Segment) -> str:
    """What a history is kept under: the operations with their parameters, whatever their stages are called."""
    return digest_of([[step.op, step.params] for step in segment.steps])


class MemoryHistory:
    """Peak memory by key and size of the input. Every failure only means: not known."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file = (folder or cache_folder()) / f"memory-{_FORMAT}.sqlite"

    def of(self, keys: Iterable[str]) -> dict[str, tuple[Seen, ...]]:
        """Key → what was seen in the latest runs, small inputs first."""
        wanted = sorted(set(keys))
        found: dict[str, list[Seen]] = {}
        if not wanted or not self._file.exists():
            return {}
        try:
            with closing(self._connected()) as database:
                for first in range(0, len(wanted), _AT_ONCE):
                    some = wanted[first : first + _AT_ONCE]
                    question = f"select key, events, peak, tasks from peaks where key in ({','.join('?' * len(some))})"
                    for key, *seen in database.execute(f"{question} order by events", some):
                        found.setdefault(key, []).append(Seen(*seen))
        except (sqlite3.Error, OSError, TypeError) as problem:
            self._discard(problem)
            return {}
        return {key: tuple(seen) for key, seen in found.items()}

    def add(self, seen: Mapping[str, Sequence[Seen]], *, at: float) -> None:
        """Keep what a run saw: for inputs of the same size it takes the place of what an earlier run saw."""
        rows = [(key, one.size, one.events, one.peak, one.tasks, at) for key, many in seen.items() for one in many]
        if not rows:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connected()) as database, database:
                database.execute(_TABLE)
                database.executemany("insert or replace into peaks values (?, ?, ?, ?, ?, ?)", rows)
                database.execute(
                    "delete from peaks where rowid in (select rowid from peaks order by at desc limit -1 offset ?)",
                    (_MOST_ROWS,),
                )
        except (sqlite3.Error, OSError) as problem:
            self._discard(problem)

    def _connected(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._file, timeout=_PATIENCE)
        database.execute("pragma synchronous = off")
        return database

    def _discard(self, problem: Exception) -> None:
        """A broken database is removed, so that the next run has a good one; a locked or read-only one is left."""
        _LOG.debug("no memory history: %s", problem)
        if isinstance(problem, sqlite3.DatabaseError) and not isinstance(problem, sqlite3.OperationalError):
            with suppress(OSError):
                self._file.unlink()
