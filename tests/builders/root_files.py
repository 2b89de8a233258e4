"""Write small ROOT files of the kinds that uproot reads and cannot write, byte by byte.

Tests ask for what other programs leave: a first record at byte 64, leaf lists, lists without offsets, objects of a
class, branches that were never filled. Every branch has the baskets that it is given.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import cramjam
import numpy as np

_BYTE_COUNT = 0x4000_0000
_NEW_CLASS = b"\xff\xff\xff\xff"
_MAP_OFFSET = 2
_NOTHING = struct.pack(">I", 0)
_OBJECT = struct.pack(">HII", 1, 0, 0x0300_0000)
_DATE = 0x7A00_0000
_UUID = struct.pack(">H16x", 1)
_KEY_NUMBERS = struct.Struct(">ihiIhhii")
_BASKET_NUMBERS = struct.Struct(">HiiiiB")

_LEAF_CLASSES = {
    "i1": "TLeafB", "u1": "TLeafB", "i2": "TLeafS", "u2": "TLeafS", "i4": "TLeafI", "u4": "TLeafI", "i8": "TLeafL",
    "u8": "TLeafL", "f4": "TLeafF", "f8": "TLeafD", "b1": "TLeafO",
}  # fmt: skip


@dataclass(frozen=True)
class LeafOfBytes:
    """A number (or several) of each entry."""

    name: str
    type: str
    """numpy's: `f4`, or `f8`; `d32` for a `Double32_t` without a range."""
    length: int = 1
    counted_by: str = ""
    """The leaf (of a branch before) that says how many there are."""


@dataclass(frozen=True)
class Branch:
    """A branch; its baskets are what is in them, big-endian."""

    name: str
    leaves: tuple[LeafOfBytes, ...] = ()
    baskets: tuple[bytes, ...] = ()
    entries: tuple[int, ...] = ()
    """Of each basket."""
    offsets: tuple[tuple[int, ...], ...] = ()
    """Where the entries of each basket begin, in bytes; none where they have one size, or are left out."""
    branches: tuple[Branch, ...] = ()
    class_name: str = ""
    """Of the objects that it holds whole; their layout is among the file's classes."""


@dataclass(frozen=True)
class Member:
    """A member of a class: a base class, an object or a number, as a TStreamerInfo says."""

    name: str
    kind: str
    """`base`, `object`, or numpy's type of a number."""
    type: str = ""
    """The class, for a base or an object."""
    version: int = 0
    """Of a base."""


@dataclass(frozen=True)
class Layout:
    """A class and its members."""

    name: str
    version: int
    members: tuple[Member, ...]


VECTORS = (
    Layout("TVector3", 3, (Member("TObject", "base", "TObject", 1), *(Member(f"f{c}", "f8") for c in "XYZ"))),
    Layout(
        "TLorentzVector",
        4,
        (Member("TObject", "base", "TObject", 1), Member("fP", "object", "TVector3"), Member("fE", "f8")),
    ),
    Layout("TTimeStamp", 1, (Member("fSec", "i4"), Member("fNanoSec", "i4"))),
)
"""Classes of ROOT that files often hold."""


def vector3(x: float, y: float, z: float) -> bytes:
    """A TVector3 as it is stored in an entry."""
    return _versioned(3, _OBJECT + struct.pack(">ddd", x, y, z))


def lorentz_vector(x: float, y: float, z: float, energy: float) -> bytes:
    """A TLorentzVector as it is stored in an entry."""
    return _versioned(4, _OBJECT + vector3(x, y, z) + struct.pack(">d", energy))


def time_stamp(seconds: int, nanoseconds: int) -> bytes:
    """A TTimeStamp as it is stored in an entry."""
    return struct.pack(">ii", seconds, nanoseconds)


def flat(name: str, kind: str, *pieces: Sequence[float], leaf: str = "") -> Branch:
    """A branch of one number per entry, a basket for each piece."""
    stored = np.dtype("f4" if kind == "d32" else kind).newbyteorder(">")
    baskets = tuple(np.asarray(piece).astype(stored).tobytes() for piece in pieces)
    return Branch(name, (LeafOfBytes(leaf or name, kind),), baskets, tuple(map(len, pieces)))


def lists(
    name: str, kind: str, counted_by: str, *pieces: Sequence[Sequence[float]], with_offsets: bool = True
) -> Branch:
    """A branch of lists of numbers, a basket for each piece."""
    stored = np.dtype("f4" if kind == "d32" else kind).newbyteorder(">")
    baskets, offsets = [], []
    for piece in pieces:
        entries = [np.asarray(entry, dtype=stored).tobytes() for entry in piece]
        baskets.append(b"".join(entries))
        offsets.append(tuple(accumulate(map(len, entries[:-1]), initial=0)))
    leaves = (LeafOfBytes(name, kind, counted_by=counted_by),)
    kept = tuple(offsets) if with_offsets else ()
    return Branch(name, leaves, tuple(baskets), tuple(map(len, pieces)), kept)


def objects(name: str, class_name: str, *pieces: Sequence[bytes]) -> Branch:
    """A branch of objects that are not split, a basket for each piece."""
    return Branch(name, (), tuple(map(b"".join, pieces)), tuple(map(len, pieces)), class_name=class_name)


def write_root_file(
    path: Path,
    trees: Mapping[str, tuple[int, Sequence[Branch]]],
    *,
    classes: Sequence[Layout] = VECTORS,
    begin: int = 100,
    compression: str = "",
) -> None:
    """A file of these trees, each with its number of entries and its branches.

    A tree called `folder/name` is in a folder of the file. `begin` is where the first record starts; baskets are
    compressed with `zlib`, `zstd`, or not at all.
    """
    path.write_bytes(_File(path.name, begin, compression).with_trees(trees, classes))


class _File:
    """The bytes of a file, growing at the end."""

    def __init__(self, name: str, begin: int, compression: str) -> None:
        self.begin = begin
        self.compression = compression
        self.name = name
        names = _text(name) + _text("")
        self.name_size = _key_size("TFile", name, "") + len(names)
        self.directory_at = begin
        self.data = bytearray(b"\0" * begin)
        self.record("TFile", name, "", names + b"\0" * 60)

    def record(self, class_name: str, name: str, title: str, payload: bytes) -> tuple[int, bytes]:
        """Append a key and what belongs to it; where it is, and the key alone."""
        seek = len(self.data)
        key = _key(class_name, name, title, len(payload), seek, self.directory_at)
        self.data += key + payload
        return seek, key

    def with_trees(self, trees: Mapping[str, tuple[int, Sequence[Branch]]], classes: Sequence[Layout]) -> bytes:
        keys = [self.tree(name, *tree, self.begin) for name, tree in trees.items() if "/" not in name]
        folders: dict[str, dict[str, tuple[int, Sequence[Branch]]]] = {}
        for path, tree in trees.items():
            if "/" in path:
                folder, _, name = path.partition("/")
                folders.setdefault(folder, {})[name] = tree
        keys += [self.folder(name, inside) for name, inside in folders.items()]
        infos = b"".join(_pointer("TStreamerInfo", _layout(layout)) + b"\0" for layout in classes)
        described = _versioned(5, _OBJECT + _text("") + struct.pack(">i", len(classes)) + infos)
        infos_at, infos_key = self.record("TList", "StreamerInfo", "", described)
        listing = struct.pack(">i", len(keys)) + b"".join(keys)
        listing_at, listing_key = self.record("TFile", self.name, "", listing)
        directory = struct.pack(
            ">hIIiiiii", 5, _DATE, _DATE, len(listing_key + listing), self.name_size, self.begin, 0, listing_at
        )
        start = self.begin + self.name_size
        self.data[start : start + len(directory) + len(_UUID)] = directory + _UUID
        end = len(self.data)
        numbers = (62400, self.begin, end, end, 0, 0, self.name_size, 4, 0, infos_at, len(infos_key + described))
        header = b"root" + struct.pack(">iiiiiiiBiii", *numbers) + _UUID
        self.data[: len(header)] = header
        return bytes(self.data)

    def tree(self, name: str, entries: int, branches: Sequence[Branch], folder_at: int) -> bytes:
        """Append a tree; its key, for the list of its folder."""
        self.directory_at = folder_at
        placed = [self.placed(branch, name) for branch in branches]
        size = _key_size("TTree", name, "")
        return self.record("TTree", name, "", _TreeObject(size).tree(name, entries, placed))[1]

    def folder(self, name: str, trees: Mapping[str, tuple[int, Sequence[Branch]]]) -> bytes:
        """Append a folder and what is in it; its key, for the list of the file."""
        self.directory_at = self.begin
        numbers = struct.Struct(">hIIiiiii")
        at, key = self.record("TDirectory", name, "", b"\0" * (numbers.size + len(_UUID)))
        keys = [self.tree(inner, *tree, at) for inner, tree in trees.items()]
        listing = struct.pack(">i", len(keys)) + b"".join(keys)
        listing_at, listing_key = self.record("TDirectory", name, "", listing)
        self.directory_at = self.begin
        header = numbers.pack(5, _DATE, _DATE, len(listing_key + listing), len(key), at, self.begin, listing_at)
        self.data[at + len(key) : at + len(key) + len(header) + len(_UUID)] = header + _UUID
        return key

    def placed(self, branch: Branch, tree: str) -> _Placed:
        seeks, sizes = [], []
        for number, (data, entries) in enumerate(zip(branch.baskets, branch.entries, strict=True)):
            key_size = _key_size("TBasket", branch.name, tree) + _BASKET_NUMBERS.size
            last = key_size + len(data)
            stored = data
            if branch.offsets:
                places = [key_size + place for place in branch.offsets[number]]
                stored += struct.pack(f">{entries + 2}i", entries + 1, *places, 0)
            packed = _packed(stored, self.compression)
            seeks.append(len(self.data))
            sizes.append(key_size + len(packed))
            head = _key("TBasket", branch.name, tree, len(stored), seeks[-1], self.directory_at, sizes[-1])
            self.data += head + _BASKET_NUMBERS.pack(3, 32000, 1000 if branch.offsets else 0, entries, last, 0) + packed
        below = tuple(self.placed(inner, tree) for inner in branch.branches)
        return _Placed(branch, tuple(seeks), tuple(sizes), below)


@dataclass(frozen=True)
class _Placed:
    """A branch whose baskets are in the file."""

    branch: Branch
    seeks: tuple[int, ...]
    sizes: tuple[int, ...]
    below: tuple[_Placed, ...]


@dataclass
class _TreeObject:
    """Makes the bytes of a TTree. Leaves that count others are referred to by where they are."""

    position: int
    """Where the object will begin: after its key."""
    leaves: dict[str, int] = field(default_factory=dict)

    def tree(self, name: str, entries: int, branches: Sequence[_Placed]) -> bytes:
        before = _named(name, "") + _versioned(2, struct.pack(">hhh", 1, 1, 1))
        before += _versioned(2, struct.pack(">hh", 0, 1001)) + _versioned(2, struct.pack(">hhf", 1, 1, 1.0))
        before += struct.pack(">qqqqqdiiiiIqqqqqq", entries, 0, 0, 0, 0, 1.0, 0, 25, 0, 1000, 0, 0, 0, 0, 0, 0, 0)
        before += b"\0\0"
        own = self.branch_list(branches, self.position + 6 + len(before))
        return _versioned(19, before + own + _object_list(()) + _NOTHING + struct.pack(">ii", 0, 0) + 4 * _NOTHING)

    def branch_list(self, branches: Sequence[_Placed], position: int) -> bytes:
        head = len(_object_list(()))
        made: list[bytes] = []
        for branch in branches:
            made.append(self.branch(branch, position + head + sum(map(len, made))))
        return _object_list(made)

    def branch(self, placed: _Placed, position: int) -> bytes:
        branch = placed.branch
        is_object = bool(branch.class_name)
        class_name = "TBranchElement" if is_object else "TBranch"
        total = sum(branch.entries)
        size = len(branch.baskets)
        room = size + 1
        before = _named(branch.name, "") + _versioned(2, struct.pack(">hh", 0, 1001))
        before += struct.pack(">iiiiq", 0, 32000, 1000 if branch.offsets else 0, size, total)
        before += struct.pack(">iIiqqqq", 0, room, 0, total, 0, sum(map(len, branch.baskets)), sum(placed.sizes))
        headers = 8 + len(class_name) + 1 + 6 + (6 if is_object else 0)
        start = position + headers + len(before)
        before += self.branch_list(placed.below, start)
        before += self.leaf_list(branch, position + headers + len(before)) + _object_list(())
        starts = accumulate(branch.entries, initial=0)
        before += struct.pack(f">B{room}i", 1, *placed.sizes, 0) + struct.pack(f">B{room}q", 1, *starts)
        before += struct.pack(f">B{room}q", 1, *placed.seeks, 0) + _text("")
        body = _versioned(12, before)
        if is_object:
            names = _text(branch.class_name) + _text("") + _text("")
            body = _versioned(10, body + names + struct.pack(">IHiiii", 0, 1, -1, 0, -1, 0) + 2 * _NOTHING)
        return _pointer(class_name, body)

    def leaf_list(self, branch: Branch, position: int) -> bytes:
        head = len(_object_list(()))
        made: list[bytes] = []
        for leaf in branch.leaves:
            at = position + head + sum(map(len, made))
            self.leaves[leaf.name] = at + _MAP_OFFSET
            made.append(self.leaf(leaf))
        if branch.class_name:
            own = _versioned(1, self.leaf_part(LeafOfBytes(f"{branch.name}_", "u1")) + struct.pack(">ii", -1, -1))
            made.append(_pointer("TLeafElement", own))
        return _object_list(made)

    def leaf(self, leaf: LeafOfBytes) -> bytes:
        class_name = "TLeafD32" if leaf.type == "d32" else _LEAF_CLASSES[leaf.type]
        limits = bytes(8) if leaf.type == "d32" else bytes(2 * np.dtype(leaf.type).itemsize)
        return _pointer(class_name, _versioned(1, self.leaf_part(leaf) + limits))

    def leaf_part(self, leaf: LeafOfBytes) -> bytes:
        dimension = f"[{leaf.counted_by}]" if leaf.counted_by else f"[{leaf.length}]" if leaf.length > 1 else ""
        size = 8 if leaf.type == "d32" else np.dtype(leaf.type).itemsize
        counter = struct.pack(">I", self.leaves[leaf.counted_by]) if leaf.counted_by else _NOTHING
        numbers = struct.pack(">iii??", leaf.length, size, 0, bool(leaf.counted_by), leaf.type[0] == "u")
        return _versioned(2, _named(leaf.name, f"{leaf.name}{dimension}") + numbers + counter)


def _layout(layout: Layout) -> bytes:
    """A TStreamerInfo."""
    elements = [_element(member) for member in layout.members]
    return _versioned(
        9,
        _named(layout.name, "") + struct.pack(">Ii", 0, layout.version) + _pointer("TObjArray", _object_list(elements)),
    )


_NUMBERS = {
    "i4": (3, "int"), "u4": (13, "unsigned int"), "i8": (16, "Long64_t"), "f4": (5, "float"), "f8": (8, "double")
}  # fmt: skip


def _element(member: Member) -> bytes:
    """A TStreamerElement of one of three kinds."""
    kind, type_name, size = {
        "base": (66 if member.type == "TObject" else 0, "BASE", 0),
        "object": (62, member.type, 24),
    }.get(
        member.kind,
        (*_NUMBERS.get(member.kind, (0, "")), np.dtype(member.kind).itemsize if member.kind in _NUMBERS else 0),
    )
    base_version = (0, member.version, 0, 0, 0) if member.kind == "base" else (0, 0, 0, 0, 0)
    common = _named(member.name, "") + struct.pack(">iiii5i", kind, size, 0, 0, *base_version) + _text(type_name)
    common = _versioned(4, common)
    if member.kind == "base":
        return _pointer("TStreamerBase", _versioned(3, common + struct.pack(">i", member.version)))
    return _pointer("TStreamerObject" if member.kind == "object" else "TStreamerBasicType", _versioned(2, common))


def _text(value: str) -> bytes:
    encoded = value.encode()
    assert len(encoded) < 255, "longer texts are stored in another way"
    return bytes([len(encoded)]) + encoded


def _versioned(version: int, content: bytes) -> bytes:
    return struct.pack(">IH", (len(content) + 2) | _BYTE_COUNT, version) + content


def _named(name: str, title: str) -> bytes:
    return _versioned(1, _OBJECT + _text(name) + _text(title))


def _pointer(class_name: str, content: bytes) -> bytes:
    """An object with its class before it."""
    tagged = _NEW_CLASS + class_name.encode() + b"\0" + content
    return struct.pack(">I", len(tagged) | _BYTE_COUNT) + tagged


def _object_list(pointers: Iterable[bytes]) -> bytes:
    """A TObjArray."""
    made = list(pointers)
    return _versioned(3, _OBJECT + _text("") + struct.pack(">ii", len(made), 0) + b"".join(made))


def _key_size(class_name: str, name: str, title: str) -> int:
    return _KEY_NUMBERS.size + len(_text(class_name) + _text(name) + _text(title))


def _key(class_name: str, name: str, title: str, size: int, seek: int, directory: int, stored: int = 0) -> bytes:
    """A TKey; `stored`: of a basket, whose own numbers count as part of the key, all bytes as they are in the file."""
    length = _key_size(class_name, name, title) + (_BASKET_NUMBERS.size if stored else 0)
    numbers = _KEY_NUMBERS.pack(stored or length + size, 4, size, _DATE, length, 1, seek, directory)
    return numbers + _text(class_name) + _text(name) + _text(title)


def _packed(data: bytes, compression: str) -> bytes:
    """In one block, or as it is where that is shorter: so ROOT does it."""
    if not compression:
        return data
    tag, packed = {"zlib": (b"ZL\x08", zlib.compress(data)), "zstd": (b"ZS\x01", bytes(cramjam.zstd.compress(data)))}[
        compression
    ]
    block = tag + len(packed).to_bytes(3, "little") + len(data).to_bytes(3, "little") + packed
    return block if len(block) < len(data) else data


def as_table(rows: Iterable[Any], kind: Any) -> bytes:
    """Rows of a leaf list as they are stored: big-endian, without gaps."""
    return np.array(list(rows), dtype=np.dtype(kind)).tobytes()
