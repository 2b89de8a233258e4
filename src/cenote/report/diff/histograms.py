"""Compare two histograms bin by bin, as far as their bins are the same, and draw both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cenote.analysis.operations.support.events import DatasetInfo
from cenote.analysis.renderers.interface import DrawContext, Renderer
from cenote.analysis.renderers.support import bins
from cenote.analysis.renderers.support.picture import file_name
from cenote.common.text import first_of, join_words
from cenote.common.values import dataclass
from cenote.language.plugins.kinds import PluginKind
from cenote.language.plugins.registry import make
from cenote.planning.outputs.names import product_stem
from cenote.planning.record import PlanRecord
from cenote.report.diff.records import BinDiff, HistogramDiff, SharedData

MOST_BINS = 1000
"""Bins that are listed one by one."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Axis:
    """An axis that both have, with the bins that both have."""

    name: str
    places: tuple[NDArray[np.intp], NDArray[np.intp]]
    """Of these bins before and after, flow bins included."""
    words: Sequence[str]
    """What each is called."""


def compare_histograms(before: Any, after: Any, *, shared: SharedData) -> tuple[HistogramDiff | None, tuple[str, ...]]:
    """Their numbers, and what else differs: categories that one alone has. Without numbers, the words say why they
    cannot be compared."""
    if reasons := tuple(_why_not(before, after)):
        return None, reasons
    axes = [_common(one, other) for one, other in zip(before.axes, after.axes, strict=True)]
    words = tuple(words for one, other in zip(before.axes, after.axes, strict=True) for words in _others(one, other))
    values = _of_both(before.values(flow=True), after.values(flow=True), axes)
    variances = _of_both(before.variances(flow=True), after.variances(flow=True), axes)
    differ = ~_same(*values) | ~_same(*variances)
    pulls = _pulls(values, variances)
    worst = _largest_first(differ, values, pulls)
    found = [_bin(place, axes, values, pulls) for place in worst[:MOST_BINS]]
    return (
        HistogramDiff(
            bins=differ.size,
            differ=int(np.count_nonzero(differ)),
            sum_before=float(values[0].sum()),
            sum_after=float(values[1].sum()),
            largest=found[0] if found and found[0].pull is not None else None,
            shared=shared,
            worst=tuple(found),
        ),
        words,
    )


def _why_not(before: Any, after: Any) -> Iterator[str]:
    names = [axis.name for axis in before.axes], [axis.name for axis in after.axes]
    if names[0] != names[1]:
        yield f"axes are others: {', '.join(names[0])} → {', '.join(names[1])}"
        return
    if before.kind != after.kind:
        yield f"the histograms hold other things: {before.kind.lower()} → {after.kind.lower()}"
    for one, other in zip(before.axes, after.axes, strict=True):
        if _is_category(one) != _is_category(other):
            yield f"{one.name}: {type(one).__name__} → {type(other).__name__}"
        elif not _is_category(one) and _cut(one) != _cut(other):
            yield f"{one.name} has other bins: {_in_words(one, other)} → {_in_words(other, one)}"


def _is_category(axis: Any) -> bool:
    return type(axis).__name__ in ("StrCategory", "IntCategory")


def _cut(axis: Any) -> tuple[Any, ...]:
    return np.asarray(axis.edges).tolist(), axis.traits.underflow, axis.traits.overflow


def _in_words(axis: Any, other: Any) -> str:
    """`60 from 60 to 120`; where that is the same, what is not."""
    edges = np.asarray(axis.edges)
    plain = f"{len(edges) - 1:,} from {edges[0]:g} to {edges[-1]:g}"
    theirs = np.asarray(other.edges)
    if len(edges) != len(theirs) or edges[0] != theirs[0] or edges[-1] != theirs[-1]:
        return plain
    moved = np.flatnonzero(edges != theirs)
    if len(moved):
        return f"{plain}, with an edge at {edges[moved[0]]:.6g}"
    flow = ["underflow"] * axis.traits.underflow + ["overflow"] * axis.traits.overflow
    return f"{plain}, with {join_words(flow)}" if flow else f"{plain}, without underflow and overflow"


def _common(one: Any, other: Any) -> _Axis:
    if not _is_category(one):
        words = [*(["underflow"] if one.traits.underflow else []), *_intervals(one)]
        words += ["overflow"] if one.traits.overflow else []
        every = np.arange(one.extent)
        return _Axis(one.name, (every, every), words[: one.extent])
    ours, theirs = ({str(name): place for place, name in enumerate(axis)} for axis in (one, other))
    names = [name for name in ours if name in theirs]
    places = [np.array([side[name] for name in names], dtype=np.intp) for side in (ours, theirs)]
    if one.traits.overflow and other.traits.overflow:  # of values that are no category
        names.append("overflow")
        places = [np.append(place, axis.size) for place, axis in zip(places, (one, other), strict=True)]
    return _Axis(one.name, (places[0], places[1]), names)


def _intervals(axis: Any) -> list[str]:
    if axis.traits.continuous:
        edges = np.asarray(axis.edges)
        return [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
    return [str(axis.value(place)) for place in range(axis.size)]


def _others(one: Any, other: Any) -> Iterator[str]:
    """Categories that one alone has."""
    if _is_category(one):
        ours, theirs = [str(name) for name in one], [str(name) for name in other]
        for side, names in (("before", [n for n in ours if n not in theirs]), ("after", _less(theirs, ours))):
            if names:
                yield f"{one.name} {first_of(names)} only {side}"


def _less(names: Sequence[str], known: Sequence[str]) -> list[str]:
    return [name for name in names if name not in known]


def _of_both(before: Any, after: Any, axes: Sequence[_Axis]) -> tuple[Floats, Floats]:
    """The numbers of the bins that both have; NaN where a histogram has none of this kind."""
    shape = tuple(len(axis.places[0]) for axis in axes)
    found = [
        np.full(shape, np.nan) if side is None else np.asarray(side, np.float64)[np.ix_(*(a.places[n] for a in axes))]
        for n, side in enumerate((before, after))
    ]
    return found[0], found[1]


def _same(one: Floats, other: Floats) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (one == other) | (np.isnan(one) & np.isnan(other))
    return found


def _pulls(values: tuple[Floats, Floats], variances: tuple[Floats, Floats]) -> Floats:
    """NaN where neither side has an uncertainty, or one is not finite."""
    spread = np.sqrt(np.maximum(variances[0] + variances[1], 0.0))
    with np.errstate(invalid="ignore"):  # bins that are not finite
        difference = values[1] - values[0]
    known = (spread > 0) & np.isfinite(spread) & np.isfinite(difference)
    return np.divide(difference, spread, out=np.full_like(spread, np.nan), where=known)


def _largest_first(differ: NDArray[np.bool_], values: tuple[Floats, Floats], pulls: Floats) -> list[int]:
    """Places of the bins that differ: by their pulls, then by their difference."""
    places = np.flatnonzero(differ)
    with np.errstate(invalid="ignore"):
        change = np.nan_to_num(np.abs(values[1] - values[0]).ravel()[places])
    known = np.nan_to_num(np.abs(pulls).ravel()[places], nan=-1.0)
    return [int(place) for place in places[np.lexsort((-change, -known))]]


def _bin(place: int, axes: Sequence[_Axis], values: tuple[Floats, Floats], pulls: Floats) -> BinDiff:
    where = np.unravel_index(place, pulls.shape)
    pull = float(pulls[where])
    return BinDiff(
        {axis.name: axis.words[int(number)] for axis, number in zip(axes, where, strict=True)},
        float(values[0][where]),
        float(values[1][where]),
        None if np.isnan(pull) else pull,
    )


# Draw both histograms of a product over each other, with their ratio below.


BEFORE, AFTER = "before", "after"


def draw_both(name: str, before: Any, after: Any, folder: Path, plan: PlanRecord | None) -> tuple[str, ...]:
    """`folder/NAME.png`, and `.pdf`; a folder of this name with a picture of each dataset that differs, where the
    histograms keep datasets apart.

    The uncertainty of each side is its own (`split_ratio`): the runs may have read the same events.
    """
    infos = {one.name: DatasetInfo(one.name, one.eventtype or "mc") for one in plan.datasets} if plan else {}
    target = folder / product_stem(name)
    written: list[Path] = []
    for file, select in _selections(before, after, target, infos):
        renderer: Renderer = make(PluginKind.RENDERER, "hep.render.comparison", _settings(name, select))
        file.parent.mkdir(parents=True, exist_ok=True)
        written += renderer.draw_together({AFTER: after, BEFORE: before}, file, DrawContext(name, datasets=infos))
    return tuple(str(file) for file in written)


def _settings(name: str, select: Mapping[str, str]) -> dict[str, Any]:
    block = {
        "reference": AFTER,
        "target": BEFORE,
        "comparison": "split_ratio",
        "comparison_ylabel": f"{AFTER} / {BEFORE}",
    }
    looks = {"reference_color": "#c0392b", "target_color": "#1f4e79"}
    title = ", ".join((name, *select.values()))
    return {"comparison": {**block, **looks}, "legend": {"title": title}, "select": dict(select)}


def _selections(
    before: Any, after: Any, target: Path, infos: Mapping[str, DatasetInfo]
) -> Iterator[tuple[Path, dict[str, str]]]:
    """Where pictures go, and what they show of the histograms."""
    sides = [bins.roles(side, infos) for side in (before, after)]
    if any(side.dataset is None for side in sides) or not sides[1].free:
        yield target, {}
        return
    axis = after.axes[sides[1].dataset].name
    ours, theirs = (bins.dataset_names(side, roles) for side, roles in zip((before, after), sides, strict=True))
    for name in (one for one in theirs if one in ours):
        found, _ = compare_histograms(
            *(bins.only(side, axis, [name], stage=name) for side in (before, after)), shared="unknown"
        )
        if found is not None and found.differ:
            yield target / file_name(name), {axis: name}
