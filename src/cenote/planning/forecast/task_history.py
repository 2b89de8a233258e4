"""Remember between runs how much memory and time tasks took, in one small database that may vanish at any time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cenote.common.cache_file import CacheFile, forget_the_oldest, rows_with_keys
from cenote.common.values import dataclass
from cenote.planning.fingerprint import digest_of
from cenote.planning.plan import Segment

_TABLE = """
create table if not exists tasks (
    key text not null, size integer not null, events integer not null, peak integer not null, tasks integer not null,
    seconds real not null, at real not null, primary key (key, size)
)
"""
_FORMAT = 2
"""Part of the database's name: another layout starts a new file."""
_MOST_ROWS = 20_000
"""Those that are older than so many others are forgotten: about a megabyte."""


@dataclass(frozen=True)
class Seen:
    """What tasks of about the same size took."""

    events: int
    """Of the task that took the most."""
    peak: int
    """Bytes; 0 where it is not known."""
    tasks: int
    seconds: float = 0.0
    """Of all tasks together."""

    @property
    def size(self) -> int:
        """Tasks whose numbers of events differ by less than a factor of two are alike."""
        return self.events.bit_length()


def task_key(segment: Segment) -> str:
    """What a history is kept under: the operations with their parameters, whatever their stages are called."""
    return digest_of([[step.op, step.params] for step in segment.steps])


class TaskHistory:
    """What tasks took, by key and size of the input. Every failure only means: not known."""

    def __init__(self, folder: Path | None = None) -> None:
        self._cache = CacheFile(f"tasks-{_FORMAT}.sqlite", folder)

    def of(self, keys: Iterable[str]) -> dict[str, tuple[Seen, ...]]:
        """Key → what was seen in the latest runs, small inputs first."""
        wanted = sorted(set(keys))

        def look(database: sqlite3.Connection) -> dict[str, tuple[Seen, ...]]:
            found: dict[str, list[Seen]] = {}
            select = "select key, events, peak, tasks, seconds from tasks"
            for key, *seen in rows_with_keys(database, select, wanted, order="order by events"):
                found.setdefault(key, []).append(Seen(*seen))
            return {key: tuple(seen) for key, seen in found.items()}

        return (self._cache.read(look, unreadable=TypeError) or {}) if wanted else {}

    def add(self, seen: Mapping[str, Sequence[Seen]], *, at: float) -> None:
        """Keep what a run saw: for inputs of the same size it takes the place of what an earlier run saw."""
        rows = [
            (key, one.size, one.events, one.peak, one.tasks, one.seconds, at)
            for key, many in seen.items()
            for one in many
        ]

        def change(database: sqlite3.Connection) -> None:
            database.execute(_TABLE)
            database.executemany("insert or replace into tasks values (?, ?, ?, ?, ?, ?, ?)", rows)
            forget_the_oldest(database, "tasks", keep=_MOST_ROWS)

        if rows:
            self._cache.write(change)
