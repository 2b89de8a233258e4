"""Write a ROOT file of finished objects, and a histogram of one axis as ROOT's TH1D."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cenote.analysis.products.support.fill_sums import statistics
from cenote.common.arrays import later
from cenote.common.values import dataclass

_BEGIN = 100
_DATIME = 1 << 22 | 1 << 17
"""When it was written, as ROOT has it: the first day that it knows, so that equal contents are equal files."""
_VERSION = 62400
"""Of the ROOT whose layout this is: 6.24."""
_ZLIB_LEVEL_1 = 101
_LAST = 2_000_000_000
"""Where free space ends in files with short addresses."""
_LARGEST = 0xFFFFFF
"""Bytes of an object that is compressed as one block."""
_STREAMERS = Path(__file__).parent / "th1d_streamers.zlib"
"""How ROOT lays out a TH1D and all that it is made of, in ROOT's own form: what every ROOT file says of its classes."""


@dataclass(frozen=True)
class RootObject:
    """An object as it lies in a file, before it is compressed."""

    kind: str
    """Its class: `TH1D`."""
    name: str
    content: bytes

    @property
    def fits(self) -> bool:
        """Whether it can be written here."""
        return len(self.content) <= _LARGEST


@dataclass(frozen=True)
class _Record:
    """What a file is a sequence of: a key, and what follows it."""

    kind: str
    name: str
    title: str
    content: bytes
    length: int
    """Of the content, once it is decompressed."""
    at: int = 0

    def key(self) -> bytes:
        texts = text(self.kind) + text(self.name) + text(self.title)
        size = 26 + len(texts)
        parent = 0 if self.at == _BEGIN else _BEGIN
        whole = size + len(self.content)
        return struct.pack(">iHiIhhii", whole, 4, self.length, _DATIME, size, 1, self.at, parent) + texts

    @property
    def size(self) -> int:
        return len(self.key()) + len(self.content)


def text(value: str) -> bytes:
    """A text in ROOT's form."""
    encoded = value.encode("utf-8", "surrogateescape")
    head = bytes([len(encoded)]) if len(encoded) < 255 else struct.pack(">Bi", 255, len(encoded))
    return head + encoded


def root_file(name: str, objects: Sequence[RootObject]) -> bytes:
    """The content of a file that will have this name."""
    identity = _identity(name, objects)
    head = _Record("TFile", name, "", bytes(len(_directory(name, identity, 0, 0, 0))), 0, _BEGIN)
    head = replace(head, length=len(head.content))
    rows = [head]
    for one in objects:
        rows.append(_after(rows[-1], _compressed(one.kind, one.name, "", one.content)))
    streamers = zlib.decompress(_STREAMERS.read_bytes())
    rows.append(_after(rows[-1], _compressed("TList", "StreamerInfo", "Doubly linked list", streamers)))
    info = rows[-1]
    listed = struct.pack(">i", len(objects)) + b"".join(row.key() for row in rows[1:-1])
    rows.append(_after(info, _Record("TFile", name, "", listed, len(listed))))
    keys = rows[-1]
    free = _after(keys, _Record("TFile", name, "", bytes(10), 10))
    end = free.at + free.size
    rows.append(replace(free, content=struct.pack(">hii", 1, end, _LAST)))
    named = len(head.key()) + len(text(name)) + len(text(""))
    rows[0] = replace(head, content=_directory(name, identity, keys.size, named, keys.at))
    header = struct.pack(
        ">4s7iB3i", b"root", _VERSION, _BEGIN, end, free.at, free.size, 1, named, 4, _ZLIB_LEVEL_1, info.at, info.size
    )
    start = (header + struct.pack(">h", 1) + identity).ljust(_BEGIN, b"\0")
    return start + b"".join(row.key() + row.content for row in rows)


def _after(before: _Record, one: _Record) -> _Record:
    return replace(one, at=before.at + before.size)


def _compressed(kind: str, name: str, title: str, content: bytes) -> _Record:
    packed = zlib.compress(content, 1)
    sizes = len(packed).to_bytes(3, "little") + len(content).to_bytes(3, "little")
    block = b"ZL\x08" + sizes + packed
    return _Record(kind, name, title, block if len(block) < len(content) else content, len(content))


def _directory(name: str, identity: bytes, bytes_of_keys: int, named: int, keys: int) -> bytes:
    """The folder that the file is: its name and title, and where its keys are."""
    facts = struct.pack(">hIIiiiii", 5, _DATIME, _DATIME, bytes_of_keys, named, _BEGIN, 0, keys)
    return text(name) + text("") + facts + struct.pack(">h", 1) + identity + bytes(12)


def _identity(name: str, objects: Sequence[RootObject]) -> bytes:
    """What ROOT calls the UUID of a file: equal files have the same."""
    digest = hashlib.blake2b(name.encode(), digest_size=16)
    for one in objects:
        digest.update(one.name.encode() + one.content)
    return digest.digest()


# Lay out a histogram of one axis as ROOT's TH1D, as uproot does, without importing uproot for it.


if TYPE_CHECKING:
    import hist
else:
    hist = later("hist")

_ATT_AXIS = struct.pack(">ihhhfffffhh", 510, 1, 1, 42, 0.005, 0.035, 0.03, 1.0, 0.035, 1, 42)
_LINE, _FILL, _MARKER = struct.pack(">hhh", 602, 1, 1), struct.pack(">hh", 0, 1001), struct.pack(">hhf", 1, 1, 1.0)
_UNSET = -1111.0
"""ROOT's minimum and maximum of a histogram where nobody has set one."""
_NO_OBJECT = bytes(4)


def th1d(name: str, histogram: Any) -> RootObject | None:  # Any: a hist.Hist, which publishes no types
    """The histogram under a name; None where it is not plain: then uproot knows how."""
    if "/" in name or histogram.ndim != 1 or histogram.storage_type not in (hist.storage.Weight, hist.storage.Double):
        return None
    axis = histogram.axes[0]
    regular = type(axis) is hist.axis.Regular and getattr(axis, "transform", None) is None
    if not (regular or type(axis) is hist.axis.Variable) or axis.traits.circular or axis.traits.growth:
        return None
    if not (axis.traits.underflow and axis.traits.overflow):
        return None
    values = np.asarray(histogram.values(flow=True), ">f8")
    content = _th1(name, histogram, axis, regular=regular) + _array(values)
    found = RootObject("TH1D", name, _versioned(3, content))
    return found if found.fits else None


def _th1(name: str, histogram: Any, axis: Any, *, regular: bool) -> bytes:
    edges, known = axis.edges, statistics(histogram)
    weighted = histogram.storage_type is hist.storage.Weight
    return _versioned(
        8,
        _named(name, histogram.name or "", bits=0x0300_0008)
        + _versioned(2, _LINE)
        + _versioned(2, _FILL)
        + _versioned(2, _MARKER)
        + struct.pack(">i", len(edges) + 1)
        + _axis("xaxis", axis.label, edges, regular=regular)
        + _axis("yaxis", "", np.array([0.0, 1.0]), regular=True)
        + _axis("zaxis", "", np.array([0.0, 1.0]), regular=True)
        + struct.pack(">hh5d3d", 0, 1000, known.entries, *known.sums, _UNSET, _UNSET, 0.0)
        + _array(np.zeros(0))
        + _array(histogram.variances(flow=True) if weighted else np.zeros(0))
        + text("")
        + _versioned(5, _object(0x0301_0000) + text("") + struct.pack(">i", 0))
        + struct.pack(">iBii", 0, 0, 0, 2),
    )


def _axis(name: str, title: str, edges: Any, *, regular: bool) -> bytes:
    return _versioned(
        10,
        _named(name, title, bits=0x0300_0000)
        + _versioned(4, _ATT_AXIS)
        + struct.pack(">idd", len(edges) - 1, edges[0], edges[-1])
        + _array(np.zeros(0) if regular else edges)
        + struct.pack(">iiHB", 0, 0, 0, 0)
        + text("")
        + _NO_OBJECT
        + _NO_OBJECT,
    )


def _named(name: str, title: str, *, bits: int) -> bytes:
    return _versioned(1, _object(bits) + text(name) + text(title))


def _object(bits: int) -> bytes:
    return struct.pack(">hII", 1, 0, bits)


def _versioned(version: int, content: bytes) -> bytes:
    """With how long it is, and of which version of its class."""
    return struct.pack(">Ih", 0x4000_0000 | (len(content) + 2), version) + content


def _array(values: Any) -> bytes:
    return struct.pack(">i", len(values)) + np.asarray(values, ">f8").tobytes()
