"""Read text files in blocks of whole rows: looked through once, then only where wanted rows are."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import msgspec
import xxhash

from cenote.analysis.operations.support.events import Column
from cenote.analysis.sources.interface import ColumnInfo, FileInfo, Source
from cenote.analysis.sources.support.byte_files import ByteFile, byte_file, content_of_few, file_size
from cenote.analysis.sources.support.files import explained, stamp_of
from cenote.common import errors

# Read files in blocks of rows: looked through once, then only where the rows that are wanted are.


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
        from cenote.analysis.sources.support.arrow_columns import columns_in, type_at

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

        from cenote.analysis.sources.support.arrow_columns import columns_read

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


BLOCK = 1 << 20
"""Bytes of text that are parsed at once, and a row more."""
BLOCKS_AT_ONCE = 8
"""That are fetched together."""
BLOCKS_KEPT = 2
"""Per process, as tables: small ranges of events are mostly neighbours."""


class TextSource(BlockSource):
    """A source whose files are rows of text, one after the other."""

    @abstractmethod
    def parse(self, text: bytes, names: Sequence[str] | None) -> Any:  # Any: pyarrow publishes no types
        """A table of Arrow out of some rows, with types as these rows suggest them. The first rows of a file may have
        a header before them, which gives the names; for other rows they are known."""

    @abstractmethod
    def parse_as(self, text: bytes, schema: Any, columns: Sequence[str], *, first: bool) -> Any:
        """The same with the types of a schema, and these columns alone."""

    @abstractmethod
    def merged(self, schemas: Sequence[Any]) -> Any:
        """The schema that rows with any of these fit in."""

    @abstractmethod
    def row_end(self, text: bytes) -> int | None:
        """Where the last whole row of this text ends; 0 where none does yet, None where the file cannot be cut."""

    def look_through(self, url: str, stamp: str) -> tuple[BlockIndex, Counter[str], str]:
        """Parse all of it: every row may have a say in the types."""
        sizes: Counter[str] = Counter()
        starts, rows, schemas = [0], [0], dict[Any, None]()
        seen = xxhash.xxh3_128()
        with byte_file(url) as file:
            for text in _blocks(self, file):
                table = self.parse(text, next(iter(schemas)).names if schemas else None)
                schemas[table.schema] = None
                seen.update(text)
                sizes.update({name: table.column(name).nbytes for name in table.column_names})
                starts.append(starts[-1] + len(text))
                rows.append(rows[-1] + table.num_rows)
        schema = self.merged(list(schemas)).serialize().to_pybytes()
        return BlockIndex(stamp, schema, tuple(starts), tuple(rows)), sizes, f"text-{seen.hexdigest()}"

    def tables(self, url: str, index: BlockIndex, names: tuple[str, ...]) -> Iterator[Any]:
        """One by one; few of them are kept for the next range."""
        blocks = len(index.rows) - 1
        if blocks <= BLOCKS_KEPT:
            for number in range(blocks):
                yield _kept(self, url, index.cut(index.rows[number], index.rows[number + 1]), names)
        else:
            yield from _parsed(self, url, index, names)


@lru_cache(maxsize=BLOCKS_KEPT)
def _kept(source: TextSource, url: str, index: BlockIndex, names: tuple[str, ...]) -> Any:
    (table,) = _parsed(source, url, index, names)
    return table


def _parsed(source: TextSource, url: str, index: BlockIndex, names: tuple[str, ...]) -> Iterator[Any]:
    schema = index.arrow_schema
    for number, text in enumerate(_texts(url, index.starts), start=index.first):
        yield source.parse_as(text, schema, names, first=number == 0)


def _texts(url: str, starts: Sequence[int]) -> Iterator[bytes]:
    """Each block."""
    with byte_file(url) as file:
        for begin in range(0, len(starts) - 1, BLOCKS_AT_ONCE):
            places = starts[begin : begin + BLOCKS_AT_ONCE + 1]
            text = file.read_at(places[0], places[-1] - places[0])
            yield from (text[start - places[0] : stop - places[0]] for start, stop in pairwise(places))


def _blocks(source: TextSource, file: ByteFile) -> Iterator[bytes]:
    """The text of a file, cut between rows; what follows the last end of a row is the last row."""
    start, rest, can_be_cut = 0, bytearray(), True
    while more := file.read_at(start, BLOCK):
        start += len(more)
        rest += more
        end = source.row_end(bytes(rest)) if can_be_cut and len(more) == BLOCK else 0
        can_be_cut = can_be_cut and end is not None
        if end:
            yield bytes(rest[:end])
            del rest[:end]
    if rest:
        yield bytes(rest)
