"""Write the placeholder over the path of a prefix in its files: what is packed is then the same wherever it was."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from mmap import mmap

from cenote.packing.prefixes.library_paths import with_own_places
from cenote.packing.prefixes.prefix import PLACEHOLDER
from cenote.packing.prefixes.relocate import is_binary

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
