"""Look values up in tables: files beside the workflow, bins of equal width, matrices."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import PrivateAttr
from pydantic_core import PydanticCustomError

from cenote.analysis.operations.interface import Operation
from cenote.language.plugins.resources import workflow_file

Contents = TypeVar("Contents")


class LookupOperation(Operation, Generic[Contents]):
    """An operation with one file: the plan checks it, and each worker reads it once."""

    file: str
    """The file, beside the workflow."""

    _contents: Contents | None = PrivateAttr(default=None)

    @abstractmethod
    def read(self, path: Path) -> Contents:
        """What the file holds. Raises `bad-input` where it cannot serve."""

    @property
    def contents(self) -> Contents:
        """What it holds, read the first time."""
        if self._contents is None:
            self._contents = self.read(workflow_file(self.file))
        return self._contents

    def depends_on_files(self) -> Collection[str]:
        """The file."""
        return (self.file,)

    def check_files(self, files: Mapping[str, Path]) -> None:
        """It can be read, and holds what the settings ask for."""
        for path in files.values():
            self.read(path)

    def prepare(self) -> None:
        """Read it."""
        self._contents = self.read(workflow_file(self.file))


# Find the bins of equal width that values belong to: a value that equals an edge belongs to the bin that begins
# there.
#
# boost-histogram multiplies and rounds down, which puts 29 into bin 28 of 100 bins from 0 to 100. Here the
# multiplication is only a guess, corrected by the edges themselves; compiled stages do the same
# (`compiled/emit.py`).


_ROUNDINGS_PER_BIN = 4
_AT_ONCE = 16_384
"""Values whose bins are found together: what is computed on the way stays in the processor's cache."""


@lru_cache(maxsize=256)
def regular_edges(count: int, low: float, high: float) -> NDArray[np.float64]:
    """Where the bins begin, and where the last ends: `low + i * (high - low) / count`, computed exactly from the limits
    as they are written and rounded once, to the nearest number of double precision.

    0.1 means a tenth, not the number of double precision beside it: else 0.3 would not be an edge of ten bins from 0.1
    to 1.1, nor 0 one of a hundred from -0.7 to 0.3.
    """
    written = [Fraction(repr(float(limit))) for limit in (low, high)]
    bottom = math.lcm(*(limit.denominator for limit in written))
    start, stop = (limit.numerator * (bottom // limit.denominator) for limit in written)
    exact = ((start * (count - i) + stop * i, count * bottom) for i in range(count + 1))
    edges = np.fromiter((top / below for top, below in exact), np.float64, count + 1)  # Python rounds once
    edges.flags.writeable = False
    return edges


def guess_is_near(count: int, low: float, high: float) -> bool:
    """Whether `(x - low) * (count / (high - low))` misses the bin of x by one at most: so it is where bins are much
    wider than the roundings of their edges."""
    width, largest = high - low, max(abs(low), abs(high))
    usable = math.isfinite(width) and math.isfinite(count / width)
    return usable and width / count >= _ROUNDINGS_PER_BIN * math.ulp(largest)


def regular_places(
    values: Any, count: int, low: float, high: float, *, overflow: bool
) -> NDArray[np.int32]:  # Any: numbers of any type, or one
    """The bin of each value: -1 below the first, `count` above the last and for NaN. Without overflow, the upper edge
    belongs to the last bin."""
    numbers, edges = np.asarray(values, dtype=np.float64), regular_edges(count, low, high)
    places = np.empty(numbers.shape, dtype=np.int32)
    near = guess_is_near(count, low, high)
    flat, found = numbers.reshape(-1), places.reshape(-1)
    for start in range(0, flat.size, _AT_ONCE):
        x = flat[start : start + _AT_ONCE]
        place = _corrected(x, edges, count / (high - low)) if near else np.searchsorted(edges, x, side="right") - 1
        if not overflow:
            place[x == high] = count - 1
        found[start : start + _AT_ONCE] = place
    return places


def _corrected(x: NDArray[np.float64], edges: NDArray[np.float64], scale: float) -> NDArray[np.int32]:
    with np.errstate(invalid="ignore", over="ignore"):  # infinity
        guess = x - edges[0]
        guess *= scale
    np.fmin(guess, len(edges) - 2, out=guess)  # NaN becomes the last bin, and is below none of its edges
    np.fmax(guess, 0, out=guess)
    begin = guess.astype(np.int32)
    place: NDArray[np.int32] = begin + np.int32(1)
    below_end = x < edges.take(place, mode="clip")
    place -= below_end
    place -= x < edges.take(begin, mode="clip")
    return place


# Write out patterns: an entry with a `matrix` of axes stands for one entry per combination of their values.


def combinations(entry: Any) -> Iterator[Any]:  # Any: whatever the YAML holds
    """An entry with a `matrix` of axes becomes one entry per combination; any other stays as it is."""
    if not isinstance(entry, Mapping) or "matrix" not in entry:
        yield entry
        return
    pattern = {key: value for key, value in entry.items() if key != "matrix"}
    axes = {str(axis): _axis_values(values) for axis, values in dict(entry["matrix"]).items()}
    for values in product(*axes.values()):
        yield _filled_in(pattern, dict(zip(axes, values, strict=True)))


def _axis_values(values: Any) -> list[Any]:  # Any: whatever the YAML holds
    if isinstance(values, Mapping):
        limits = values.get("range")
        if not isinstance(limits, Mapping) or "stop" not in limits:
            raise PydanticCustomError("bad_matrix", "a matrix axis is a list, or {range: {start, stop, step}}", {})
        return list(range(int(limits.get("start", 0)), int(limits["stop"]), int(limits.get("step", 1))))
    return list(values)


def _filled_in(value: Any, axes: Mapping[str, Any]) -> Any:  # Any: whatever the YAML holds
    if isinstance(value, str):
        for axis, inserted in axes.items():
            value = value.replace(f"{{{axis}}}", str(inserted))
        return value
    if isinstance(value, Mapping):
        return {key: _filled_in(inner, axes) for key, inner in value.items()}
    return [_filled_in(inner, axes) for inner in value] if isinstance(value, list) else value


def mapping_of(value: Any) -> Any:  # Any: whatever the YAML holds
    """A mapping written out: `matrix: {axes: {…}, mappings: [{target, source}]}` beside plain keys adds its own."""
    if not isinstance(value, Mapping) or not isinstance(value.get("matrix"), Mapping):
        return value
    matrix = value["matrix"]
    templates = matrix.get("mappings", matrix.get("templates"))
    if not isinstance(templates, list) or not isinstance(matrix.get("axes"), Mapping):
        raise PydanticCustomError("bad_matrix", "a matrix needs 'axes' and a list of 'mappings' {target, source}", {})
    found = {key: inner for key, inner in value.items() if key != "matrix"}
    for template in templates:
        for entry in combinations({**dict(template), "matrix": matrix["axes"]}):
            target = entry.get("target")
            if not isinstance(target, str) or target in found:
                raise PydanticCustomError(
                    "bad_matrix", "the matrix makes '{target}' twice, or without a name", {"target": target}
                )
            found[target] = entry.get("source")
    return found
