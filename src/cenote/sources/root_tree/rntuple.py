"""Describe and read an RNTuple."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from cenote.errors import ErrorKind
from cenote.expressions.arrays import leaf_type
from cenote.jagged import ak, is_awkward
from cenote.operations.support.events import Column
from cenote.sources.interface import ColumnInfo, named
from cenote.sources.root_tree.open_file import OpenTree
from cenote.sources.root_tree.ttree import as_column
from cenote.sources.support.files import explained

_COLLECTION = 1
"""What a field of a collection says that it is."""


def fields(opened: OpenTree) -> dict[str, Any]:
    """Column name → field, for every field that holds values: `Muon.pt` of a collection is the column `Muon_pt`."""
    paths = opened.tree.keys()
    parents = {path.rpartition(".")[0] for path in paths}
    return {name: opened.tree[path] for name, path in named(path for path in paths if path not in parents).items()}


def describe(opened: OpenTree, found: Mapping[str, Any]) -> dict[str, ColumnInfo]:
    """The columns with their types and uncompressed sizes."""
    ntuple = opened.tree
    bits: Counter[int] = Counter()
    for cluster in ntuple.page_link_list:
        for record, pages in zip(ntuple.column_records, cluster, strict=False):
            bits[record.field_id] += record.nbits * sum(page.num_elements for page in pages.pages)
    children: dict[int, list[int]] = {}
    for number, record in enumerate(ntuple.field_records):
        if record.parent_field_id != number:
            children.setdefault(record.parent_field_id, []).append(number)

    def size(field: int) -> int:
        return bits[field] + sum(size(child) for child in children.get(field, ()))

    def lists(field: int) -> str:
        """`[]` for each collection that it is in."""
        parent = ntuple.field_records[field].parent_field_id
        if parent == field:
            return ""
        return lists(parent) + "[]" * int(ntuple.field_records[parent].struct_role == _COLLECTION)

    return {
        name: ColumnInfo(f"{field.typename}{lists(field.field_id)}", size(field.field_id) // 8)
        for name, field in found.items()
    }


def boundaries(opened: OpenTree) -> tuple[int, ...]:
    """The entries at which clusters start, and the end."""
    starts = {int(cluster.num_first_entry) for cluster in opened.tree.cluster_summaries}
    return tuple(sorted(starts | {0, int(opened.tree.num_entries)}))


def read(opened: OpenTree, chosen: Mapping[str, Any], start: int, stop: int, *, kind: ErrorKind) -> dict[str, Column]:
    """These fields for entries [start, stop), in one call: all pages of a cluster are asked for together."""
    if not chosen:
        return {}
    paths = {name: field.path for name, field in chosen.items()}
    with explained(opened.url, kind):
        record = opened.tree.arrays(
            filter_name=list(paths.values()), entry_start=start, entry_stop=stop, array_cache=None
        )
        return {
            name: _as_in_memory(as_column(record[tuple(path.split("."))]), chosen[name].typename)
            for name, path in paths.items()
        }


_FRACTIONS = {"float": np.float32, "double": np.float64}


def _as_in_memory(column: Column, type_name: str) -> Column:
    """Fractions as ROOT holds them, however many bits are stored of each: a `Double32_t` has the type `double`."""
    kinds = {_FRACTIONS[word] for word in re.findall(r"\b(?:float|double)\b", type_name)}
    if len(kinds) != 1 or leaf_type(column) in kinds:
        return column
    (kind,) = kinds
    return ak.values_astype(column, kind) if is_awkward(column) else column.astype(kind)
