"""Hold what a TTree says of its branches, and what it has in common with others."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cenote.values import dataclass

_NUMBER = struct.Struct(">q")


class UnfamiliarError(Exception):
    """Bytes of a layout that is not known here."""


@dataclass(frozen=True)
class LeafRecord:
    """The one leaf of a branch."""

    number: str
    """numpy's word, without the byte order: `f4`."""
    shape: tuple[int, ...]
    counter: str
    """What tells the leaf that says how many there are from others; empty where that is fixed."""
    header: int = 0
    """Bytes before the values of each entry."""


@dataclass(frozen=True)
class BranchRecord:
    """A branch, and where its baskets are."""

    name: str
    leaf: LeafRecord
    bytes: int
    """Uncompressed."""
    entries: NDArray[Any]
    """First entry of each basket, and the end."""
    seeks: NDArray[Any]
    sizes: NDArray[Any]


@dataclass(frozen=True)
class TreeRecord:
    """A tree of plain branches."""

    entries: int
    branches: tuple[BranchRecord, ...]


@dataclass(frozen=True)
class BranchPlaces:
    """Where the numbers of a branch are in the bytes of its tree: all that differs from file to file."""

    name: str
    leaf: LeafRecord
    entries: int
    size: int
    baskets: int
    """How many there are."""
    sizes: int
    starts: int
    seeks: int

    def read(self, data: bytes) -> BranchRecord:
        """The branch in a tree that has its numbers there."""
        (entries,) = _NUMBER.unpack_from(data, self.entries)
        (size,) = _NUMBER.unpack_from(data, self.size)
        sizes = np.frombuffer(data, ">i4", self.baskets, self.sizes)
        starts = np.frombuffer(data, ">i8", self.baskets + 1, self.starts)
        seeks = np.frombuffer(data, ">i8", self.baskets, self.seeks)
        if starts[0] or starts[-1] != entries or not seeks.all():  # the rest is inside the tree itself
            raise UnfamiliarError
        return BranchRecord(self.name, self.leaf, size, starts, seeks, sizes)


@dataclass(frozen=True, eq=False)
class TreeShape:
    """What a tree has in common with those of files that were made alike: everything but a few numbers."""

    key_length: int
    common: NDArray[np.uint8]
    """Its bytes up to the last branch, those of the numbers left out."""
    where: NDArray[np.bool_]
    """Where these are."""
    entries: int
    branches: tuple[BranchPlaces, ...]

    def fits(self, data: bytes, key_length: int) -> bool:
        """Whether a tree is of this shape."""
        if key_length != self.key_length or len(data) < len(self.where):
            return False
        return bool((np.frombuffer(data, np.uint8, len(self.where))[self.where] == self.common).all())

    def read(self, data: bytes) -> TreeRecord:
        """The tree in bytes of this shape."""
        (entries,) = _NUMBER.unpack_from(data, self.entries)
        if entries < 0:
            raise UnfamiliarError
        return TreeRecord(entries, tuple(branch.read(data) for branch in self.branches))
