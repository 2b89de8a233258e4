"""Read ROOT files: TTree and RNTuple, on this machine or by `root://` and `https://`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from cenote import errors
from cenote.operations.support.events import Column
from cenote.sources.interface import FileInfo, Source, find_column
from cenote.sources.root_tree import rntuple as _rntuple
from cenote.sources.root_tree import ttree as _ttree
from cenote.sources.root_tree.open_file import OpenTree, open_tree


class RootTreeSource(Source):
    """Reads a TTree or an RNTuple of a ROOT file.

    Branches inside others are columns with flat names: `Muon.pt` of an RNTuple and `Muon/Muon.pt` of a TTree are
    both `Muon_pt`. Objects have a column for each of their numbers: `p4_fP_fX` and `p4_fE` of a TLorentzVector `p4`,
    `hit_x` of a leaf list `hit`. Expressions may write `p4.fP.fX`.
    """

    example: ClassVar[str] = """
    sources:
      events: {kind: root_tree, tree: Events}
    """

    tree: str | None = None
    """The name of the tree; by default the only one of the file, or `Events` (or `events`) if it holds several."""

    def describe(self, url: str) -> FileInfo:
        """Entries, columns and cluster boundaries of the tree."""
        opened = open_tree(url, self.tree, kind=errors.BAD_INPUT)
        found = _columns(opened)
        entries = int(opened.tree.num_entries)
        if opened.is_rntuple:
            columns, boundaries = _rntuple.describe(opened, found), _rntuple.boundaries(opened)
        else:
            columns, boundaries = _ttree.describe(found), _ttree.boundaries(found, entries)
        return FileInfo(url, opened.size, opened.stamp, entries, columns, boundaries)

    def read(self, url: str, columns: Sequence[str], start: int, stop: int) -> dict[str, Column]:
        """Exactly these columns; the file stays open for the next range."""
        opened = open_tree(url, self.tree, kind=errors.UNREADABLE_INPUT)
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
