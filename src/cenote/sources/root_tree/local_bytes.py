"""Fetch bytes of files on this machine."""

from __future__ import annotations

import os

from cenote.sources.root_tree.baskets import Fetch
from cenote.sources.root_tree.blocks import DamagedError


def fetch_from(file: int) -> Fetch:
    """From an open file descriptor."""

    def fetch(seek: int, size: int) -> memoryview:
        found = os.pread(file, size, seek)
        if len(found) != size:
            raise DamagedError(f"{size} bytes at byte {seek} are cut short")
        return memoryview(found)

    return fetch
