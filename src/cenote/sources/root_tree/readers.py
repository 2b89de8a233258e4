"""Read with our own reader what it knows, and with uproot the rest.

uproot is imported where a file needs it: trees of numbers do not, and they are most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from types import ModuleType

from cenote import errors
from cenote.operations.support.events import Column
from cenote.sources.interface import FileInfo, find_column
from cenote.sources.root_tree.baskets import PlainBranch
from cenote.sources.root_tree.places import read_places
from cenote.sources.root_tree.plain_file import PlainFile, plain_file, read_branches
from cenote.sources.root_tree.tree_record import UnfamiliarError
from cenote.sources.support.files import explained, is_remote, local_stamp

_importing = Lock()


def describe(url: str, tree: str | None) -> FileInfo:
    """Entries, columns and cluster boundaries of the tree, and where its baskets are."""
    file = _plain_file(url, tree)
    described: FileInfo = _with_uproot().describe(url, tree) if file is None else file.describe()
    return described


def read(url: str, tree: str | None, columns: Sequence[str], start: int, stop: int) -> dict[str, Column]:
    """Exactly these columns; what was found out of the file serves the next range."""
    file = _plain_file(url, tree)
    plain = {} if file is None else _named(file.branches, columns)
    return _read(url, tree, columns, start, stop, plain)


def read_placed(
    url: str, tree: str | None, columns: Sequence[str], start: int, stop: int, places: bytes
) -> dict[str, Column]:
    """The same, at places that were noted; of a file that has changed since, they say nothing."""
    with explained(url, errors.UNREADABLE_INPUT):
        known = read_places(places)
        unchanged = known.stamp == local_stamp(url)
    if not unchanged:
        return read(url, tree, columns, start, stop)
    return _read(url, tree, columns, start, stop, known.branches)


def _read(
    url: str, tree: str | None, columns: Sequence[str], start: int, stop: int, plain: Mapping[str, PlainBranch]
) -> dict[str, Column]:
    with explained(url, errors.UNREADABLE_INPUT):
        found = read_branches(url, plain, start, stop) if plain else {}
    if left := [name for name in columns if name not in found]:
        found |= _with_uproot().read(url, tree, left, start, stop)
    return {name: found[name] for name in columns}


def _named(branches: Mapping[str, PlainBranch], columns: Sequence[str]) -> dict[str, PlainBranch]:
    known = {name: find_column(name, branches) for name in columns}
    return {name: branches[found] for name, found in known.items() if found is not None}


def _plain_file(url: str, tree: str | None) -> PlainFile | None:
    if is_remote(url):
        return None
    try:
        return plain_file(url, tree)
    except (UnfamiliarError, OSError):  # if anything is wrong, uproot's reader will say what
        return None


def _with_uproot() -> ModuleType:
    """Threads that import the same at once can fail."""
    with _importing:
        from cenote.sources.root_tree import reading
    return reading
