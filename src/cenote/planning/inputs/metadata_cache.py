"""Remember the metadata of files between runs, in one small database that may vanish at any time."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cenote.analysis.sources.interface import ColumnInfo, FileInfo
from cenote.common.cache_file import CacheFile, rows_with_keys
from cenote.common.values import dataclass

# Keep the columns of ten thousand files small: one schema for all that are alike, and sizes per file.


@dataclass(frozen=True)
class ColumnSchema:
    """Names and types of columns, in order, and why some of them cannot be read."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    unreadable: tuple[tuple[str, str], ...] = ()
    """Name and reason."""
    leaves: tuple[tuple[str, str], ...] = ()
    """Name, and what it is called within the branch that holds it."""

    @cached_property
    def positions(self) -> dict[str, int]:
        """Name → position."""
        return {name: position for position, name in enumerate(self.names)}

    @cached_property
    def reasons(self) -> dict[str, str]:
        """Name → why it cannot be read."""
        return dict(self.unreadable)

    @cached_property
    def leaf_names(self) -> dict[str, str]:
        """Name → what it is called within the branch that holds it."""
        return dict(self.leaves)


@dataclass(frozen=True)
class PackedColumns(Mapping[str, ColumnInfo]):
    """The columns of a file as a schema, which many files share, and one number per column."""

    schema: ColumnSchema
    sizes: NDArray[np.float32] = field(compare=False)
    """Uncompressed bytes: seven digits are plenty for choosing partitions."""

    def __getitem__(self, name: str) -> ColumnInfo:
        position = self.schema.positions[name]
        reason, leaf = self.schema.reasons.get(name, ""), self.schema.leaf_names.get(name, "")
        return ColumnInfo(self.schema.types[position], int(self.sizes[position]), reason, leaf)

    def __contains__(self, name: object) -> bool:
        return name in self.schema.positions

    def __iter__(self) -> Iterator[str]:
        return iter(self.schema.names)

    def __len__(self) -> int:
        return len(self.schema.names)


class Packer:
    """Packs files so that those with equal schemas share one."""

    def __init__(self) -> None:
        self._schemas: dict[ColumnSchema, ColumnSchema] = {}

    def pack(self, info: FileInfo) -> FileInfo:
        """The same file, its columns packed."""
        if isinstance(info.columns, PackedColumns):
            return replace(info, columns=replace(info.columns, schema=self.shared(info.columns.schema)))
        types = tuple(column.type for column in info.columns.values())
        unreadable = tuple((name, column.unreadable) for name, column in info.columns.items() if column.unreadable)
        leaves = tuple((name, column.leaf) for name, column in info.columns.items() if column.leaf)
        schema = self.shared(ColumnSchema(tuple(info.columns), types, unreadable, leaves))
        sizes = np.array([column.bytes for column in info.columns.values()], dtype=np.float32)
        return replace(info, columns=PackedColumns(schema, sizes))

    def shared(self, schema: ColumnSchema) -> ColumnSchema:
        """The first schema equal to this one."""
        return self._schemas.setdefault(schema, schema)


def one_of_each_schema(infos: Sequence[FileInfo]) -> list[FileInfo]:
    """The first file of every schema, in order."""
    found: dict[int, FileInfo] = {}
    for info in infos:
        columns = info.columns
        found.setdefault(id(columns.schema if isinstance(columns, PackedColumns) else columns), info)
    return list(found.values())


_TABLES = """
create table if not exists schemas (
    digest blob primary key, names text not null, types text not null, unreadable text not null,
    leaves text not null
);
create table if not exists files (
    key blob primary key, valid text not null, url text not null, stamp text not null, size integer not null,
    entries integer not null, schema blob not null, sizes blob not null, boundaries blob not null,
    content text not null
);
create table if not exists places (key blob primary key, stamp text not null, noted blob not null);
create table if not exists compared (key blob primary key);
create table if not exists checksums (key blob primary key, checksum text not null);
"""
_FORMAT = 7
"""Part of the database's name: another layout, or other words about the same file, start a new database, and leave the
old one to older versions."""
MOST_BYTES_OF_PLACES = 1_000_000_000
"""A NanoAOD file has a hundred thousand baskets: half a megabyte of places."""


class MetadataCache:
    """Metadata by key, as long as the file is the one it was read from. Every failure only means: not known."""

    def __init__(self, folder: Path | None = None) -> None:
        self._cache = CacheFile(f"metadata-{_FORMAT}.sqlite", folder)

    def known(self, wanted: Mapping[bytes, str], packer: Packer) -> dict[bytes, FileInfo]:
        """Key → metadata, for the keys whose validity text is unchanged."""
        return self._cache.read(lambda database: dict(_rows(database, wanted, packer)), unreadable=ValueError) or {}

    def remember(self, found: Sequence[tuple[bytes, str, FileInfo]]) -> None:
        """Keep these: key, validity text and (packed) metadata."""

        def change(database: sqlite3.Connection) -> None:
            database.executescript(_TABLES)
            schemas = {schema: _digest(schema) for schema in {_packed(info).schema for *_, info in found}}
            database.executemany(
                "insert or ignore into schemas values (?, ?, ?, ?, ?)",
                [(digest, *map(json.dumps, _parts(schema))) for schema, digest in schemas.items()],
            )
            database.executemany(
                "insert or replace into files values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [_row(key, valid, info, schemas) for key, valid, info in found],
            )
            database.executemany(
                "insert or replace into places values (?, ?, ?)",
                [(key, info.stamp, info.places) for key, _, info in found if info.places],
            )
            _forget_places(database)

        if found:
            self._cache.write(change)

    def last_entries(self, key: bytes) -> int | None:
        """The events of a file when it was read last, also where it has changed since."""

        def found(database: sqlite3.Connection) -> list[int]:
            return [entries for (entries,) in database.execute("select entries from files where key = ?", (key,))]

        return next(iter(self._cache.read(found, unreadable=ValueError) or ()), None)

    def places(self, wanted: Mapping[bytes, str]) -> dict[bytes, bytes]:
        """Key → where the columns of its file are, as the source noted it, of the file with this stamp."""

        def noted(database: sqlite3.Connection) -> dict[bytes, bytes]:
            rows = rows_with_keys(database, "select key, stamp, noted from places", list(wanted))
            return {key: noted for key, stamp, noted in rows if stamp == wanted[key]}

        return self._cache.read(noted, unreadable=ValueError) or {}

    def compared(self, keys: Iterable[str]) -> set[str]:
        """Those of these files, each with its checksum and stamp, that were found to have it."""
        wanted = {_short(key): key for key in keys}

        def known(database: sqlite3.Connection) -> set[str]:
            return {wanted[key] for (key,) in rows_with_keys(database, "select key from compared", list(wanted))}

        return self._cache.read(known, unreadable=ValueError) or set()

    def remember_compared(self, keys: Iterable[str]) -> None:
        """Keep that these have it."""
        found = [(_short(key),) for key in keys]

        def change(database: sqlite3.Connection) -> None:
            database.executescript(_TABLES)
            database.executemany("insert or replace into compared values (?)", found)

        if found:
            self._cache.write(change)

    def checksums(self, versions: Iterable[str]) -> dict[str, str]:
        """File, as it was when it was read → its checksum, for those that were read."""
        wanted = {_short(version): version for version in versions}

        def known(database: sqlite3.Connection) -> dict[str, str]:
            rows = rows_with_keys(database, "select key, checksum from checksums", list(wanted))
            return {wanted[key]: found for key, found in rows}

        return self._cache.read(known, unreadable=ValueError) or {}

    def remember_checksums(self, found: Mapping[str, str]) -> None:
        """Keep the checksums of these."""

        def change(database: sqlite3.Connection) -> None:
            database.executescript(_TABLES)
            rows = [(_short(version), checksum) for version, checksum in found.items()]
            database.executemany("insert or replace into checksums values (?, ?)", rows)

        if found:
            self._cache.write(change)


def _short(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _forget_places(database: sqlite3.Connection) -> None:
    """Those that were noted first, once all together are too large."""
    (total,) = database.execute("select coalesce(sum(length(noted)), 0) from places").fetchone()
    if total > MOST_BYTES_OF_PLACES:
        half = "select rowid from places order by rowid limit (select count(*) / 2 from places)"
        database.execute(f"delete from places where rowid in ({half})")


def _rows(
    database: sqlite3.Connection, wanted: Mapping[bytes, str], packer: Packer
) -> Iterator[tuple[bytes, FileInfo]]:
    schemas: dict[bytes, ColumnSchema] = {}
    for row in rows_with_keys(database, "select * from files", list(wanted)):
        key, valid, url, stamp, size, entries, digest, sizes, cuts, content = row
        if valid != wanted[key]:
            continue
        schema = schemas.get(digest) or schemas.setdefault(digest, packer.shared(_schema(database, digest)))
        columns = PackedColumns(schema, np.frombuffer(sizes, np.float32))
        boundaries = np.frombuffer(cuts, np.int64).tolist()
        yield key, FileInfo(url, size, stamp, entries, columns, boundaries, content=content)


def _schema(database: sqlite3.Connection, digest: bytes) -> ColumnSchema:
    wanted = "select names, types, unreadable, leaves from schemas where digest = ?"
    names, types, unreadable, leaves = map(json.loads, database.execute(wanted, (digest,)).fetchone())
    return ColumnSchema(tuple(names), tuple(types), tuple(map(tuple, unreadable)), tuple(map(tuple, leaves)))


def _parts(schema: ColumnSchema) -> tuple[object, ...]:
    """In the order of the table."""
    return schema.names, schema.types, schema.unreadable, schema.leaves


def _row(key: bytes, valid: str, info: FileInfo, schemas: Mapping[ColumnSchema, bytes]) -> tuple[object, ...]:
    columns = _packed(info)
    boundaries = np.asarray(info.boundaries, np.int64).tobytes()
    digest = schemas[columns.schema]
    sizes = columns.sizes.tobytes()
    return (key, valid, info.url, info.stamp, info.size, info.entries, digest, sizes, boundaries, info.content)


def _packed(info: FileInfo) -> PackedColumns:
    assert isinstance(info.columns, PackedColumns), "only packed metadata is remembered"
    return info.columns


def _digest(schema: ColumnSchema) -> bytes:
    return _short(json.dumps(_parts(schema)))
