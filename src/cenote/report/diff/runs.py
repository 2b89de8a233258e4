"""Compare two runs by their folders: what went into them, and product by product."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any

from msgspec.structs import replace

from cenote.common import errors
from cenote.common.errors import CenoteError
from cenote.common.values import dataclass
from cenote.execution.runs.changed.code import changed_functions, changed_software
from cenote.execution.runs.changed.ingredients import Ingredients, changes, new_files
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.follow import read_if_whole
from cenote.execution.runs.provenance import PluginRecord, Provenance
from cenote.execution.runs.summary import ProductRecord
from cenote.language.plugins.imports import digest_of_file
from cenote.planning.outputs.names import product_stem
from cenote.report.diff.histograms import compare_histograms
from cenote.report.diff.records import Causes, ProductDiff, RunDiff, SharedData
from cenote.report.diff.tables import compare_cutflows, compare_files, compare_objects, compare_tables
from cenote.report.run import Run

# Find what went into two runs and is not the same: workflow, code, data, software.


@dataclass(frozen=True)
class WentIn:
    """What a run was made of, as far as it is written down."""

    provenance: Provenance
    ingredients: Ingredients | None

    @property
    def files(self) -> Mapping[str, tuple[tuple[str, str, int], ...]]:
        """Dataset → its files: name, what is in it or its stamp, events."""
        if self.ingredients is not None and self.ingredients.files:
            return self.ingredients.files
        found: dict[str, tuple[tuple[str, str, int], ...]] = {}
        for one in self.provenance.inputs:
            found[one.dataset] = (*found.get(one.dataset, ()), (one.file, one.stamp or one.file, one.events))
        return found

    @property
    def software(self) -> dict[str, str]:
        """Package → its version, Python and Cenote among them."""
        own = {"cenote": self.provenance.cenote, "Python": self.provenance.python}
        return {name: version for name, version in {**own, **self.provenance.software}.items() if version}


def went_into(run: RunFolder) -> WentIn:
    """A record that is missing or damaged costs what it would have said."""
    provenance = read_if_whole(run.provenance, Provenance) or Provenance()
    return WentIn(provenance, read_if_whole(run.ingredients, Ingredients))


def changed_causes(before: WentIn, after: WentIn) -> Causes:
    """What is not the same, in words."""
    software = changed_software(before.software, after.software)
    functions: tuple[str, ...] = ()
    if before.ingredients is not None and after.ingredients is not None:
        functions = changed_functions(before.ingredients.functions, after.ingredients.functions)
        found = [cause for causes in changes(before.ingredients, after.ingredients).values() for cause in causes]
        known = {*functions, *software}
        workflow = tuple(cause for cause in dict.fromkeys(found) if cause not in known)
    else:
        workflow = tuple(_by_the_file(before.provenance, after.provenance))
    code = functions or tuple(_by_plugins(before.provenance, after.provenance))
    return Causes(workflow, code, tuple(_changed_data(before, after)), software)


def _by_the_file(before: Provenance, after: Provenance) -> list[str]:
    """Where runs did not note their ingredients."""
    one, other = before.workflow, after.workflow
    if one.sha256 == other.sha256 and before.plan == after.plan:
        return []
    name = PurePath(other.file).name or "the workflow"
    if one.sha256 == other.sha256:
        return [f"the plan of {name} changed: by its options, its data or its code"]
    return [f"{name} changed"]


def _by_plugins(before: Provenance, after: Provenance) -> list[str]:
    ours, theirs = ({_name(one): one for one in side.plugins} for side in (before, after))
    found = [f"{name} is new" for name in theirs if name not in ours]
    found += [f"{name} is gone" for name in ours if name not in theirs]
    return found + [f"{name} changed" for name in theirs if name in ours and ours[name].sha256 != theirs[name].sha256]


def _name(plugin: PluginRecord) -> str:
    return PurePath(plugin.file).name if isinstance(plugin.file, str) else str(plugin.module)


def _changed_data(before: WentIn, after: WentIn) -> list[str]:
    found = [f"dataset {name} is new" for name in after.files if name not in before.files]
    found += [f"dataset {name} is gone" for name in before.files if name not in after.files]
    both = {name: files for name, files in after.files.items() if name in before.files}
    changed = new_files(Ingredients(files=dict(before.files)), Ingredients(files=both))
    return found + [f"{words} (dataset {name})" for name, one in changed.items() for words in one]


def shared_data(before: WentIn, after: WentIn, datasets: Mapping[str, object] | None = None) -> SharedData:
    """How much of their data both runs read, of these datasets or of all."""
    ours, theirs = before.files, after.files
    names = [name for name in dict.fromkeys((*ours, *theirs)) if datasets is None or name in datasets]
    one, other = ({content for name in names for _, content, _ in side.get(name, ())} for side in (ours, theirs))
    if not one or not other:
        return "unknown"
    return "all" if one == other else "some" if one & other else "none"


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
