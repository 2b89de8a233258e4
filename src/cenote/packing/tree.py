"""Walk the files of a tree in one order, leaving out what is not packed."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from cenote.values import dataclass

CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
_STATES = {".git", ".hg", ".svn", ".ipynb_checkpoints"}


@dataclass(frozen=True)
class Found:
    """A file, a folder or a link, by its name in the tree."""

    name: str
    path: Path
    facts: os.stat_result
    """Of the link itself, where it is one."""

    @property
    def is_folder(self) -> bool:
        """And no link to one."""
        return stat.S_ISDIR(self.facts.st_mode)

    @property
    def is_link(self) -> bool:
        """A symbolic one."""
        return stat.S_ISLNK(self.facts.st_mode)


Left = Callable[[str], bool]
"""Whether what has this name in the tree is left out, with all that is below it."""


def left_out(patterns: Sequence[str] = (), at_top: frozenset[str] = frozenset()) -> Left:
    """Whatever is a cache, matches one of the patterns, or is one of these at the top of the tree."""

    def is_left_out(name: str) -> bool:
        last = name.rpartition("/")[2]
        if last in CACHES or last in _STATES or name in at_top:
            return True
        return any(fnmatch(name, pattern) for pattern in patterns)

    return is_left_out


def walk(root: Path, is_left_out: Left) -> list[Found]:
    """Files, folders and links, sorted by name; links are not followed, pipes and sockets are none of these."""
    return sorted(_below(str(root), "", is_left_out), key=lambda found: os.fsencode(found.name))


def _below(folder: str, prefix: str, is_left_out: Left) -> Iterator[Found]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = prefix + entry.name
            if is_left_out(name):
                continue
            found = Found(name, Path(entry.path), entry.stat(follow_symlinks=False))
            if found.is_folder:
                yield found
                yield from _below(entry.path, f"{name}/", is_left_out)
            elif found.is_link or stat.S_ISREG(found.facts.st_mode):
                yield found


def stamp(tree: Sequence[Found]) -> str:
    """Changes when a file of the tree does; nothing is read, so that it takes little time."""
    digest = hashlib.sha256()
    for found in tree:
        facts = found.facts
        if found.is_folder:
            words: tuple[object, ...] = (found.name,)
        elif found.is_link:
            words = (found.name, os.readlink(found.path))  # noqa: PTH115  # text is enough
        else:
            words = (found.name, facts.st_size, facts.st_mtime_ns, facts.st_mode & 0o100)
        digest.update(os.fsencode("\0".join(map(str, words))) + b"\n")
    return digest.hexdigest()
