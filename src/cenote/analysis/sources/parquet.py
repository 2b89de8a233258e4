"""Read Parquet files, row groups being their boundaries."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from cenote.analysis.operations.support.events import Column
from cenote.analysis.sources.interface import ColumnInfo, FileInfo, Source, known_column
from cenote.analysis.sources.support.arrow_columns import column_of, columns_in, type_at
from cenote.analysis.sources.support.byte_files import content_of_few
from cenote.analysis.sources.support.files import (
    explained,
    file_number,
    is_remote,
    local_path,
    remote_options,
    stamp_of,
)
from cenote.common import errors
from cenote.common.values import dataclass

OPEN_FILES = 8
"""Kept open per process."""


@dataclass(frozen=True, eq=False)
class _OpenFile:
    file: Any  # pyarrow publishes no types
    size: int
    stamp: str
    columns: dict[str, tuple[str, ...]]
    """Column name → path in the schema: `Muon_pt` → `("Muon", "pt")`."""


class ParquetSource(Source):
    """Reads Parquet files. Fields of records and of lists of records are columns with flat names, like `Muon_pt`.

    Missing values make a column optional only where there are some.
    """

    example: ClassVar[str] = """
    sources:
      trips: {kind: parquet}
    """

    def describe(self, url: str) -> FileInfo:
        """Rows, columns and row groups."""
        with explained(url, errors.BAD_INPUT):
            opened = _opened(url, stamp_of(url), file_number(url))
            metadata = opened.file.metadata
            sizes = _sizes(metadata)
            columns = {
                name: ColumnInfo(str(type_at(opened.file.schema_arrow, path)), sizes[path])
                for name, path in opened.columns.items()
            }
            groups = (metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
            boundaries = tuple(dict.fromkeys(accumulate(groups, initial=0)))
            # Footers have no checksums of the values: files that differ in some of them may well have the same one.
            content = content_of_few(url, opened.size)
            return FileInfo(url, opened.size, opened.stamp, metadata.num_rows, columns, boundaries, content=content)

    def read(self, url: str, columns: Sequence[str], start: int, stop: int) -> dict[str, Column]:
        """Exactly these columns; the file stays open for the next range."""
        with explained(url, errors.UNREADABLE_INPUT):
            opened = _opened(url, stamp_of(url), file_number(url))
            paths = {name: opened.columns[known_column(name, opened.columns, url)] for name in columns}
            table = _rows(opened.file, list(dict.fromkeys(paths.values())), start, stop)
            return {name: column_of(table.column(path[0]), path[1:]) for name, path in paths.items()}


@lru_cache(maxsize=OPEN_FILES)
def _opened(url: str, stamp: str, _number: int) -> _OpenFile:
    """Stamp and number are part of the key: a file that was rewritten, or is another one, is opened again."""
    if is_remote(url):
        return _opened_remote(url, stamp)
    path = local_path(url)
    size = path.stat().st_size
    if size == 0:
        raise errors.error(errors.BAD_INPUT, f"{url} is empty: a file of 0 bytes")
    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as problem:
        raise errors.error(
            errors.BAD_INPUT,
            f"{url} is not a Parquet file, or is cut short",
            hint="copy it again, or wait until its writer has closed it",
        ) from problem
    return _closing(_OpenFile(file, size, stamp, columns_in(file.schema_arrow)))


def _opened_remote(url: str, stamp: str) -> _OpenFile:
    import fsspec  # with asyncio, which files of this machine do without

    filesystem, path = fsspec.core.url_to_fs(url, **remote_options(url))
    size = int(filesystem.info(path).get("size") or 0)
    file = pq.ParquetFile(filesystem.open(path, "rb"), pre_buffer=True)
    return _closing(_OpenFile(file, size, stamp, columns_in(file.schema_arrow)))


def _closing(opened: _OpenFile) -> _OpenFile:
    weakref.finalize(opened, opened.file.close, force=True)
    return opened


def _sizes(metadata: Any) -> Counter[tuple[str, ...]]:
    """Uncompressed bytes by path; `list.element` and the like, which the format puts between, are left out."""
    sizes: Counter[tuple[str, ...]] = Counter()
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for number in range(row_group.num_columns):
            chunk = row_group.column(number)
            sizes[_schema_path(chunk.path_in_schema)] += chunk.total_uncompressed_size
    return sizes


def _schema_path(path_in_schema: str) -> tuple[str, ...]:
    parts = path_in_schema.split(".")
    kept = [parts[0]]
    position = 1
    while position < len(parts):
        if parts[position] == "list" and position + 1 < len(parts) and parts[position + 1] in ("element", "item"):
            position += 2
        else:
            kept.append(parts[position])
            position += 1
    return tuple(kept)


def _rows(file: Any, paths: list[tuple[str, ...]], start: int, stop: int) -> Any:
    """A table of rows [start, stop), from the row groups that hold them."""
    metadata = file.metadata
    ends = list(accumulate(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)))
    begins = [0, *ends[:-1]]
    groups = [
        group for group, (begin, end) in enumerate(zip(begins, ends, strict=False)) if begin < stop and end > start
    ]
    wanted = set(paths)
    leaves = [
        file.schema.column(number).path
        for number in range(len(file.schema))
        if _schema_path(file.schema.column(number).path) in wanted
    ]
    table = file.read_row_groups(groups, columns=leaves, use_threads=False)
    offset = start - begins[groups[0]] if groups else 0
    return table.slice(offset, max(0, stop - start))
