"""Read files in blocks of rows: looked through once, then only where the rows that are wanted are."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from cenote import errors
from cenote.operations.support.events import Column
from cenote.sources.interface import ColumnInfo, FileInfo, Source
from cenote.sources.support.byte_files import file_size
from cenote.sources.support.content import content_of_few
from cenote.sources.support.files import explained, stamp_of

INDEXES_KEPT = 16
"""Per process."""


class BlockIndex(msgspec.Struct, frozen=True, array_like=True):
    """Where the rows of a file are."""

    stamp: str
    schema: bytes
    """Of the whole file, as Arrow writes it down."""
    starts: tuple[int, ...]
    """First byte of each block, and the end of the last; or the number of the block."""
    rows: tuple[int, ...]
    """First row of each block, and the number of rows."""
    first: int = 0
    """The number of the first of these blocks in the file."""

    @property
    def arrow_schema(self) -> Any:
        """For Arrow."""
        import pyarrow as pa

        return pa.ipc.read_schema(pa.BufferReader(self.schema))

    def cut(self, start: int, stop: int) -> BlockIndex:
        """The blocks that hold these rows; one of them at the least, for the sake of types."""
        begin = max(0, bisect_right(self.rows, start) - 1)
        end = min(max(begin + 1, bisect_left(self.rows, stop)), len(self.rows) - 1)
        begin = min(begin, max(0, end - 1))
        cut = slice(begin, end + 1)
        return BlockIndex(self.stamp, self.schema, self.starts[cut], self.rows[cut], self.first + begin)


class BlockSource(Source):
    """A source whose files are rows in blocks, of which Arrow makes tables."""

    @abstractmethod
    def look_through(self, url: str, stamp: str) -> tuple[BlockIndex, Counter[str], str]:
        """Where the rows of a file are, the bytes of its columns, and its content, where all of it is read for that."""

    @abstractmethod
    def tables(self, url: str, index: BlockIndex, names: tuple[str, ...]) -> Iterable[Any]:
        """These fields of each block, in order. Any: pyarrow publishes no types."""

    def describe(self, url: str) -> FileInfo:
        """Rows and columns, and where they are."""
        from cenote.sources.support.arrow_columns import columns_in, type_at

        with explained(url, errors.BAD_INPUT):
            size = file_size(url)
            index, sizes, content = _looked_through(self, url, self.stamp(url))
            content = content or content_of_few(url, size)
            columns = {
                name: ColumnInfo(str(type_at(index.arrow_schema, path)), max(1, sizes[path[0]]))
                for name, path in columns_in(index.arrow_schema).items()
            }
            boundaries = tuple(dict.fromkeys(index.rows))
            places = msgspec.msgpack.encode(index) if index.stamp else b""
            return FileInfo(url, size, index.stamp, index.rows[-1], columns, boundaries, places, content)

    def read(self, url: str, columns: Sequence[str], start: int, stop: int) -> dict[str, Column]:
        """Exactly these columns; a file that this process has not seen yet is looked through first."""
        with explained(url, errors.UNREADABLE_INPUT):
            file_size(url)
            index, *_ = _looked_through(self, url, stamp_of(url))
            return self._read(url, columns, start, stop, index)

    def cut_places(self, noted: bytes, columns: Sequence[str], ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The blocks of these rows."""
        del columns
        index = msgspec.msgpack.decode(noted, type=BlockIndex)
        return [msgspec.msgpack.encode(index.cut(start, stop)) for start, stop in ranges]

    def read_placed(self, url: str, columns: Sequence[str], start: int, stop: int, places: bytes) -> dict[str, Column]:
        """The blocks alone, if the file is still the one that they were found in."""
        index = msgspec.msgpack.decode(places, type=BlockIndex)
        if stamp_of(url) != index.stamp:
            return self.read(url, columns, start, stop)
        with explained(url, errors.UNREADABLE_INPUT):
            return self._read(url, columns, start, stop, index)

    def _read(self, url: str, columns: Sequence[str], start: int, stop: int, index: BlockIndex) -> dict[str, Column]:
        """Of one row where none is wanted: of no row at all Arrow forgets the type."""
        import pyarrow as pa

        from cenote.sources.support.arrow_columns import columns_read

        def rows(names: Sequence[str]) -> Any:
            blocks = index.cut(start, stop)
            if len(blocks.rows) == 1:
                return pa.schema([index.arrow_schema.field(name) for name in names]).empty_table()
            whole = pa.concat_tables(self.tables(url, blocks, tuple(names)))
            if whole.num_rows != blocks.rows[-1] - blocks.rows[0]:
                raise ValueError("it has changed since it was looked through")
            return whole.slice(start - blocks.rows[0], max(1, stop - start))

        return columns_read(index.arrow_schema, columns, rows, url, wanted=max(0, stop - start))


@lru_cache(maxsize=INDEXES_KEPT)
def _looked_through(source: BlockSource, url: str, stamp: str) -> tuple[BlockIndex, Counter[str], str]:
    """The stamp is part of the key: a file that was rewritten is looked through again."""
    return source.look_through(url, stamp)
