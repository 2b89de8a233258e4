"""Note in which stage a worker process is, where its driver finds it after the process died of whatever cause."""

from __future__ import annotations

import os
import tempfile

_LENGTH = 4
"""Bytes that say how long the name is."""
_LONGEST = 4096


class Whereabouts:
    """A few bytes that driver and worker share by an open file; writing them takes about a microsecond."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def new(cls) -> Whereabouts:
        """Of a worker that will be started, nowhere yet."""
        if hasattr(os, "memfd_create"):
            return cls(os.memfd_create("cenote-stage"))
        with tempfile.TemporaryFile() as file:
            return cls(os.dup(file.fileno()))

    def write(self, stage: str) -> None:
        """Say that this stage begins; an empty one, that none runs."""
        name = stage.encode(errors="replace")[:_LONGEST]
        os.pwrite(self.descriptor, len(name).to_bytes(_LENGTH, "little") + name, 0)

    def read(self) -> str | None:
        """The stage in which the worker is, or died; None where it was in none."""
        length = int.from_bytes(os.pread(self.descriptor, _LENGTH, 0), "little")
        return os.pread(self.descriptor, length, _LENGTH).decode(errors="replace") or None

    def close(self) -> None:
        """Nobody reads it any more."""
        os.close(self.descriptor)
