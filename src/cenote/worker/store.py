"""This file keeps results under their content hash: written atomically, found again by any later run."""

from __future__ import annotations

import mmap
import os
import pickle
import struct
from pathlib import Path
from typing import Any

_MAGIC = b"cenote1\n"
_MAPPED_FROM = 1 << 20
"""Larger files are mapped rather than read, so that columns are taken from the page cache without a copy."""


class Store:
    """A folder of results. A result is there entirely or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Where a result of this name lies, or would."""
        return self.folder / name[:2] / name

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
        buffers: list[pickle.PickleBuffer] = []
        body = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        raw = [buffer.raw() for buffer in buffers]
        lengths = [len(body), *(len(part) for part in raw)]
        target = self.path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{name}.{os.getpid()}")
        with temporary.open("wb") as file:
            file.write(_MAGIC + struct.pack(f"<I{len(lengths)}Q", len(lengths), *lengths))
            file.write(body)
            for part in raw:
                file.write(b"\0" * (-file.tell() % 64))
                file.write(part)
            size = file.tell()
        temporary.replace(target)
        return size

    def read(self, name: str) -> Any:
        """What was written under this name. The value's arrays are read-only."""
        with self.path(name).open("rb") as file:
            large = os.fstat(file.fileno()).st_size >= _MAPPED_FROM
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if large else file.read())
        if data[: len(_MAGIC)] != _MAGIC:
            raise ValueError(f"{self.path(name)} is not a stored result")
        at = len(_MAGIC)
        (count,) = struct.unpack_from("<I", data, at)
        lengths = struct.unpack_from(f"<{count}Q", data, at + 4)
        at += 4 + 8 * count
        body = data[at : at + lengths[0]]
        at += lengths[0]
        buffers = []
        for length in lengths[1:]:
            at += -at % 64
            buffers.append(data[at : at + length])
            at += length
        return pickle.loads(body, buffers=buffers)  # ours: written by this run's own workers

    def remove(self, name: str) -> None:
        """Forget a result; one that is gone already is not an error."""
        self.path(name).unlink(missing_ok=True)
