"""Let programs and libraries find their libraries from where they are themselves, instead of by absolute paths."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import PurePosixPath

_ELF_64_LITTLE = b"\x7fELF\x02\x01"
_LOADED, _DYNAMIC = 1, 2
"""Kinds of segments."""
_END, _STRINGS, _RPATH, _RUNPATH = 0, 5, 15, 29
"""Tags of what is in the dynamic segment."""


def with_own_places(content: bytes, name: str, prefix: bytes) -> bytes:
    """With `$ORIGIN/…` for folders of the prefix, in the lists of folders in which the loader looks for libraries.

    `name` is the file's, from the prefix. A list stays as it is where that would make it longer, or in a file that is
    not ELF of this sort.
    """
    for start, end in _lists(content):
        old = content[start:end]
        new = b":".join(_from_here(folder, name, prefix) for folder in old.split(b":"))
        if len(new) <= len(old):
            content = content[:start] + new.ljust(len(old), b"\0") + content[end:]
    return content


def _from_here(folder: bytes, name: str, prefix: bytes) -> bytes:
    if folder != prefix and not folder.startswith(prefix + b"/"):
        return folder
    inside = os.fsdecode(folder[len(prefix) :]).strip("/") or "."
    return os.fsencode(os.path.join("$ORIGIN", os.path.relpath(inside, PurePosixPath(name).parent)))  # noqa: PTH118


def _lists(content: bytes) -> Iterator[tuple[int, int]]:
    """Where the lists begin and end."""
    if not content.startswith(_ELF_64_LITTLE):
        return
    try:
        segments = _segments(content)
        tags = list(_dynamic(content, segments))
        strings = _offset(dict(tags)[_STRINGS], segments)
        for tag, place in tags:
            if tag in (_RPATH, _RUNPATH):
                yield strings + place, content.index(b"\0", strings + place)
    except (struct.error, KeyError, ValueError, OverflowError):  # cut off, or static: no list
        return


_Segment = tuple[int, int, int, int]
"""Kind, place in the file, address, size."""


def _segments(content: bytes) -> list[_Segment]:
    (table,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    found = []
    for entry in range(table, table + size * count, size):
        kind, _, place, address, _, length = struct.unpack_from("<IIQQQQ", content, entry)
        found.append((kind, place, address, length))
    return found


def _dynamic(content: bytes, segments: list[_Segment]) -> Iterator[tuple[int, int]]:
    for kind, place, _, length in segments:
        if kind == _DYNAMIC:
            for entry in range(place, place + length, 16):
                tag, value = struct.unpack_from("<qQ", content, entry)
                if tag == _END:
                    return
                yield tag, value


def _offset(address: int, segments: list[_Segment]) -> int:
    """Of an address, in the file."""
    for kind, place, start, length in segments:
        if kind == _LOADED and start <= address < start + length:
            return place + address - start
    raise KeyError(address)
