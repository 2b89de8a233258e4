"""List every function and constant that expressions may use: what it takes, what it does, in a table.

Reductions go over the elements of each event, never over events: results may not depend on how data were cut.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from cenote.analysis.expressions import combinations
from cenote.analysis.expressions import combinations as kinematics
from cenote.analysis.expressions.arrays import (
    Column,
    aligned,
    dimensions,
    elements_may_be_missing,
    is_array,
    leaf_kind,
    leaf_type,
    over_elements,
    plain,
)
from cenote.analysis.expressions.problems import EvaluationError, UnfitTypesError
from cenote.analysis.expressions.whole_numbers import alike, exact, fitting, in_double, nan_as_missing, sum_fits, wide
from cenote.common.arrays import ak, is_awkward
from cenote.common.values import dataclass
from cenote.language.plugins import own_functions


@dataclass(frozen=True)
class Function:
    """A function of the table."""

    usage: str
    """How it is written: `where(condition, a, b)`."""
    meaning: str
    apply: Callable[..., Column]
    counts: tuple[int, ...]
    """How many values it takes; a last 0 means "or more"."""
    options: frozenset[str] = frozenset()

    def takes(self, count: int) -> bool:
        """Whether it can be called with so many values."""
        return count > 0 and (count in self.counts or (self.counts[-1] == 0 and count > self.counts[-2]))

    @property
    def wants(self) -> str:
        """`1 value`, `6 or 8 values`."""
        numbers = " or ".join("more" if count == 0 else str(count) for count in self.counts)
        return f"{numbers} value{'' if self.counts == (1,) else 's'}"


def _reduction(name: str, numpy_one: Callable[..., Column] | None) -> Callable[..., Column]:
    """awkward's of that name, or numpy's, over the innermost elements of each event, or the given axis."""

    def apply(values: Column, axis: int = -1) -> Column:
        depth = dimensions(values)
        if depth < 2:
            raise UnfitTypesError(f"{name}(…) goes over the elements of each event, but there is one value per event")
        actual = axis + depth if axis < 0 else axis
        if not 1 <= actual < depth:
            raise UnfitTypesError(f"{name}(…, axis={axis}) is not possible: there are axes 1 to {depth - 1}")
        if name in _BY_SIZE:
            values = nan_as_missing(values)
        if isinstance(values, np.ndarray) and numpy_one is not None and (name not in _BY_SIZE or values.shape[actual]):
            found = numpy_one(values, axis=actual)
        else:
            found = getattr(ak, name)(values, axis=actual)
        if name == "prod" or (name == "sum" and leaf_kind(values) in "iu" and not sum_fits(values)):
            fitting(found, lambda: apply(in_double(values), actual))
        if name in _DECISIVE and actual == depth - 1 and elements_may_be_missing(values):
            undecided = ak.any(ak.is_none(values, axis=-1), axis=-1)
            found = ak.mask(found, (found == _DECISIVE[name]) | ~undecided)
        return plain(found)

    return apply


def _sorted(values: Column, ascending: bool = True) -> Column:
    """What is not a number comes last, and after it what is missing."""
    numbers = nan_as_missing(values)
    found = ak.sort(numbers, axis=-1, ascending=ascending)
    if numbers is values:
        return found
    found = _filled(found, math.nan)
    there = ak.local_index(found, axis=-1) < ak.count(values, axis=-1)
    return ak.mask(found, there) if elements_may_be_missing(values) else found


_BY_SIZE = frozenset({"min", "max", "argmin", "argmax"})
_DECISIVE = {"any": True, "all": False}
"""What one element decides, as it does of two conditions: else a missing one leaves it open."""


def _smallest_or_largest(pairwise: Any, over_elements: Callable[..., Column]) -> Callable[..., Column]:
    """Of each event's elements for one value; of several values, element by element. Any: a numpy ufunc."""

    def apply(*values: Column, **options: Any) -> Column:
        if len(values) == 1:
            return over_elements(values[0], **options)
        return plain(reduce(pairwise, alike(*values)))

    return apply


def _number_of(values: Column, axis: int = 1) -> Column:
    if dimensions(values) < 2:
        raise UnfitTypesError("num(…) counts the elements of each event, but there is one value per event")
    return plain(ak.num(values, axis=axis))


def _where(condition: Column, chosen: Column, other: Column) -> Column:
    """A condition on events chooses between whole lists; between a list and a single value it does so per element."""
    chosen, other = alike(chosen, other)
    if not any(is_awkward(value) for value in (condition, chosen, other)):
        return np.where(condition, chosen, other)
    if not is_array(condition):  # the same for all events, as what a dataset says of itself
        condition = np.full(len(chosen if is_array(chosen) else other), bool(condition))
    deep = [value for value in (chosen, other) if dimensions(value) > 1]
    if len(deep) == 1 and dimensions(condition) == 1:
        condition = over_elements(condition, deep[0])
    if dimensions(condition) != 1:
        condition, chosen, other = aligned(condition, chosen, other)
    return plain(ak.where(condition, _beside(other, chosen), _beside(chosen, other)))


def _nth(values: Column, position: Column, default: Column | None = None) -> Column:
    if not isinstance(position, int):
        found = combinations.element_at("nth", values, position)
        return found if default is None else _filled(found, default)
    if position >= 0:
        found = ak.pad_none(values, position + 1, axis=1)[:, position]
    else:
        found = ak.firsts(ak.mask(values, ak.num(values, axis=1) >= -position)[:, position:], axis=1)
    return _filled(found, 0.0 if default is None else default)


def _first(values: Column, default: Column | None = None) -> Column:
    found = ak.firsts(values, axis=1)
    return plain(found) if default is None else _filled(found, default)


def _last(values: Column, default: Column | None = None) -> Column:
    found = ak.firsts(values[:, ::-1], axis=1)
    return plain(found) if default is None else _filled(found, default)


_KEEPING_TYPE: dict[str, Any] = {"f": int | float, "u": int, "i": int}
"""Kind of a column → Python's numbers that stand in for its values without changing its type."""


def _beside(column: Column, value: Column) -> Column:
    """A number of Python's with the type of a column beside it: awkward takes those for double precision otherwise."""
    found = leaf_type(column) if is_array(column) and not is_array(value) else None
    return found.type(value) if found is not None and isinstance(value, _KEEPING_TYPE.get(found.kind, ())) else value


def _filled(values: Column, default: Column, axis: int | None = -1) -> Column:
    """With the default where a value is missing."""
    if not is_awkward(values):
        return values
    values, default = alike(values, default)
    if is_array(default):
        missing = ak.is_none(values, axis=-1)
        return plain(ak.where(missing, default, ak.fill_none(values, 0, axis=-1)))
    return plain(ak.fill_none(values, _beside(values, default), axis=axis))


def _chosen_by(name: str, *, largest: bool) -> Callable[..., Column]:
    def apply(values: Column, keys: Column, default: Column | None = None) -> Column:
        found = combinations.chosen_by(name, values, keys, largest=largest)
        return found if default is None else _filled(found, default)

    return apply


def _closest(values: Column, wanted: Column, default: Column | None = None) -> Column:
    away = np.abs(exact(np.subtract, values, wanted, signed=True))
    return _chosen_by("closest", largest=False)(values, away, default)


def _clipped(values: Column, low: Column, high: Column) -> Column:
    values, low, high = alike(values, low, high)
    return plain(np.minimum(np.maximum(values, low), high))


def _rounded(values: Column, decimals: Column = 0) -> Column:
    (values,) = wide(values)
    if is_awkward(values):
        return plain(ak.round(values, decimals=decimals))
    return np.round(values, decimals)


def power(base: Column, exponent: Column) -> Column:
    """`base ** exponent`; whole numbers to negative powers give fractions, and huge powers do not hang."""
    if isinstance(exponent, int) and (exponent < 0 or (isinstance(base, int) and _is_huge(base, exponent))):
        exponent = float(exponent)
    return exact(operator.pow, base, exponent, narrow_fit=False)


def _is_huge(base: int, exponent: int) -> bool:
    """Whether the power has many more bits than any column: powers of powers would take all memory."""
    return exponent > 64 or base.bit_length() * exponent > 4096


def _per_element(ufunc: Any, prepared: Callable[..., tuple[Column, ...]] = wide) -> Callable[..., Column]:
    """Any: a numpy ufunc. Of narrow whole numbers it would give fractions of three digits."""
    return lambda *values: plain(ufunc(*prepared(*values)))


def _elementwise() -> dict[str, Function]:
    one = {
        "sqrt": np.sqrt, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log10": np.log10, "log2": np.log2,
        "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "arcsin": np.arcsin, "arccos": np.arccos,
        "arctan": np.arctan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
        "cosh": np.cosh, "tanh": np.tanh, "arcsinh": np.arcsinh, "arccosh": np.arccosh, "arctanh": np.arctanh,
        "floor": np.floor, "ceil": np.ceil, "fabs": np.fabs, "sign": np.sign, "isnan": np.isnan,
        "isinf": np.isinf, "isfinite": np.isfinite,
    }  # fmt: skip
    two = {
        "arctan2": _per_element(np.arctan2), "atan2": _per_element(np.arctan2), "hypot": _per_element(np.hypot),
        "minimum": _per_element(np.minimum, alike), "maximum": _per_element(np.maximum, alike),
    }  # fmt: skip
    return {
        "abs": Function("abs(x)", "for each value", lambda x: plain(exact(np.abs, x)), (1,)),
        **{name: Function(f"{name}(x)", "for each value", _per_element(f), (1,)) for name, f in one.items()},
        **{name: Function(f"{name}(a, b)", "for each pair of values", f, (2,)) for name, f in two.items()},
    }


def _reductions() -> dict[str, Function]:
    table: dict[str, tuple[Callable[..., Column] | None, str]] = {
        "sum": (np.sum, "the sum"),
        "prod": (np.prod, "the product"),
        "any": (np.any, "whether one is true"),
        "all": (np.all, "whether all are true"),
        "count": (None, "how many there are, missing ones left out"),
        "count_nonzero": (np.count_nonzero, "how many are true, or not zero"),
        "mean": (np.mean, "the mean"),
        "std": (np.std, "the standard deviation"),
        "var": (np.var, "the variance"),
        "argmin": (np.argmin, "the position of the smallest"),
        "argmax": (np.argmax, "the position of the largest"),
    }
    return {
        name: Function(
            f"{name}(x, axis=-1)",
            f"{meaning} of the elements of each event",
            _reduction(name, numpy_one),
            (1,),
            frozenset({"axis"}),
        )
        for name, (numpy_one, meaning) in table.items()
    }


def _others() -> dict[str, Function]:
    smallest = _smallest_or_largest(np.minimum, _reduction("min", np.min))
    largest = _smallest_or_largest(np.maximum, _reduction("max", np.max))
    axis, default = frozenset({"axis"}), frozenset({"default"})
    kin = kinematics
    return {
        "min": Function(
            "min(x) or min(a, b, …)", "the smallest of each event, or of each tuple", smallest, (1, 0), axis
        ),
        "max": Function("max(x) or max(a, b, …)", "the largest of each event, or of each tuple", largest, (1, 0), axis),
        "num": Function("num(x)", "how many elements each event has", _number_of, (1,), axis),
        "len": Function("len(x)", "how many elements each event has", _number_of, (1,), axis),
        "where": Function("where(condition, a, b)", "a where the condition holds, else b", _where, (3,)),
        "round": Function("round(x, decimals)", "rounded, halves to even", _rounded, (1, 2)),
        "power": Function("power(x, n)", "x ** n", power, (2,)),
        "pow": Function("pow(x, n)", "x ** n", power, (2,)),
        "clip": Function("clip(x, low, high)", "kept within limits", _clipped, (3,)),
        "first": Function("first(x, default=…)", "the first element of each event, or missing", _first, (1,), default),
        "last": Function("last(x, default=…)", "the last element of each event, or missing", _last, (1,), default),
        "nth": Function(
            "nth(x, i, default=0.0)",
            "the element at position i, or the default; for a column i, such as argmax(y), missing without a default",
            _nth,
            (2, 3),
            default,
        ),
        "leading": Function(
            "leading(x, default=0.0)",
            "the first element of each event, or the default",
            lambda x, default=0.0: _nth(x, 0, default),
            (1, 2),
            default,
        ),
        "subleading": Function(
            "subleading(x, default=0.0)",
            "the second element of each event, or the default",
            lambda x, default=0.0: _nth(x, 1, default),
            (1, 2),
            default,
        ),
        "sort": Function(
            "sort(x, ascending=true)",
            "the elements of each event in order",
            _sorted,
            (1,),
            frozenset({"ascending"}),
        ),
        "fill_none": Function(
            "fill_none(x, value)",
            "the value where one is missing",
            _filled,
            (2,),
            axis,
        ),
        "pad_none": Function(
            "pad_none(x, n)",
            "at least n elements per event, missing ones added",
            lambda x, n, axis=1, clip=False: ak.pad_none(x, n, axis=axis, clip=clip),
            (2,),
            frozenset({"axis", "clip"}),
        ),
        "is_none": Function(
            "is_none(x)",
            "whether a value is missing",
            lambda x: plain(ak.is_none(x, axis=-1)) if is_awkward(x) else np.zeros(np.shape(x), np.bool_),
            (1,),
        ),
        "deltaphi": Function("deltaphi(phi1, phi2)", "the difference of azimuths in [-π, π)", kin.delta_phi, (2,)),
        "deltar": Function("deltar(eta1, phi1, eta2, phi2)", "the distance in η and φ", kin.delta_r, (4,)),
        "transverse_mass": Function(
            "transverse_mass(pt1, phi1, pt2, phi2)", "of a lepton and missing momentum", kin.transverse_mass, (4,)
        ),
        "invariant_mass": Function(
            "invariant_mass(pt1, eta1, phi1, [mass1,] pt2, eta2, phi2[, mass2])",
            "of two objects",
            kin.invariant_mass,
            (6, 8),
        ),
    }


def _combinations() -> dict[str, Function]:
    default = frozenset({"default"})
    return {
        "pairs": Function(
            "pairs(x, i)",
            "of every pair of elements of an event, the first (i = 0) or the second (i = 1)",
            lambda x, i: combinations.member(x, 2, i),
            (2,),
        ),
        "triples": Function(
            "triples(x, i)",
            "of every three elements of an event, the one with number i: 0, 1 or 2",
            lambda x, i: combinations.member(x, 3, i),
            (2,),
        ),
        "cross": Function(
            "cross(x, y, i)",
            "of every element of x with every element of y, that of x (i = 0) or that of y (i = 1)",
            combinations.crossed_member,
            (3,),
        ),
        "concat": Function(
            "concat(x, y, …)", "the elements of x, then those of y, …, in one list", combinations.concatenated, (2, 0)
        ),
        "position": Function("position(x)", "the position of each element in its list", combinations.position, (1,)),
        "min_by": Function(
            "min_by(x, key, default=…)",
            "the element of x whose key is the smallest, or missing",
            _chosen_by("min_by", largest=False),
            (2,),
            default,
        ),
        "max_by": Function(
            "max_by(x, key, default=…)",
            "the element of x whose key is the largest, or missing",
            _chosen_by("max_by", largest=True),
            (2,),
            default,
        ),
        "closest": Function(
            "closest(x, value, default=…)",
            "the element that is closest to a value, or missing",
            _closest,
            (2,),
            default,
        ),
        "nearest_deltar": Function(
            "nearest_deltar(eta1, phi1, eta2, phi2)",
            "for each object of a list, the distance to the nearest one of another list; inf where that is empty",
            combinations.nearest_delta_r,
            (4,),
        ),
    }


def _four_vectors() -> dict[str, Function]:
    kin = kinematics
    return {
        "px": Function("px(pt, phi)", "the momentum along x", kin.momentum_x, (2,)),
        "py": Function("py(pt, phi)", "the momentum along y", kin.momentum_y, (2,)),
        "pz": Function("pz(pt, eta)", "the momentum along the beam", kin.momentum_z, (2,)),
        "energy": Function("energy(pt, eta, mass)", "of an object", kin.energy, (3,)),
        "mass": Function("mass(px, py, pz, energy)", "of a four-vector, such as a sum", kin.cartesian_mass, (4,)),
        "pseudorapidity": Function("pseudorapidity(px, py, pz)", "η of a momentum", kin.pseudorapidity, (3,)),
    }


FUNCTIONS: dict[str, Function] = {
    **_elementwise(), **_reductions(), **_others(), **_combinations(), **_four_vectors()
}  # fmt: skip

PER_VALUE = frozenset(
    {*_elementwise(), *_four_vectors(), "where", "round", "power", "pow", "clip", "min", "max"}
    | {"deltaphi", "deltar", "transverse_mass", "invariant_mass"}
)
"""Functions of single values, those of different elements independent of each other; `min` and `max` of several."""

JOINED = (PER_VALUE | {"closest", "fill_none"}) - {"where"}
"""Functions that join their values element by element."""

CONSTANTS: dict[str, float | bool] = {
    "pi": math.pi,
    "inf": math.inf,
    "nan": math.nan,
    "True": True,
    "False": False,
    "true": True,
    "false": False,
}
"""Names with a value of their own, unless a column is called so."""


def function_named(name: str) -> Function | None:
    """The function of the table, or the one of this name that a workflow brings."""
    own = own_functions.find(name)
    if own is None or name in FUNCTIONS:
        return FUNCTIONS.get(name)
    return Function(own.usage, own.usage, partial(_called, own), own.counts, own.options)


def function_names() -> list[str]:
    """Of all that there are."""
    return [*FUNCTIONS, *own_functions.names()]


def _called(own: own_functions.OwnFunction, *values: Column, **options: Any) -> Column:
    """Its value, of as many events as it was given."""
    found = own.call(*values, **options)
    column = np.asarray(found) if isinstance(found, list | tuple) else found
    events = next((len(value) for value in values if dimensions(value) > 0), None)
    if events is not None and dimensions(column) > 0 and len(column) != events:
        raise EvaluationError(f"{own.usage} gives {len(column)} values for {events} events")
    return column
