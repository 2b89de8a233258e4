"""Read with our own reader what it knows, and with uproot the rest.

uproot is imported where a file needs it: trees of numbers do not, and they are most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock
from types import ModuleType

from cenote import errors
from cenote.errors import ErrorKind
from cenote.operations.support.events import Column
from cenote.sources.interface import FileInfo, find_column
from cenote.sources.root_tree.baskets import PlainBranch
from cenote.sources.root_tree.places import Places, read_places
from cenote.sources.root_tree.plain_file import PlainFile, fetch_ahead, forget, plain_file, read_branches
from cenote.sources.root_tree.tree_shape import UnfamiliarError
from cenote.sources.support.content import content_of_few
from cenote.sources.support.files import explained, is_remote

_importing = Lock()


def describe(url: str, tree: str | None) -> FileInfo:
    """Entries, columns and cluster boundaries of the tree, and where its baskets are."""
    if is_remote(url):
        forget(url, tree)  # the stamp of what is kept tells of files of this machine alone
    with explained(url, errors.BAD_INPUT):
        file = _plain_file(url, tree, errors.BAD_INPUT)
        described: FileInfo = _with_uproot().describe(url, tree) if file is None else file.describe()
        return described if described.content else replace(described, content=content_of_few(url, described.size))


def read(url: str, tree: str | None, columns: Sequence[str], start: int, stop: int) -> dict[str, Column]:
    """Exactly these columns; what was found out of the file serves the next range."""
    file = _plain_file(url, tree, errors.UNREADABLE_INPUT)
    if file is None:
        return _read_rest(url, tree, columns, start, stop, {})
    with explained(url, errors.UNREADABLE_INPUT):
        places = Places(file.stamp, _named(file.branches, columns))
    found = _read_places(url, places, start, stop)
    if found is None:
        forget(url, tree)
    return _read_rest(url, tree, columns, start, stop, found or {})


def read_placed(
    url: str, tree: str | None, columns: Sequence[str], start: int, stop: int, places: bytes
) -> dict[str, Column]:
    """The same, at places that were noted; of a file that has changed since, they say nothing."""
    found = _read_places(url, read_places(places), start, stop)
    if found is None:
        return read(url, tree, columns, start, stop)
    return _read_rest(url, tree, columns, start, stop, found)


def fetch_placed(url: str, start: int, stop: int, places: bytes) -> None:
    """Begin to fetch what `read_placed` will be asked for; returns at once."""
    fetch_ahead(url, read_places(places).branches, start, stop)


def are_plain(url: str, tree: str | None, columns: Sequence[str], places: bytes) -> bool:
    """Whether none of these columns is left to uproot."""
    file = None if places else _plain_file(url, tree, errors.UNREADABLE_INPUT)
    branches = read_places(places).branches if places else {} if file is None else _named(file.branches, columns)
    return branches.keys() >= set(columns)


def _read_places(url: str, places: Places, start: int, stop: int) -> dict[str, Column] | None:
    if not places.branches:
        return {}
    with explained(url, errors.UNREADABLE_INPUT):
        return read_branches(url, places.branches, start, stop, identity=places.stamp)


def _read_rest(
    url: str, tree: str | None, columns: Sequence[str], start: int, stop: int, found: Mapping[str, Column]
) -> dict[str, Column]:
    """What is not found yet, by uproot."""
    left = [name for name in columns if name not in found]
    with explained(url, errors.UNREADABLE_INPUT):
        rest = _with_uproot().read(url, tree, left, start, stop) if left else {}
    return {name: found[name] if name in found else rest[name] for name in columns}


def _named(branches: Mapping[str, PlainBranch], columns: Sequence[str]) -> dict[str, PlainBranch]:
    known = {name: find_column(name, branches) for name in columns}
    return {name: branches[found] for name, found in known.items() if found is not None}


def _plain_file(url: str, tree: str | None, kind: ErrorKind) -> PlainFile | None:
    with explained(url, kind):
        try:
            return plain_file(url, tree)
        except UnfamiliarError:  # if anything is wrong with it, uproot's reader will say what
            return None


def _with_uproot() -> ModuleType:
    """Threads that import the same at once can fail."""
    with _importing:
        from cenote.sources.root_tree import reading
    return reading
