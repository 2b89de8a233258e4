"""Describe a prefix, and make its files independent of where it lies: library paths, placeholder."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable, Iterator
from mmap import mmap
from pathlib import Path, PurePosixPath

from cenote.common import storage
from cenote.common.values import dataclass
from cenote.execution.packing.archive import ANY_PLATFORM
from cenote.execution.packing.prefixes.relocate import is_binary

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


# Describe a prefix: a folder with `bin/python` and everything that it needs.


PLACEHOLDER = "/cenote/" + ("placeholder_" * 10)[:109]
"""What stands in packed files for the folder that they are unpacked to: 117 characters."""


_SHEBANG = re.compile(rb"#!(/[^\n]+)/bin/python[^/\n]*\n")
_LONGEST_SHEBANG = 512


@dataclass(frozen=True)
class FilledPrefix:
    """A prefix that is ready to be packed. It is only read."""

    folder: Path
    paths: tuple[str, ...] = ()
    """What stands in its files for its own folder, apart from the placeholder: becomes the placeholder."""
    platform: str = ANY_PLATFORM
    """As conda names it: `linux-64`."""
    exclude: tuple[str, ...] = ()
    """Patterns of files that are left out: `share/doc/*`."""
    unmoved: tuple[str, ...] = ()
    """Patterns of binary files that may go on holding its path here, where they have no room for another."""
    activation: tuple[str, ...] = ()
    """Lines of POSIX shell for those who use it, after the activation scripts of its packages; `"$CENOTE_PREFIX"` is
    the folder on the node."""
    facts: tuple[tuple[str, str], ...] = ()
    """What is recorded of it besides its packages: the hash of its lock, say."""


def paths_of(folder: Path) -> tuple[str, ...]:
    """The paths by which files of a prefix name it: as somebody names it now, without links, and as its scripts do: a
    home folder may be reached by several."""
    found = dict.fromkeys((str(folder), str(storage.resolved(folder))))
    for script in sorted((folder / "bin").iterdir()):
        if script.is_file() and not script.is_symlink():
            with script.open("rb") as file:
                shebang = _SHEBANG.match(file.read(_LONGEST_SHEBANG))
            path = shebang.group(1).decode(errors="surrogateescape") if shebang else ""
            if path and path not in found and storage.resolved(Path(path)) == storage.resolved(folder):
                found[path] = None
    return tuple(found)


# Write the placeholder over the path of a prefix in its files: what is packed is then the same wherever it was.


_PLACEHOLDER = PLACEHOLDER.encode()


class NoRoomError(Exception):
    """A binary file holds the path of its prefix, and has no room for a longer one."""


class PrefixPaths:
    """The texts that mean a prefix in its own files."""

    def __init__(self, paths: Iterable[str]) -> None:
        written = sorted({os.fsencode(path) for path in paths if path} - {_PLACEHOLDER}, key=len, reverse=True)
        self._written, self._all = written, (_PLACEHOLDER, *written)
        # `/home/me/env` is not meant in `/home/me/env-2/lib`; without any, a pattern that matches nothing
        path = b"(?:" + (b"|".join(re.escape(one) for one in written) or b"(?!)") + b")(?![A-Za-z0-9_-])"
        self._path, self._string = re.compile(path), re.compile(path + rb"[^\0]*\0*")

    def are_in(self, content: bytes | mmap) -> bool:
        """Whether one of them is in there, or is the beginning of another path."""
        return any(content.find(path) >= 0 for path in self._all)

    def replaced(self, content: bytes, name: str, *, room: int) -> bytes:
        """With the placeholder for each of them.

        In a binary file, each path had so much `room` when the file was built, and the rest of it is now NULs after its
        string; where nobody knows (0), what can do without a placeholder does. Raises NoRoomError.
        """
        if not is_binary(content):
            return self._path.sub(_PLACEHOLDER, content)
        if not room:
            for path in self._written:
                content = with_own_places(content, name, path)
        return self._string.sub(lambda found: self._in_string(found.group(), room), content)

    def _in_string(self, text: bytes, room: int) -> bytes:
        old = text.rstrip(b"\0")
        new = self._path.sub(_PLACEHOLDER, old)
        if len(new) > len(old) and (room < len(_PLACEHOLDER) or len(new) >= len(text)):
            raise NoRoomError
        return new.ljust(len(text), b"\0")
