"""Read text files in blocks of whole rows."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import xxhash

from cenote.sources.support.blocks import BlockIndex, BlockSource
from cenote.sources.support.byte_files import ByteFile, byte_file

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
