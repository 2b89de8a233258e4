"""Keep what is remembered between runs: small databases, each of which may vanish at any time."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

from cenote.common import storage

_LOG = logging.getLogger(__name__)
_AT_ONCE = 500
"""Keys per question: SQLite allows some 30,000 variables, older ones 999."""
_PATIENCE = 2.0
"""Seconds to wait for another process that writes."""
Remembered = TypeVar("Remembered")


def cache_folder() -> Path:
    """`$CENOTE_CACHE`, else `cenote` in the user's cache folder."""
    if own := os.environ.get("CENOTE_CACHE"):
        return storage.expanded(own)
    folder = storage.expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return folder / "cenote" if folder.is_absolute() else Path(os.devnull, "cenote")  # no home: nothing is remembered


class CacheFile:
    """One database. Every failure only means: not known."""

    def __init__(self, name: str, folder: Path | None) -> None:
        self._file = (folder or cache_folder()) / name

    def read(
        self, question: Callable[[sqlite3.Connection], Remembered], *, unreadable: type[Exception]
    ) -> Remembered | None:
        """The answer; None where there is no database, or it holds something else: then `unreadable` is raised."""
        if not self._file.exists():
            return None
        try:
            with closing(self._connected()) as database:
                return question(database)
        except (sqlite3.Error, OSError, unreadable) as problem:
            self._discard(problem)
            return None

    def write(self, change: Callable[[sqlite3.Connection], None]) -> None:
        """Make a change, whole or not at all."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connected()) as database, database:
                change(database)
        except (sqlite3.Error, OSError) as problem:
            self._discard(problem)

    def _connected(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._file, timeout=_PATIENCE)
        database.execute("pragma synchronous = off")
        return database

    def _discard(self, problem: Exception) -> None:
        """A broken database is removed, so that the next run has a good one; a locked or read-only one is left."""
        _LOG.info("%s is not used: %s", self._file, problem)
        if isinstance(problem, sqlite3.DatabaseError) and not isinstance(problem, sqlite3.OperationalError):
            with suppress(OSError):
                self._file.unlink()


def rows_with_keys(
    database: sqlite3.Connection, select: str, keys: Sequence[str | bytes], *, order: str = ""
) -> Iterator[tuple[Any, ...]]:  # Any: whatever the columns hold
    """The rows of `select` that have one of these keys, however many; the order holds within each question."""
    for start in range(0, len(keys), _AT_ONCE):
        some = keys[start : start + _AT_ONCE]
        yield from database.execute(f"{select} where key in ({','.join('?' * len(some))}) {order}", some)


def forget_the_oldest(database: sqlite3.Connection, table: str, *, keep: int) -> None:
    """Only so many rows stay, those that were written last (`at`)."""
    oldest = f"select rowid from {table} order by at desc limit -1 offset ?"
    database.execute(f"delete from {table} where rowid in ({oldest})", (keep,))
