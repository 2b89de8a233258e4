"""Describe and read an RNTuple."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import uproot
from numpy.typing import NDArray

from cenote.analysis.expressions.arrays import leaf_type
from cenote.analysis.operations.support.events import Column
from cenote.analysis.sources.interface import ColumnInfo, named
from cenote.analysis.sources.root_tree.baskets import DamagedError
from cenote.analysis.sources.root_tree.open_file import OpenTree
from cenote.analysis.sources.root_tree.ttree import as_column
from cenote.analysis.sources.support.files import explained
from cenote.common.arrays import ak, is_awkward
from cenote.common.errors import ErrorKind
from cenote.common.values import dataclass

_QUANTISED = uproot.const.rntuple_col_type_to_num_dict["real32quant"]
_MOST_COMPRESSED = 1_000_000
"""That no algorithm makes bytes so many times fewer."""
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
            for page in pages.pages:
                if page.num_elements * record.nbits > 8 * _MOST_COMPRESSED * max(page.locator.num_bytes, 1):
                    raise DamagedError(
                        f"a page of {page.locator.num_bytes:,} bytes claims {page.num_elements:,} values"
                    )
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


def content(opened: OpenTree) -> str:
    """As `FileInfo` has it: by the checksums of all that says where pages are."""
    envelopes = (opened.tree.header, opened.tree.footer, *opened.tree.page_list_envelopes)
    return opened.content_by(*(envelope.checksum.to_bytes(8, "little") for envelope in envelopes))


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
        _leave_steps_of_doubles(opened.tree)
        record = opened.tree.arrays(
            filter_name=list(paths.values()), entry_start=start, entry_stop=stop, array_cache=None
        )
        return {
            name: _as_in_memory(
                _from_steps(as_column(record[tuple(path.split("."))]), _steps(opened.tree, chosen[name].field_id)),
                chosen[name].typename,
            )
            for name, path in paths.items()
        }


@dataclass(frozen=True)
class _Steps:
    """How fractions are stored as whole numbers: steps of one size between a lowest and a highest value."""

    low: float
    size: float


def _leave_steps_of_doubles(ntuple: Any) -> None:
    """Keep uproot (5.7) from computing fractions of type `double` from steps: it has single precision for them."""
    if "post_process" in vars(ntuple):
        return
    usual = ntuple.post_process

    def post_process(buffer: Any, column: Any) -> None:
        if _steps_of(ntuple, column.ncol) is None:
            usual(buffer, column)

    ntuple.post_process = post_process


def _steps_of(ntuple: Any, column: int) -> _Steps | None:
    """Those of a column whose field is a `double`."""
    record = ntuple.column_records[column]
    if record.type != _QUANTISED or ntuple.field_records[record.field_id].type_name != "double":
        return None
    return _Steps(record.min_value, (record.max_value - record.min_value) / ((1 << record.nbits) - 1))


def _steps(ntuple: Any, field: int) -> _Steps | None:
    """Those of the numbers that a field holds, itself or in its lists."""
    while True:
        below = [number for number, record in enumerate(ntuple.field_records) if record.parent_field_id == field]
        below = [number for number in below if number != field]
        if len(below) != 1:
            break
        (field,) = below
    columns = [number for number, record in enumerate(ntuple.column_records) if record.field_id == field]
    return _steps_of(ntuple, columns[0]) if columns else None


def _from_steps(column: Column, steps: _Steps | None) -> Column:
    """What was left as it is stored: whole numbers in the bits of single precision."""
    if steps is None:
        return column

    def computed(numbers: NDArray[Any]) -> NDArray[np.float64]:
        return steps.low + numbers.view(np.uint32).astype(np.float64) * steps.size

    if not is_awkward(column):
        return computed(column)

    def leaf(layout: Any, **_others: Any) -> Any:
        return ak.contents.NumpyArray(computed(layout.data)) if layout.is_numpy else None

    return ak.transform(leaf, column)


_FRACTIONS = {"float": np.float32, "double": np.float64}


def _as_in_memory(column: Column, type_name: str) -> Column:
    """Fractions as ROOT holds them, however many bits are stored of each: a `Double32_t` has the type `double`."""
    kinds = {_FRACTIONS[word] for word in re.findall(r"\b(?:float|double)\b", type_name)}
    if len(kinds) != 1 or leaf_type(column) in kinds:
        return column
    (kind,) = kinds
    return ak.values_astype(column, kind) if is_awkward(column) else column.astype(kind)
