"""Describe a prefix: a folder with `bin/python` and everything that it needs."""

from __future__ import annotations

import re
from pathlib import Path

from cenote import storage
from cenote.packing.archive import ANY_PLATFORM
from cenote.values import dataclass

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
