"""Read what a TTree says of its branches, straight from its bytes.

It knows the layouts that ROOT has written since 2012, branches of one leaf of numbers and vectors of numbers, which is
what most files of today have. At anything else it gives up with `UnfamiliarError`, and uproot is asked, which knows
every layout.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from dataclasses import field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cenote.common.values import dataclass

# Hold what a TTree says of its branches, and what it has in common with others.


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


_HEADER = struct.Struct(">IH")
_TREE_NUMBERS = struct.Struct(">qqqqqdiiiiIqqqqqq")
_BRANCH_NUMBERS = struct.Struct(">iiiiq")
_MORE_BRANCH_NUMBERS = struct.Struct(">iIiqqqq")
_LEAF_NUMBERS = struct.Struct(">iii??")
_VECTOR_NUMBERS = struct.Struct(">Ihiiii")
"""Of a TBranchElement: fCheckSum, fClassVersion, fID, fType, fStreamerType, fMaximum."""
_VECTOR_LEAF = struct.pack(">ii", -1, -1)
"""Of a TLeafElement: fID, fType."""
_TREE_SIZES = 40
"""Bytes of fEntries, fTotBytes, fZipBytes, fSavedBytes, fFlushedBytes, the first of a tree's numbers."""
_LONG = struct.Struct(">i")
_TAG = struct.Struct(">I")
_BYTE_COUNT = 0x4000_0000
_NEW_CLASS = 0xFFFF_FFFF
_CLASS = 0x8000_0000
_MAP_OFFSET = 2
_REFERENCED = 1 << 4
_TREES_WITH_FEATURES = {19: False, 20: True}
"""Versions of TTree → whether they say which features its baskets use."""
_BRANCHES_WITH_FEATURES = {12: False, 13: True}
_NUMBERS = {
    "TLeafO": ("b1", "b1"), "TLeafB": ("i1", "u1"), "TLeafS": ("i2", "u2"), "TLeafI": ("i4", "u4"),
    "TLeafL": ("i8", "u8"), "TLeafG": ("i8", "u8"), "TLeafF": ("f4", "f4"), "TLeafD": ("f8", "f8"),
}  # fmt: skip
"""Classes of leaves → what they hold, signed and unsigned."""
_ELEMENT_VERSION = 10
_VECTORS = {
    "vector<bool>": "b1", "vector<char>": "i1", "vector<unsigned char>": "u1", "vector<short>": "i2",
    "vector<unsigned short>": "u2", "vector<int>": "i4", "vector<unsigned int>": "u4", "vector<long>": "i8",
    "vector<unsigned long>": "u8", "vector<Long64_t>": "i8", "vector<ULong64_t>": "u8", "vector<float>": "f4",
    "vector<double>": "f8",
}  # fmt: skip
"""Classes of vectors → what they hold."""
_VECTOR_HEADER = 10
"""Bytes before the values of each entry: byte count, version, length."""
_TITLE = re.compile(r"[^\[\]]*(?P<counted>\[[A-Za-z_][\w.]*\])?(?P<shape>(?:\[[1-9][0-9]*\])*)")


_last: list[TreeShape] = []
"""The shape that this process met last: of a thousand files made alike, one is parsed."""


def parse_tree(data: bytes, key_length: int) -> TreeRecord:
    """The tree in these bytes, which follow a key of this length."""
    try:
        shape = next((shape for shape in _last if shape.fits(data, key_length)), None)
        if shape is None:
            shape = _Parser(data, key_length).tree()
            _last[:] = [shape]
        return shape.read(data)
    except (struct.error, IndexError, KeyError, ValueError) as problem:  # whatever it is, uproot will say it
        raise UnfamiliarError from problem


@dataclass
class _Parser:
    data: bytes
    origin: int
    """What is added to a position here when another object refers to it."""
    classes: dict[int, str] = field(default_factory=dict)
    leaves: dict[int, LeafRecord] = field(default_factory=dict)
    numbers: list[tuple[int, int]] = field(default_factory=list)
    """Where bytes start and end that differ from file to file."""

    def tree(self) -> TreeShape:
        place, _, version = self.header(0)
        if version not in _TREES_WITH_FEATURES:
            raise UnfamiliarError
        place = self.end_of(place)  # TNamed
        for _ in range(3):  # TAttLine, TAttFill, TAttMarker
            place = self.end_of(place)
        at = place
        ranges = _TREE_NUMBERS.unpack_from(self.data, place)[10]
        self.numbers.append((place, place + _TREE_SIZES))
        place += _TREE_NUMBERS.size + 2 * (1 + 8 * ranges)
        if _TREES_WITH_FEATURES[version]:
            place = self.end_of(place)
        branches = tuple(self.branch(*found) for found in self.objects(place))
        where = np.ones(self.end_of(place), np.bool_)
        for start, stop in self.numbers:
            where[start:stop] = False
        common = np.frombuffer(self.data, np.uint8, len(where))[where]
        return TreeShape(self.origin, common, where, at, branches)

    def branch(self, class_name: str, place: int, own: int) -> BranchPlaces:
        del own  # nothing refers to branches
        if class_name not in ("TBranch", "TBranchElement"):
            raise UnfamiliarError
        found = self.vectors(place) if class_name == "TBranchElement" else self.plain_branch(place)
        if not found.leaf.number:
            raise UnfamiliarError
        return found

    def vectors(self, place: int) -> BranchPlaces:
        place, end, version = self.header(place)
        found = self.plain_branch(place)
        class_name, place = self.text(self.end_of(place))
        parent, place = self.text(place)
        clones, place = self.text(place)
        _, _, number, kind, streamer, _ = _VECTOR_NUMBERS.unpack_from(self.data, place)
        place += _VECTOR_NUMBERS.size
        no_counters = self.data[place:end] == bytes(8)
        usual = (version, parent, clones, number, kind, streamer) == (_ELEMENT_VERSION, "", "", -1, 0, -1)
        if not usual or not no_counters or found.leaf.number or class_name not in _VECTORS:
            raise UnfamiliarError
        leaf = LeafRecord(_VECTORS[class_name], (), f"={found.name}", _VECTOR_HEADER)
        return replace(found, leaf=leaf)

    def plain_branch(self, place: int) -> BranchPlaces:
        place, end, version = self.header(place)
        if version not in _BRANCHES_WITH_FEATURES:
            raise UnfamiliarError
        name, _, place = self.named(place)
        place = self.end_of(place)  # TAttFill
        count = _BRANCH_NUMBERS.unpack_from(self.data, place)[3]
        self.numbers += [(place, place + 12), (place + 16, place + _BRANCH_NUMBERS.size)]  # all but fWriteBasket
        place += _BRANCH_NUMBERS.size
        if _BRANCHES_WITH_FEATURES[version]:
            place = self.end_of(place)
        room = _MORE_BRANCH_NUMBERS.unpack_from(self.data, place)[1]
        at = place + 12
        below = place + _MORE_BRANCH_NUMBERS.size
        leaves = self.end_of(below)
        baskets = self.end_of(leaves)
        if any(True for _ in self.objects(below)) or not 0 <= count < room:
            raise UnfamiliarError
        (leaf,) = (self.leaf(*found) for found in self.objects(leaves))
        sizes = self.end_of(baskets) + 1
        starts = sizes + 4 * room + 1
        seeks = starts + 8 * room + 1
        place = seeks + 8 * room
        if place + 1 != end or self.data[place]:  # the name of another file
            raise UnfamiliarError
        self.numbers += [(at, below), (sizes, starts - 1), (starts, seeks - 1), (seeks, place)]
        return BranchPlaces(name, leaf, at, at + 16, count, sizes, starts, seeks)

    def leaf(self, class_name: str, place: int, own: int) -> LeafRecord:
        """A leaf as an object of its own; one that counts another may have been met there."""
        if not class_name:
            return self.leaves[place]
        place, whole, version = self.header(place)
        place, end, base_version = self.header(place)
        if version != 1 or base_version != 2:
            raise UnfamiliarError
        _, title, place = self.named(place)
        length, _, _, _, unsigned = _LEAF_NUMBERS.unpack_from(self.data, place)
        counter = self.counter(place + _LEAF_NUMBERS.size, end)
        match = _TITLE.fullmatch(title)
        if match is None or bool(match["counted"]) != bool(counter):
            raise UnfamiliarError
        shape = tuple(int(size) for size in match["shape"][1:-1].split("][")) if match["shape"] else ()
        if math.prod(shape) != length:
            raise UnfamiliarError
        if class_name == "TLeafElement" and not counter and not shape and self.data[end:whole] == _VECTOR_LEAF:
            return LeafRecord("", (), "")
        self.numbers.append((end, whole))  # fMinimum, fMaximum
        self.leaves[own] = found = LeafRecord(_NUMBERS[class_name][unsigned], shape, counter)
        return found

    def counter(self, place: int, end: int) -> str:
        if place + 4 == end and self.data[place:end] == b"\0\0\0\0":
            return ""
        class_name, body, after, own = self.pointer(place)
        if after != end:
            raise UnfamiliarError
        self.leaf(class_name, body, own)
        return str(own if class_name else body)

    def objects(self, place: int) -> Iterator[tuple[str, int, int]]:
        """Class, place and name of everything in a TObjArray; no class: the place is the name of one met before."""
        place, end, _ = self.header(place)
        place = self.after_object(place)
        _, place = self.text(place)
        (count,) = _LONG.unpack_from(self.data, place)
        place += 8
        for _ in range(count):
            class_name, body, place, own = self.pointer(place)
            yield class_name, body, own
        if place != end:
            raise UnfamiliarError

    def pointer(self, place: int) -> tuple[str, int, int, int]:
        """The class of an object, where it is, where it ends, and what others call it; no class: what it refers to."""
        own = place + self.origin + _MAP_OFFSET
        (count,) = _TAG.unpack_from(self.data, place)
        if not count & _BYTE_COUNT or count == _NEW_CLASS:
            return "", count, place + 4, own
        (tag,) = _TAG.unpack_from(self.data, place + 4)
        end, body = place + 4 + (count & ~_BYTE_COUNT), place + 8
        if tag == _NEW_CLASS:
            stop = self.data.index(b"\0", body)
            name = self.data[body:stop].decode()
            self.classes[own + 4] = name
            return name, stop + 1, end, own
        if tag & _CLASS:
            return self.classes[tag & ~_CLASS], body, end, own
        return "", tag, end, own

    def header(self, place: int) -> tuple[int, int, int]:
        """Where an object's members start and end, and its version."""
        count, version = _HEADER.unpack_from(self.data, place)
        end = place + 4 + (count & ~_BYTE_COUNT)
        if not count & _BYTE_COUNT or end > len(self.data):
            raise UnfamiliarError
        return place + 6, end, version

    def end_of(self, place: int) -> int:
        return self.header(place)[1]

    def after_object(self, place: int) -> int:
        """A TObject has no byte count."""
        referenced = self.data[place + 9] & _REFERENCED
        return place + (12 if referenced else 10)

    def named(self, place: int) -> tuple[str, str, int]:
        place, end, _ = self.header(place)
        name, place = self.text(self.after_object(place))
        title, place = self.text(place)
        if place != end:
            raise UnfamiliarError
        return name, title, end

    def text(self, place: int) -> tuple[str, int]:
        length = self.data[place]
        place += 1
        if length == 255:
            (length,) = _LONG.unpack_from(self.data, place)
            place += 4
        if length < 0 or place + length > len(self.data):
            raise UnfamiliarError
        return self.data[place : place + length].decode(), place + length
