"""Keep what bins cannot tell of the values that filled a histogram: how many there were, and the sums of their moments.

A histogram carries them in its `__dict__`, where copies and pickles keep them and hist's own JSON does not: an array
along the axes of categories, and along the last one the number of entries, the sum of weights within the bins, and a
sum for each of `moments`. ROOT keeps the same for each of its histograms.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cenote.common.arrays import later
from cenote.common.values import dataclass

if TYPE_CHECKING:
    import hist
else:
    hist = later("hist")

Sums = NDArray[np.float64]
Moment = tuple[int, ...]
"""Which numeric axes' values an entry's weight is multiplied by."""

_KEY = "@fill_sums"
"""Where a histogram carries them: names with `@` are left out of UHI files."""
_WRITER, _WRITTEN = "cenote", "fill_sums"
ENTRIES, WEIGHTS, _FIRST_MOMENT = 0, 1, 2
_MOMENTS: dict[int, tuple[Moment, ...]] = {
    1: ((0,), (0, 0)),
    2: ((0,), (0, 0), (1,), (1, 1), (0, 1)),
    3: ((0,), (0, 0), (1,), (1, 1), (0, 1), (2,), (2, 2), (0, 2), (1, 2)),
}
"""Number of numeric axes → the moments that ROOT keeps, in its order: x, x², y, y², xy, z, z², xz, yz."""
_MEMBERS = ("x", "x2", "y", "y2", "xy", "z", "z2", "xz", "yz")
_SAME = 1e-9
"""How far, relative to all that is in the bins, sums of the same weights in another order may differ."""


def moments(axes: Sequence[Any]) -> tuple[Moment, ...]:
    """Those of a histogram of these axes; none where ROOT has no such histogram."""
    return moments_of(sum(not is_category(axis) for axis in axes))


def moments_of(numeric: int) -> tuple[Moment, ...]:
    """Those of a histogram with so many numeric axes."""
    return _MOMENTS.get(numeric, ())


def is_category(axis: Any) -> bool:
    """Whether an axis has names or single numbers, each with a histogram of its own in ROOT files."""
    return isinstance(axis, hist.axis.StrCategory | hist.axis.IntCategory)


def begin(histogram: Any) -> None:
    """Let an empty histogram carry sums."""
    if many := len(moments(histogram.axes)):
        histogram.__dict__[_KEY] = np.zeros((*_extents(histogram), _FIRST_MOMENT + many))


def add(histogram: Any, place: tuple[Any, ...], entries: Any, sums: Any) -> None:
    """Add what was found while filling: at one place along the axes of categories, or along all of them (`(...,)`)."""
    carried = histogram.__dict__[_KEY]
    carried[(*place, ENTRIES)] += entries
    carried[(*place, slice(_FIRST_MOMENT, None))] += sums


def seal(histogram: Any) -> None:
    """Note the sums of weights in the bins, once they are filled: sums count only as long as the bins have these."""
    if (carried := sums_of(histogram)) is not None:
        carried[..., WEIGHTS] = _weights_within(histogram)


def sums_of(histogram: Any) -> Sums | None:
    """What a histogram carries; None where it was not filled by us, or has other axes now."""
    found = histogram.__dict__.get(_KEY)
    fits = found is not None and found.shape == (*_extents(histogram), _FIRST_MOMENT + len(moments(histogram.axes)))
    return found if fits else None


def carry(histogram: Any, sums: Sums | None) -> None:
    """Let a histogram carry these, and nothing else."""
    histogram.__dict__.pop(_KEY, None)
    if sums is not None:
        histogram.__dict__[_KEY] = sums


def merge_sums(parts: Sequence[Any], places: Sequence[Sequence[Any]], total: Any) -> None:
    """Let a sum of histograms carry the sums of all; of none where one has none. `places` are those of bins."""
    found = [sums_of(part) for part in parts]
    begin(total)
    whole = sums_of(total)
    if whole is None or any(sums is None for sums in found):
        carry(total, None)
        return
    categories = [number for number, axis in enumerate(total.axes) if is_category(axis)]
    for sums, place in zip(found, places, strict=True):
        if sums is not None and sums.size:
            whole[np.ix_(*(place[number] for number in categories), np.arange(whole.shape[-1]))] += sums


def written(histogram: Any, document: dict[str, Any]) -> dict[str, Any]:
    """The UHI document of a histogram with its sums among what writers note of their own, as text, as UHI demands."""
    if (sums := sums_of(histogram)) is None:
        return document
    return {**document, "writer_info": {**document["writer_info"], _WRITER: {_WRITTEN: json.dumps(sums.tolist())}}}


def read_again(histogram: Any, document: dict[str, Any]) -> None:
    """Let a histogram carry what its document notes; documents written before there were sums note nothing."""
    text = document.get("writer_info", {}).get(_WRITER, {}).get(_WRITTEN)
    if text is not None:
        carried = np.asarray(json.loads(text), dtype=np.float64)
        shape = (*_extents(histogram), _FIRST_MOMENT + len(moments(histogram.axes)))
        carry(histogram, carried.reshape(shape) if carried.size == np.prod(shape) else None)


@dataclass(frozen=True)
class Statistics:
    """What ROOT keeps of a histogram besides its bins."""

    entries: float
    sums: tuple[float, ...]
    """Of weights, of their squares, and of the moments, in ROOT's order."""

    @property
    def members(self) -> dict[str, float]:
        """By the names that they have in ROOT's classes."""
        names = ("fTsumw", "fTsumw2", *(f"fTsumw{name}" for name in _MEMBERS))
        return {"fEntries": self.entries, **dict(zip(names, self.sums, strict=False))}


def statistics(histogram: Any) -> Statistics:
    """Of a histogram of numeric axes: of the values that filled it, else, as ROOT does it where it has the bins alone
    (`TH1::ResetStats`), of the centres of bins and the effective number of entries."""
    inside = np.asarray(histogram.values(flow=False), dtype=np.float64)
    variances = histogram.variances(flow=False)
    squares = np.abs(inside) if variances is None else np.asarray(variances, dtype=np.float64)
    total, of_squares = float(inside.sum()), float(squares.sum())
    carried = sums_of(histogram)
    if carried is not None and _belong(carried, inside):
        return Statistics(float(carried[ENTRIES]), (total, of_squares, *map(float, carried[_FIRST_MOMENT:])))
    centres = np.meshgrid(*((axis.edges[1:] + axis.edges[:-1]) / 2.0 for axis in histogram.axes), indexing="ij")
    found = []
    for moment in moments(histogram.axes):
        terms = inside
        for number in moment:
            terms = terms * centres[number]
        found.append(float(terms.sum()))
    entries = total**2 / of_squares if of_squares else 0.0
    return Statistics(entries, (total, of_squares, *found))


def _belong(carried: Sums, inside: Sums) -> bool:
    """Whether the bins hold what they held when the sums were taken: scaled ones, for example, do not."""
    off = abs(float(carried[WEIGHTS]) - float(inside.sum()))
    return bool(off <= _SAME * float(np.abs(inside).sum()))


def _weights_within(histogram: Any) -> Sums:
    """The sum of weights in the bins, those beyond them left out, for every place along the axes of categories."""
    numeric = [number for number, axis in enumerate(histogram.axes) if not is_category(axis)]
    within = tuple(
        slice(None) if is_category(axis) else slice(int(axis.traits.underflow), int(axis.traits.underflow) + axis.size)
        for axis in histogram.axes
    )
    found: Sums = histogram.values(flow=True)[within].sum(axis=tuple(numeric), dtype=np.float64)
    return found


def _extents(histogram: Any) -> tuple[int, ...]:
    return tuple(axis.extent for axis in histogram.axes if is_category(axis))
