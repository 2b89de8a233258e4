"""Compare products that are no histograms: cutflows cut by cut, tables group by group, files, objects."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from cenote.analysis.products.cutflow import Cutflow, CutflowRow
from cenote.analysis.products.table import GroupedTable
from cenote.execution.runs.changed.settings import changed_settings
from cenote.report.diff.records import RowDiff


def compare_cutflows(before: Cutflow, after: Cutflow) -> tuple[RowDiff, ...]:
    """Cuts of each dataset are compared in their order: one whose label is another stands opposite the old one."""
    groups = dict.fromkeys((row.dataset, row.selection) for row in (*before.rows, *after.rows))
    return tuple(found for group in groups for found in _of_group(*(_rows(side, group) for side in (before, after))))


def _rows(cutflow: Cutflow, group: tuple[str, str]) -> list[CutflowRow]:
    return [row for row in cutflow.rows if (row.dataset, row.selection) == group]


def _of_group(before: Sequence[CutflowRow], after: Sequence[CutflowRow]) -> Iterator[RowDiff]:
    labels = [row.label for row in before], [row.label for row in after]
    if before and after:
        yield from _of_cells(f"{before[0].dataset}: all events", _counts_in(before[0]), _counts_in(after[0]))
    for _, start, end, first, last in SequenceMatcher(None, *labels, autojunk=False).get_opcodes():
        ours, theirs = before[start:end], after[first:last]
        for number in range(max(len(ours), len(theirs))):
            one = ours[number] if number < len(ours) else None
            other = theirs[number] if number < len(theirs) else None
            yield from _of_cells(_called(one, other), _counts_out(one), _counts_out(other))


def _called(one: CutflowRow | None, other: CutflowRow | None) -> str:
    rows = [row for row in (one, other) if row is not None]
    return f"{rows[0].dataset}: {' → '.join(dict.fromkeys(row.label for row in rows))}"


def _counts_in(row: CutflowRow) -> dict[str, float]:
    return {"events": row.n_unweighted_in, **({"weights": row.sumw_in} if row.weighted else {})}


def _counts_out(row: CutflowRow | None) -> dict[str, float]:
    if row is None:
        return {}
    return {"events": row.n_unweighted_out, **({"weights": row.sumw_out} if row.weighted else {})}


def compare_tables(before: GroupedTable, after: GroupedTable) -> tuple[RowDiff, ...]:
    """By the values that tell groups apart, and by the names of columns."""
    sides = [_lines(table) for table in (before, after)]
    rows = dict.fromkeys((*sides[0], *sides[1]))
    return tuple(found for row in rows for found in _of_cells(row, sides[0].get(row, {}), sides[1].get(row, {})))


def _lines(table: GroupedTable) -> dict[str, dict[str, float | None]]:
    many = len(table.by)
    names = [name for name, _ in table.columns]
    return {", ".join(map(str, row[:many])): dict(zip(names, row[many:], strict=True)) for row in table.rows()}


def _of_cells(row: str, before: Mapping[str, float | None], after: Mapping[str, float | None]) -> Iterator[RowDiff]:
    for column in dict.fromkeys((*before, *after)):
        one, other = before.get(column), after.get(column)
        if column not in before or column not in after or not _equal(one, other):
            yield RowDiff(row, column, one, other)


def _equal(one: float | None, other: float | None) -> bool:
    both_nan = isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other)
    return one == other or both_nan


def compare_files(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> tuple[RowDiff, ...]:
    """Lists of files that a stage wrote: how many events each holds."""
    sides = [{str(one.get("path")): {"events": int(one.get("entries", 0))} for one in side} for side in (before, after)]
    files = dict.fromkeys((*sides[0], *sides[1]))
    return tuple(found for file in files for found in _of_cells(file, sides[0].get(file, {}), sides[1].get(file, {})))


def compare_objects(before: Any, after: Any) -> tuple[str, ...]:
    """What differs, in words; nothing where they are the same."""
    if isinstance(before, np.ndarray) and isinstance(after, np.ndarray):
        return tuple(_of_arrays("", before, after))
    if _has_arrays(before) or _has_arrays(after):
        return tuple(_of_mappings(before, after))
    if isinstance(before, dict | list) and isinstance(after, dict | list):
        return changed_settings(before, after)
    try:
        same = bool(before == after)
    except Exception:  # of somebody's own class
        same = False
    return () if same else ("it is another one",)


def _has_arrays(value: Any) -> bool:
    return isinstance(value, dict) and any(isinstance(one, np.ndarray) for one in value.values())


def _of_mappings(before: Any, after: Any) -> Iterator[str]:
    if not (isinstance(before, dict) and isinstance(after, dict)):
        yield f"{type(before).__name__} → {type(after).__name__}"
        return
    for name in dict.fromkeys((*before, *after)):
        if name not in before or name not in after:
            yield f"{name} is {'new' if name in after else 'gone'}"
        else:
            yield from _of_arrays(f"{name}: ", np.asarray(before[name]), np.asarray(after[name]))


def _of_arrays(name: str, before: Any, after: Any) -> Iterator[str]:
    if before.shape != after.shape or before.dtype != after.dtype:
        yield f"{name}{before.dtype} of shape {before.shape} → {after.dtype} of shape {after.shape}"
        return
    same = before == after
    if before.dtype.kind in "fc":
        same = same | (np.isnan(before) & np.isnan(after))
    if not np.all(same):
        yield f"{name}{np.count_nonzero(~same):,} of {same.size:,} values differ"
