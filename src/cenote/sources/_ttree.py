"""This file describes and reads a TTree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import awkward as ak
import numpy as np
import uproot

from cenote.errors import ErrorKind
from cenote.operations.events import Column
from cenote.sources._baskets import PlainBranch, SharedOffsets, plain_branch_of, read_plain
from cenote.sources._files import explained, is_remote
from cenote.sources._open_root import OpenTree
from cenote.sources.interface import ColumnInfo, flat_name

_SHARE_OF_BYTES = 0.9
"""A boundary counts when branches with this share of the bytes have a basket that starts there."""

_HERE = uproot.source.futures.TrivialExecutor()
"""Decompresses in the calling thread: a worker has one core, and handing over costs more than it gains."""


def branches(opened: OpenTree) -> dict[str, Any]:
    """Column name → branch, for every branch that holds values of its own and can be interpreted."""
    found: dict[str, Any] = {}
    for path, branch in opened.tree.iteritems(recursive=True, full_paths=True):
        if len(branch.branches) == 0 and not isinstance(branch.interpretation, _UNREADABLE):
            found.setdefault(_column_name(path), branch)
    return found


def plain_branch(opened: OpenTree, name: str) -> Any | None:
    """The branch of this very name, if it is one of values: found without looking at all the others."""
    try:
        branch = opened.tree[name]
    except uproot.exceptions.KeyInFileError:
        return None
    is_plain = len(branch.branches) == 0 and not isinstance(branch.interpretation, _UNREADABLE)
    return branch if is_plain else None


_UNREADABLE = (uproot.interpretation.identify.UnknownInterpretation, uproot.interpretation.grouped.AsGrouped)


def _column_name(path: str) -> str:
    """`Jet/Jet.PT` → `Jet_PT`, `L1Upgrade/jetEt` → `L1Upgrade_jetEt`: the parent is named once."""
    parts = path.split("/")
    for parent in reversed(parts[:-1]):
        if not parts[-1].startswith(f"{parent.rstrip('.')}."):
            parts[-1] = f"{parent.rstrip('.')}.{parts[-1]}"
    return flat_name(parts[-1])


def describe(found: Mapping[str, Any]) -> dict[str, ColumnInfo]:
    """The columns with their types and uncompressed sizes."""
    return {name: ColumnInfo(branch.typename, int(branch.member("fTotBytes"))) for name, branch in found.items()}


def boundaries(found: Mapping[str, Any], entries: int) -> tuple[int, ...]:
    """Entries at which (nearly) all baskets start, or else those of the largest branch."""
    if not found or not entries:
        return (0, entries) if entries else (0,)
    starts = {name: np.unique(np.asarray(branch.entry_offsets, dtype=np.int64)) for name, branch in found.items()}
    sizes = {name: float(branch.member("fTotBytes")) for name, branch in found.items()}
    places, which = np.unique(np.concatenate(list(starts.values())), return_inverse=True)
    weights = np.concatenate([np.full(len(start), sizes[name]) for name, start in starts.items()])
    shared = places[np.bincount(which, weights=weights) >= _SHARE_OF_BYTES * sum(sizes.values())]
    if len(shared) <= 2:
        shared = starts[max(sizes, key=sizes.__getitem__)]
    inner = (int(place) for place in shared if 0 < place < entries)
    return (0, *inner, entries)


def read(opened: OpenTree, chosen: Mapping[str, Any], start: int, stop: int, *, kind: ErrorKind) -> dict[str, Column]:
    """These branches for entries [start, stop)."""
    short_names = {branch.name for branch in chosen.values()}
    if is_remote(opened.url) and len(short_names) == len(chosen):
        return _read_together(opened, chosen, start, stop, kind=kind)
    columns: dict[str, Column] = {}
    shared: SharedOffsets = {}
    for name, branch in chosen.items():
        with explained(opened.url, kind, what=f"branch '{name}' of {opened.url}"):
            columns[name] = _read_one(opened, branch, start, stop, shared)
    return columns


def _plain(opened: OpenTree, branch: Any) -> PlainBranch | None:
    """Found out once: a file may be read in very many small pieces."""
    if branch.object_path not in opened.plain:
        opened.plain[branch.object_path] = plain_branch_of(branch)
    found: PlainBranch | None = opened.plain[branch.object_path]
    return found


def _read_one(opened: OpenTree, branch: Any, start: int, stop: int, shared: SharedOffsets) -> Column:
    plain = _plain(opened, branch) if opened.descriptor is not None and start < stop else None
    if plain is not None and opened.descriptor is not None:
        column = read_plain(opened.descriptor, plain, start, stop, shared)
        if column is not None:
            return column
    return as_column(
        branch.array(
            entry_start=start,
            entry_stop=stop,
            library="np" if isinstance(branch.interpretation, uproot.AsDtype) else "ak",
            array_cache=None,
            decompression_executor=_HERE,
            interpretation_executor=_HERE,
        )
    )


def _read_together(
    opened: OpenTree, chosen: Mapping[str, Any], start: int, stop: int, *, kind: ErrorKind
) -> dict[str, Column]:
    """In one call, so that all baskets are asked for at once: over a network the waiting is what costs."""
    wanted = {id(branch) for branch in chosen.values()}
    with explained(opened.url, kind):
        arrays = opened.tree.arrays(
            filter_branch=lambda branch: id(branch) in wanted,
            entry_start=start,
            entry_stop=stop,
            how=dict,
            array_cache=None,
        )
    return {name: as_column(arrays[branch.name]) for name, branch in chosen.items()}


def as_column(array: Any) -> Column:
    """Plain numpy for one number per event, awkward for the rest (fixed-length lists count as lists)."""
    if isinstance(array, np.ndarray):
        if array.ndim == 1 and array.dtype.names is None and array.dtype != object:
            return array
        array = ak.from_numpy(array, regulararray=True)
    layout = array.layout
    if isinstance(layout, ak.contents.NumpyArray) and layout.purelist_depth == 1 and layout.inner_shape == ():
        return layout.data
    return ak.from_regular(array, axis=None) if array.ndim > 1 else array
