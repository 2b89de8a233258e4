"""Read files that are read whole, as tables of Arrow: text formats have no way to find a row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from cenote import errors
from cenote.operations.support.events import Column
from cenote.sources.interface import ColumnInfo, FileInfo, Source, find_column
from cenote.sources.support.arrow_columns import column_of, columns_in, type_at
from cenote.sources.support.files import explained, is_remote, local_path, local_stamp

TABLES_KEPT = 2
"""Per process: the next range is mostly one of the same file."""


class TableSource(Source):
    """A source whose files are read whole by `table`, once per process, and cut afterwards."""

    @abstractmethod
    def table(self, path: Path) -> Any:  # Any: pyarrow publishes no types
        """The whole file as a table of Arrow."""

    def describe(self, url: str) -> FileInfo:
        """Rows and columns."""
        with explained(url, errors.BAD_INPUT):
            table = self._opened(url)
            paths = columns_in(table.schema)
            sizes = {name: max(1, table.column(path[0]).nbytes) for name, path in paths.items()}
            columns = {name: ColumnInfo(str(type_at(table.schema, path)), sizes[name]) for name, path in paths.items()}
            return FileInfo(url, local_path(url).stat().st_size, local_stamp(url), table.num_rows, columns)

    def read(self, url: str, columns: Sequence[str], start: int, stop: int) -> dict[str, Column]:
        """Exactly these columns; the table is kept for the next range."""
        with explained(url, errors.UNREADABLE_INPUT):
            table = self._opened(url)
            known = columns_in(table.schema)
            return {name: _values(table, known, name, url, start, stop) for name in columns}

    def _opened(self, url: str) -> Any:
        if is_remote(url):
            words = f"{url}: files of this format are read from this machine only"
            raise errors.error(errors.BAD_INPUT, words, hint="copy it, or convert it to parquet or ROOT")
        if local_path(url).is_file() and local_path(url).stat().st_size == 0:
            raise errors.error(errors.BAD_INPUT, f"{url} is empty: a file of 0 bytes")
        return _table(self, url, local_stamp(url))


@lru_cache(maxsize=TABLES_KEPT)
def _table(source: TableSource, url: str, stamp: str) -> Any:  # noqa: ARG001  # see below
    """The stamp is part of the key: a file that was rewritten is read again."""
    return source.table(local_path(url))


def _values(table: Any, known: dict[str, tuple[str, ...]], name: str, url: str, start: int, stop: int) -> Column:
    meant = find_column(name, known)
    if meant is None:
        words = f"{url} has no column '{name}'"
        raise errors.CenoteError(errors.unknown_name(errors.UNREADABLE_INPUT, words, name, known, what="columns there"))
    path = known[meant]
    wanted = max(0, stop - start)
    taken = table.column(path[0]).slice(start, max(1, wanted))  # of no row at all Arrow forgets the type
    return column_of(taken, path[1:])[:wanted]
