"""Describe and read one tree with uproot: the plain branches of files on this machine by their baskets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cenote.analysis.operations.support.events import Column
from cenote.analysis.sources.interface import FileInfo, find_column
from cenote.analysis.sources.root_tree import rntuple as _rntuple
from cenote.analysis.sources.root_tree import ttree as _ttree
from cenote.analysis.sources.root_tree.open_file import OpenTree, open_tree
from cenote.analysis.sources.root_tree.places import boundaries, note
from cenote.analysis.sources.support.files import is_remote
from cenote.common import errors


def describe(url: str, tree: str | None) -> FileInfo:
    """Entries, columns and cluster boundaries of the tree."""
    # The stamp of what is kept open tells of files of this machine alone.
    opened = open_tree(url, tree, kind=errors.BAD_INPUT, anew=is_remote(url))
    found = _columns(opened)
    entries = int(opened.tree.num_entries)
    if opened.is_rntuple:
        columns = _rntuple.describe(opened, found)
        cuts, content = _rntuple.boundaries(opened), _rntuple.content(opened)
        return FileInfo(url, opened.size, opened.stamp, entries, columns, cuts, content=content)
    places = b"" if is_remote(url) else note(opened.stamp, _ttree.places(found))
    cuts = boundaries(_ttree.starts(found), entries)
    content = _ttree.content(opened)
    return FileInfo(url, opened.size, opened.stamp, entries, _ttree.describe(found), cuts, places, content)


def read(url: str, tree: str | None, columns: Sequence[str], start: int, stop: int) -> dict[str, Column]:
    """Exactly these columns; the file stays open for the next range."""
    opened = open_tree(url, tree, kind=errors.UNREADABLE_INPUT)
    chosen = {name: _one(opened, name) for name in columns}
    read = _rntuple.read if opened.is_rntuple else _ttree.read
    return read(opened, chosen, start, stop, kind=errors.UNREADABLE_INPUT)


def _columns(opened: OpenTree) -> dict[str, Any]:  # Any: branches of uproot, which publishes no types
    if not opened.columns:
        opened.columns.update(_rntuple.fields(opened) if opened.is_rntuple else _ttree.branches(opened))
    return opened.columns


def _one(opened: OpenTree, name: str) -> Any:
    plain = None if opened.is_rntuple else _ttree.plain_branch(opened, name)
    if plain is not None:
        return plain
    found = _columns(opened)
    known = find_column(name, found)
    if known is not None and not opened.is_rntuple and found[known].unreadable:
        raise errors.error(errors.UNREADABLE_INPUT, f"branch '{name}' of {opened.url} {found[known].unreadable}")
    if known is None:
        message = f"{opened.url} has no branch '{name}'"
        raise errors.CenoteError(
            errors.unknown_name(errors.UNREADABLE_INPUT, message, name, found, what="branches there")
        )
    return found[known]
