"""Keep the columns of ten thousand files small: one schema for all that are alike, and sizes per file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cenote.sources.interface import ColumnInfo, FileInfo
from cenote.values import dataclass


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
