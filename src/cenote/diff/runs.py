"""Compare two runs by their folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from cenote import errors
from cenote.api import Run
from cenote.diff.causes import WentIn, changed_causes, shared_data, went_into
from cenote.diff.histograms import compare_histograms
from cenote.diff.records import ProductDiff, RunDiff
from cenote.diff.tables import compare_cutflows, compare_files, compare_objects, compare_tables
from cenote.errors import CenoteError
from cenote.plan.outputs.names import product_stem
from cenote.plugins.imports import digest_of_file
from cenote.runs.folder import RunFolder
from cenote.runs.summary import ProductRecord
from cenote.values import dataclass

Draw = Callable[[str, Any, Any], tuple[str, ...]]
"""Draws both values of a product over each other, and gives the pictures."""
_PICKLES = "its pickles differ; they are read only where it is sure that runs of yours wrote them"
_DATASETS = ("dataset", "dataset_name")


@dataclass(frozen=True)
class _Sides:
    """Two runs, and what went into them."""

    before: Run
    after: Run
    went_in: tuple[WentIn, WentIn]


def compare_runs(before: Run, after: Run, *, draw: Draw | None = None) -> RunDiff:
    """What went into both, and all products of either. `draw` is asked for pictures of histograms that differ."""
    for run in (before, after):
        if run.record is None:
            raise errors.error(errors.NO_RUN, f"{run.folder} has no results yet: its run has not ended")
    went_in = went_into(RunFolder(before.folder)), went_into(RunFolder(after.folder))
    sides = _Sides(before, after, went_in)
    ours, theirs = ({one.name: one for one in _published(run)} for run in (before, after))
    found = [_compared(name, ours.get(name), theirs.get(name), sides, draw) for name in dict.fromkeys((*theirs, *ours))]
    return RunDiff(str(before.folder), str(after.folder), changed_causes(*went_in), tuple(found))


def _published(run: Run) -> tuple[ProductRecord, ...]:
    return tuple(one for one in run.record.products if one.files) if run.record else ()


def _compared(
    name: str, before: ProductRecord | None, after: ProductRecord | None, sides: _Sides, draw: Draw | None
) -> ProductDiff:
    if before is None or after is None:
        there = before or after
        assert there is not None, "it is a product of one of them"
        return ProductDiff(name, there.kind, "only before" if after is None else "only after")
    kind = after.kind
    if before.kind != kind:
        return ProductDiff(name, kind, "not comparable", (f"it was a {before.kind}",))
    if _same_files(sides, before, after):
        return ProductDiff(name, kind, "equal")
    try:
        values = sides.before.product(name), sides.after.product(name)
    except (CenoteError, OSError, ValueError, KeyError) as problem:  # damaged, or a pickle of somebody else
        pickled = any(file.endswith(".pkl") for one in (before, after) for file in one.files)
        return ProductDiff(name, kind, "not comparable", (_PICKLES if pickled else str(problem).partition("\n")[0],))
    found = _of_values(name, kind, *values, sides)
    if draw is not None and found.histogram is not None and found.outcome == "differs":
        return replace(found, pictures=draw(name, *values))
    return found


def _same_files(sides: _Sides, before: ProductRecord, after: ProductRecord) -> bool:
    """Whether what is loaded is the same, byte for byte; a pickle need not be trusted for that."""
    folders = RunFolder(sides.before.folder).products, RunFolder(sides.after.folder).products
    stem = product_stem(after.name)
    endings = {Path(file).suffix for one in (before, after) for file in one.files} - {".root", ".txt"}
    pairs = [tuple(folder / f"{stem}{ending}" for folder in folders) for ending in endings]
    return bool(pairs) and all(
        one.is_file() and other.is_file() and digest_of_file(one) == digest_of_file(other) for one, other in pairs
    )


def _of_values(name: str, kind: str, before: Any, after: Any, sides: _Sides) -> ProductDiff:
    if kind == "histogram":
        axes = {axis.name: axis for axis in after.axes}
        datasets = next((dict.fromkeys(map(str, axes[one])) for one in _DATASETS if one in axes), None)
        shared = shared_data(*sides.went_in, datasets)
        numbers, words = compare_histograms(before, after, shared=shared)
        if numbers is None:
            return ProductDiff(name, kind, "not comparable", words)
        return ProductDiff(name, kind, "differs" if numbers.differ or words else "equal", words, numbers)
    if kind in _ROWS:
        rows = _ROWS[kind](before, after)
        return ProductDiff(name, kind, "differs" if rows else "equal", rows=rows)
    words = compare_objects(before, after)
    return ProductDiff(name, kind, "differs" if words else "equal", words)


_ROWS: dict[str, Callable[[Any, Any], Any]] = {
    "cutflow": compare_cutflows,
    "table": compare_tables,
    "files": compare_files,
}
"""Kind of product → how its values are compared row by row."""
