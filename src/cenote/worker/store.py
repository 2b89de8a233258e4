"""This file keeps results under their content hash: written atomically, found again by any later run."""

from __future__ import annotations

import mmap
import os
import pickle
import struct
from collections.abc import Sequence
from io import FileIO
from pathlib import Path
from typing import Any

from cenote import storage

_MAGIC = b"cenote1\n"
_ALIGNED = 64
_MAPPED_FROM = 1 << 20
"""Larger files are mapped rather than read, so that columns are taken from the page cache without a copy."""


Part = bytes | memoryview


class NotPackedError(ValueError):
    """These bytes hold no packed value."""


def pack(value: Any) -> list[Part]:
    """A value as bytes, without a copy: a header, its pickle, then its arrays, each at a multiple of 64 bytes."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    raw = [buffer.raw() for buffer in buffers]
    lengths = [len(body), *(len(part) for part in raw)]
    parts: list[Part] = [_MAGIC + struct.pack(f"<I{len(lengths)}Q", len(lengths), *lengths) + body]
    size = len(parts[0])
    for part in raw:
        gap = -size % _ALIGNED
        parts += [bytes(gap), part]
        size += gap + len(part)
    return parts


def unpack(packed: Part) -> Any:
    """The value again; its arrays are read-only and lie in these bytes."""
    data = memoryview(packed)
    if data[: len(_MAGIC)] != _MAGIC:
        raise NotPackedError
    at = len(_MAGIC)
    (count,) = struct.unpack_from("<I", data, at)
    lengths = struct.unpack_from(f"<{count}Q", data, at + 4)
    at += 4 + 8 * count
    body = data[at : at + lengths[0]]
    at += lengths[0]
    buffers = []
    for length in lengths[1:]:
        at += -at % _ALIGNED
        buffers.append(data[at : at + length])
        at += length
    return pickle.loads(body, buffers=buffers)  # ours: written by this run's own workers


class Store:
    """A folder of results. A result is there entirely or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Where a result of this name lies, or would."""
        return Path(f"{self.folder}/{name[:2]}/{name}")

    def __contains__(self, name: str) -> bool:
        return self.path(name).exists()

    def names(self) -> set[str]:
        """Everything that is there, with one look at each folder."""
        if not self.folder.is_dir():
            return set()
        folders = [entry for entry in os.scandir(self.folder) if entry.is_dir()]
        return {entry.name for folder in folders for entry in os.scandir(folder) if not entry.name.startswith(".")}

    def write(self, name: str, value: Any) -> int:
        """Store a value; returns its size in bytes."""
        return self.write_packed(name, pack(value))

    def write_packed(self, name: str, parts: Sequence[Part]) -> int:
        """Store a value that was packed, here or elsewhere; returns its size in bytes."""
        size = sum(len(part) for part in parts)
        target = self.path(name)
        with storage.appearing(target) as temporary, temporary.open("wb", buffering=0) as file:
            for part in parts if size >= _MAPPED_FROM else [b"".join(parts)]:
                _write_all(file, memoryview(part))
        return size

    def read(self, name: str) -> Any:
        """What was written under this name. The value's arrays are read-only."""
        try:
            return unpack(self.read_packed(name))
        except NotPackedError:
            raise ValueError(f"{self.path(name)} is not a stored result") from None

    def read_packed(self, name: str) -> memoryview:
        """The same, as it lies there."""
        with self.path(name).open("rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size < _MAPPED_FROM:
                return memoryview(file.readall())
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def remove(self, name: str) -> None:
        """Forget a result; one that is gone already is not an error."""
        self.path(name).unlink(missing_ok=True)


def _write_all(file: FileIO, part: memoryview) -> None:
    """Everything: one call writes 2 GB at the most."""
    while part.nbytes:
        part = part[file.write(part) :]
