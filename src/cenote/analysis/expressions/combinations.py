"""Combine the elements of each event: pairs and triples, lists one after the other, the element that is closest.

All of it works on the long array of all elements, without a loop over events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, reduce
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cenote.analysis.expressions.arrays import (
    Column,
    ListLengths,
    Lists,
    common_counts,
    dimensions,
    leaf_kind,
    lists_of,
    picked_or_missing,
    plain,
)
from cenote.analysis.expressions.problems import EvaluationError, UnfitTypesError
from cenote.analysis.expressions.whole_numbers import absent_lists, alike, may_be_missing
from cenote.common.arrays import ak, is_awkward
from cenote.common.values import dataclass

# Hold the formulas of relativistic kinematics that expressions may use; angles in radians.
#
# All of them compute in double precision, whatever the columns are stored as, and subtract no two numbers that are
# nearly equal: two close objects of high momentum have a mass that single precision, or `E² - p²`, would lose.


_SMALLEST = float(np.finfo(np.float64).tiny)


def delta_phi(phi_1: Column, phi_2: Column) -> Column:
    """The difference of two azimuths, in [-π, π)."""
    difference = _doubly(np.subtract, phi_1, phi_2)
    turns = np.floor((difference + np.pi) / (2 * np.pi))  # 0 where nothing is to be done: small angles stay exact
    return np.maximum(difference - turns * (2 * np.pi), -np.pi)


def delta_r(eta_1: Column, phi_1: Column, eta_2: Column, phi_2: Column) -> Column:
    """The distance in η and φ."""
    square = _doubly(np.subtract, eta_1, eta_2) ** 2
    return np.sqrt(square + delta_phi(phi_1, phi_2) ** 2)  # hypot takes eight times as long


def transverse_mass(pt_1: Column, phi_1: Column, pt_2: Column, phi_2: Column) -> Column:
    """Of two objects whose masses do not matter, such as a lepton and missing momentum."""
    sine = np.sin(_doubly(np.subtract, phi_1, phi_2) / 2)
    return 2 * np.sqrt(np.maximum(_doubly(np.multiply, pt_1, pt_2), 0)) * np.abs(sine)


def invariant_mass(*values: Column) -> Column:
    """Of two objects: pt, eta, phi of each (masses neglected), or pt, eta, phi, mass of each."""
    half = len(values) // 2
    pt_1, eta_1, phi_1, *mass_1 = values[:half]
    pt_2, eta_2, phi_2, *mass_2 = values[half:]
    # 2(p₁p₂ - p₁·p₂), that is 2pt₁pt₂(cosh Δη - cos Δφ)
    apart = np.sinh(_doubly(np.subtract, eta_1, eta_2) / 2) ** 2 + np.sin(_doubly(np.subtract, phi_1, phi_2) / 2) ** 2
    square = 4 * _doubly(np.multiply, pt_1, pt_2) * apart
    if mass_1:
        square = square + _at_rest(*map(_double, (pt_1, eta_1, mass_1[0], pt_2, eta_2, mass_2[0])))
    return np.sqrt(np.maximum(square, 0))


def _at_rest(pt_1: Column, eta_1: Column, mass_1: Column, pt_2: Column, eta_2: Column, mass_2: Column) -> Column:
    """What the masses add to the square: m₁² + m₂² + 2(E₁E₂ - p₁p₂), the difference written as a sum."""
    momentum_1, momentum_2 = (pt_1 * np.cosh(eta_1)) ** 2, (pt_2 * np.cosh(eta_2)) ** 2
    square_1, square_2 = mass_1**2, mass_2**2
    energies = np.sqrt((momentum_1 + square_1) * (momentum_2 + square_2))
    above = square_1 * momentum_2 + square_2 * momentum_1 + square_1 * square_2
    below = np.maximum(energies + np.sqrt(momentum_1 * momentum_2), _SMALLEST)
    return square_1 + square_2 + 2 * above / below


def cartesian_mass(px: Column, py: Column, pz: Column, energy: Column) -> Column:
    """Zero where rounding (or the detector) makes the square negative."""
    px, py, pz, energy = map(_double, (px, py, pz, energy))
    momentum = np.sqrt(px**2 + py**2 + pz**2)
    return np.sqrt(np.maximum((energy - momentum) * (energy + momentum), 0))


def momentum_x(pt: Column, phi: Column) -> Column:
    """Of an object with this azimuth."""
    return _double(pt) * np.cos(_double(phi))


def momentum_y(pt: Column, phi: Column) -> Column:
    """Of an object with this azimuth."""
    return _double(pt) * np.sin(_double(phi))


def momentum_z(pt: Column, eta: Column) -> Column:
    """Along the beam."""
    return _double(pt) * np.sinh(_double(eta))


def energy(pt: Column, eta: Column, mass: Column) -> Column:
    """Of an object with this mass."""
    return np.sqrt((_double(pt) * np.cosh(_double(eta))) ** 2 + _double(mass) ** 2)


def pseudorapidity(px: Column, py: Column, pz: Column) -> Column:
    """Infinite along the beam, and NaN for a momentum of zero."""
    px, py, pz = map(_double, (px, py, pz))
    return np.arcsinh(pz / np.sqrt(px**2 + py**2))


def _doubly(ufunc: Any, left: Column, right: Column) -> Column:
    """Computed in double precision; numpy converts piece by piece, without copies. Any: a numpy ufunc."""
    if is_awkward(left) or is_awkward(right):
        return ufunc(_double(left), _double(right))
    return ufunc(left, right, dtype=np.float64)


def _double(value: Column) -> Column:
    if is_awkward(value):
        return ak.values_astype(value, np.float64)
    return np.asarray(value, dtype=np.float64) if isinstance(value, np.ndarray) else float(value)


Positions = NDArray[np.int64]
"""Of elements, in the long array of all events."""


@dataclass(frozen=True)
class Combinations:
    """Where the members of all combinations are, one array for each member."""

    positions: tuple[Positions, ...]
    counts: ListLengths
    """How many combinations each event has."""

    @cached_property
    def offsets(self) -> Any:  # Any: awkward publishes no types
        """Shared by all columns of these combinations: awkward need not compare them."""
        return ak.index.Index64(np.concatenate(([0], np.cumsum(self.counts))))

    def members(self, content: Column, number: int) -> Column:
        """Of every combination the one with this number, as a column."""
        chosen = ak.to_layout(content[self.positions[number]])
        return ak.Array(ak.contents.ListOffsetArray(self.offsets, chosen))


_kept: ContextVar[dict[tuple[object, ...], Combinations] | None] = ContextVar("kept", default=None)


@contextmanager
def kept_combinations() -> Iterator[None]:
    """Within it, the combinations of lists of the same lengths are worked out once; they are large, and go with it."""
    if _kept.get() is not None:
        yield
        return
    token = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(token)


def _once(make: Callable[[], Combinations], *key: object) -> Combinations:
    kept = _kept.get()
    if kept is None:
        return make()
    if key not in kept:
        kept[key] = make()
    return kept[key]


def member(values: Column, size: int, number: Column) -> Column:
    """Of every combination of `size` different elements of an event, the one with this number.

    Combinations come in the order of their elements: (0, 1), (0, 2), (1, 2).
    """
    name = {2: "pairs", 3: "triples"}[size]
    lists, place = _lists(values, name), _number(number, size, name)
    found = _once(lambda: combined(lists.counts, size), size, lists.counts.tobytes())
    return found.members(lists.content, place)


def combined(counts: ListLengths, size: int) -> Combinations:
    """Of so many different elements of an event."""
    ends = np.repeat(np.cumsum(counts), counts)
    positions: list[Positions] = [np.arange(len(ends))]
    for _ in range(size - 1):
        last = positions[-1]
        after = ends - 1 - last
        positions = [np.repeat(earlier, after) for earlier in positions]
        positions.append(_ranges(last + 1, after))
        ends = np.repeat(ends, after)
    return Combinations(tuple(positions), _choices(counts, size))


def crossed(counts: ListLengths, others: ListLengths) -> Combinations:
    """Of every element of one list with every element of the other, event by event."""
    partners = np.repeat(others, counts)
    first = np.repeat(np.arange(len(partners)), partners)
    begins = np.repeat(np.cumsum(others) - others, counts)
    return Combinations((first, _ranges(begins, partners)), counts * others)


def crossed_member(values: Column, others: Column, number: Column) -> Column:
    """Of every element of one list with every element of the other: that of the first (0), or of the second (1)."""
    one, other = _lists(values, "cross"), _lists(others, "cross")
    place = _number(number, 2, "cross")
    _same_events(one, other, "cross")
    lengths = (one.counts.tobytes(), other.counts.tobytes())
    found = _once(lambda: crossed(one.counts, other.counts), *lengths)
    return found.members((one, other)[place].content, place)


def concatenated(*values: Column) -> Column:
    """The elements of several lists, one list after the other within each event."""
    lists = [_lists(value, "concat") for value in values]
    for other in lists[1:]:
        _same_events(lists[0], other, "concat")
    contents = alike(*(one.content for one in lists))
    if not all(isinstance(content, np.ndarray) for content in contents):
        return ak.concatenate([Lists(c, one.counts).column() for c, one in zip(contents, lists, strict=True)], axis=1)
    counts = reduce(np.add, (one.counts for one in lists))
    joined = np.empty(int(counts.sum()), np.result_type(*contents))
    begins = np.cumsum(counts) - counts
    for content, one in zip(contents, lists, strict=True):
        joined[_ranges(begins, one.counts)] = content
        begins = begins + one.counts
    return Lists(joined, counts).column()


def position(values: Column) -> Column:
    """Of each element within its event, from 0."""
    counts = _lists(values, "position").counts
    return Lists(_ranges(np.zeros_like(counts), counts), counts).column()


def chosen_by(name: str, values: Column, keys: Column, *, largest: bool) -> Column:
    """For each event the element whose key is the smallest (or largest); missing where there is none.

    Of equal keys the first one counts; a key that is NaN or missing never does.
    """
    lists = _lists(values, name)
    by, positions = _keys_there(name, values, keys)
    found = np.full(len(lists.counts), -1)
    filled = np.flatnonzero(by.counts)
    if len(filled):
        counts = by.counts[filled]
        best = (np.fmax if largest else np.fmin).reduceat(by.content, np.cumsum(counts) - counts)
        hits = np.flatnonzero(by.content == np.repeat(best, counts))
        events = np.repeat(filled, counts)[hits]
        first = np.ones(len(events), np.bool_)
        first[1:] = events[1:] != events[:-1]
        found[events[first]] = positions[hits[first]]
    return picked_or_missing(lists.content, found)


def _keys_there(name: str, values: Column, keys: Column) -> tuple[Lists, Positions]:
    """The keys that are not missing, and where the elements are that they belong to."""
    lists, by = _lists(values, name), _lists(keys, name)
    own = Lists(np.arange(len(lists.content)), lists.counts)
    for absent in (absent_lists(values), absent_lists(keys)):
        if absent is not None:
            own, by = (one.where(np.repeat(~absent, one.counts)) for one in (own, by))
    _shared((f"the values of {name}", own), ("its keys", by))
    if may_be_missing(by.content):
        known = ~ak.to_numpy(ak.is_none(by.content))
        own, by = own.where(known), by.where(known)
        by = Lists(plain(ak.drop_none(by.content)), by.counts)
    if not isinstance(by.content, np.ndarray):
        raise EvaluationError(f"{name}(…) needs keys that are numbers, one for each element")
    return by, own.content


def element_at(name: str, values: Column, places: Column) -> Column:
    """For each event the element at its own position; missing where the event has no such element, or no position."""
    lists = _lists(values, name)
    if dimensions(places) != 1 or leaf_kind(places) not in "iu?" or len(places) != len(lists.counts):
        raise EvaluationError(f"{name}(x, i) needs a whole number i: one for all events, or one per event")
    return _at(lists, np.arange(len(lists.counts)), places)


def elements_at(values: Column, places: Column) -> Column:
    """For each position in a list the element of the event's other list; missing where that has no such element."""
    lists, wanted = _lists(values, "x[i]"), _lists(places, "x[i]")
    _same_events(lists, wanted, "x[i]")
    if leaf_kind(places) not in "iu?":
        raise UnfitTypesError("x[i] needs positions i that are whole numbers, or a condition")
    if dimensions(places) > 2:
        counts = _shared(("the lists", lists), ("the positions", wanted))
        return Lists(elements_at(lists.content, wanted.content), counts).column()
    events = np.repeat(np.arange(len(wanted.counts)), wanted.counts)
    found = Lists(_at(lists, events, wanted.content), wanted.counts).column()
    absent = absent_lists(places)
    return found if absent is None else ak.mask(found, ~absent)


def _at(lists: Lists, events: Positions, places: Column) -> Column:
    """One element of each of these events. A negative position in data says that there is none."""
    at = np.asarray(ak.to_numpy(ak.fill_none(places, -1)) if is_awkward(places) else places).astype(np.int64)
    inside = (at >= 0) & (at < lists.counts[events])
    begins = np.cumsum(lists.counts) - lists.counts
    return picked_or_missing(lists.content, np.where(inside, begins[events] + at, -1))


def nearest_delta_r(eta: Column, phi: Column, other_eta: Column, other_phi: Column) -> Column:
    """For each object the distance in η and φ to the nearest object of another list; infinite where that is empty."""
    name = "nearest_deltar"
    etas, phis = _lists(eta, name), _lists(phi, name)
    other_etas, other_phis = _lists(other_eta, name), _lists(other_phi, name)
    counts = _shared(("the first eta", etas), ("the first phi", phis))
    others = _shared(("the second eta", other_etas), ("the second phi", other_phis))
    _same_events(etas, other_etas, name)
    if any(may_be_missing(part.content) for part in (etas, phis, other_etas, other_phis)):
        raise EvaluationError(f"{name}(…) needs the angles of all objects, some are missing: use fill_none(x, value)")
    one, other = crossed(counts, others).positions
    apart = delta_r(etas.content[one], phis.content[one], other_etas.content[other], other_phis.content[other])
    partners = np.repeat(others, counts)
    nearest = np.full(len(partners), np.inf)
    some = np.flatnonzero(partners)
    if len(some):
        nearest[some] = np.minimum.reduceat(apart, (np.cumsum(partners) - partners)[some])
    return Lists(nearest, counts).column()


def _ranges(begins: Positions, lengths: Positions) -> Positions:
    """`begin, begin + 1, …`, so many for each, one range after the other."""
    total = int(lengths.sum())
    found: Positions = np.arange(total) + np.repeat(begins - (np.cumsum(lengths) - lengths), lengths)
    return found


def _choices(counts: ListLengths, size: int) -> ListLengths:
    """How many ways there are to choose so many of so many."""
    largest = int(counts.max(initial=0))
    table = np.array([comb(number, size) for number in range(largest + 1)], np.int64)
    found: ListLengths = table[counts]
    return found


def _lists(values: Any, name: str) -> Lists:  # Any: numbers and arrays of all kinds
    if dimensions(values) < 2:
        raise UnfitTypesError(f"{name}(…) takes the elements of each event, but there is one value per event")
    return lists_of(values)


def _shared(*lists: tuple[str, Lists]) -> ListLengths:
    """The lengths that these lists have in common; names are for the error."""
    counts = common_counts(lists)
    assert counts is not None, "there are lists"
    return counts


def _same_events(one: Lists, other: Lists, name: str) -> None:
    if len(one.counts) != len(other.counts):
        raise EvaluationError(f"{name}(…) takes lists of the same events")


def _number(number: Column, size: int, name: str) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < size:
        wanted = "0 or 1" if size == 2 else f"0 to {size - 1}"
        raise EvaluationError(f"{name}(…) needs a number from {wanted} that says which member it gives")
    return number
