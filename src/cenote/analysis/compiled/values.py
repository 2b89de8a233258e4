"""Define the typed values that compiled stages are made of: per event, or per element of a list.

Equal values are one object (see `Values`), so that each is computed once and two spaces of elements can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any, TypeVar

import numpy as np

from cenote.common.values import dataclass

# Define what says that something has no compiled form.


class NotCompiledError(Exception):
    """A stage, or these columns, have no compiled form: the ordinary way computes them. The words say why."""


DType = np.dtype[Any]
Scalar = bool | int | float
BOOL, INT64, FLOAT64 = np.dtype(np.bool_), np.dtype(np.int64), np.dtype(np.float64)
TYPES = frozenset(np.dtype(name) for name in ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "f4", "f8"))
"""What can be computed with: what 64 signed bits or a fraction can hold."""


@dataclass(frozen=True, eq=False)
class Base:
    """The elements of a column of lists, as they came in."""

    column: str


@dataclass(frozen=True, eq=False)
class Masked:
    """The elements of another space that fulfil a condition."""

    parent: Space
    condition: Value


@dataclass(frozen=True, eq=False)
class Picked:
    """Elements that a stage chose once and put in order; later stages walk through them as often as they like."""

    parent: Base
    condition: Value | None
    key: Value | None
    """What they are ordered by, equal ones as they were; None leaves them as they are."""
    descending: bool


@dataclass(frozen=True, eq=False)
class Combined:
    """Every pair, or every three, of the elements of an event, in the order of their elements."""

    parent: Counted
    size: int


@dataclass(frozen=True, eq=False)
class Crossed:
    """Every element of one space with every element of another, event by event."""

    first: Counted
    second: Counted


@dataclass(frozen=True, eq=False)
class Joined:
    """The elements of several spaces, one space after the other within each event."""

    parents: tuple[Space, ...]


Counted = Base | Picked | Joined
"""Spaces whose elements can be found by their number."""
Space = Base | Masked | Picked | Combined | Crossed | Joined


@dataclass(frozen=True, eq=False)
class Input:
    """A column that comes in."""

    column: str
    dtype: DType
    space: Base | None


@dataclass(frozen=True, eq=False)
class Constant:
    """The same number everywhere."""

    number: Scalar
    dtype: DType
    space: None = None


@dataclass(frozen=True, eq=False)
class Instruction:
    """An operation of the processor on values of the types that it takes."""

    sign: str
    arguments: tuple[Value, ...]
    dtype: DType
    space: Space | None


@dataclass(frozen=True, eq=False)
class Numpy:
    """A function that numpy computes, on arrays: its last bits would be others anywhere else."""

    apply: Callable[..., Any]
    arguments: tuple[Value | Scalar, ...]
    dtype: DType
    space: Space | None


@dataclass(frozen=True, eq=False)
class Taken:
    """The values of the elements of a space, out of those of its parent."""

    value: Value
    space: Masked | Picked
    dtype: DType


@dataclass(frozen=True, eq=False)
class MemberOf:
    """The values of one of the members of combinations, out of those of all elements."""

    value: Value
    space: Combined | Crossed
    number: int
    dtype: DType


@dataclass(frozen=True, eq=False)
class Gathered:
    """The values of the elements of joined spaces, out of those of each."""

    values: tuple[Value, ...]
    space: Joined
    dtype: DType


@dataclass(frozen=True, eq=False)
class Smallest:
    """For each element, the smallest value that it has with any element of another space; infinity without any."""

    value: Value
    over: Crossed
    space: Counted
    dtype: DType = FLOAT64


@dataclass(frozen=True, eq=False)
class Ordinal:
    """Which of its event's each element is, from 0."""

    space: Space
    dtype: DType = INT64


@dataclass(frozen=True, eq=False)
class ChosenBy:
    """The element whose key is the smallest or the largest, the first of equal ones; a key that is NaN never is."""

    value: Value
    key: Value
    default: Value
    largest: bool
    dtype: DType
    space: None = None


@dataclass(frozen=True, eq=False)
class Reduced:
    """One value per event out of its elements, one after the other."""

    kind: str
    """`sum`, `prod`, `any`, `all`, `count_nonzero`, or `count`, which looks at no value."""
    over: Space
    value: Value | None
    dtype: DType
    space: None = None


@dataclass(frozen=True, eq=False)
class Nth:
    """One element of each event; `default` where there are too few, None where that is an error."""

    value: Value
    position: int
    """From the end where it is negative."""
    default: Value | None
    dtype: DType
    space: None = None


@dataclass(frozen=True, eq=False)
class IsThere:
    """Whether an event has so many elements."""

    over: Space
    position: int
    dtype: DType = BOOL
    space: None = None


@dataclass(frozen=True)
class Opaque:
    """A column that no compiled stage can read: it only passes by."""

    column: str


Value = (
    Input
    | Constant
    | Instruction
    | Numpy
    | Taken
    | MemberOf
    | Gathered
    | Smallest
    | Ordinal
    | ChosenBy
    | Reduced
    | Nth
    | IsThere
)
Lowered = Value | bool | int | float
"""A value, or a number of Python's, which takes the type of what stands beside it."""
Made = TypeVar("Made", bound=Value | Base | Masked | Picked | Combined | Crossed | Joined)


def arguments_of(value: Value) -> Iterator[Value]:
    """What it is computed from, the conditions of its elements included."""
    match value:
        case Instruction() | Numpy():
            yield from (argument for argument in value.arguments if not isinstance(argument, bool | int | float))
        case ChosenBy():
            yield from (value.value, value.key, value.default)
        case Gathered():
            yield from value.values
        case Taken() | Nth() | MemberOf() | Smallest():
            yield value.value
            if isinstance(value, Nth) and value.default is not None:
                yield value.default
        case Reduced() if value.value is not None:
            yield value.value
        case _:
            pass
    over = value.value.space if isinstance(value, ChosenBy) else getattr(value, "over", None)
    spaces = [space for space in (value.space, over) if space is not None]
    for space in spaces:
        yield from conditions_of(space)


def conditions_of(space: Space) -> Iterator[Value]:
    """What decides which elements a space has, and their order."""
    if isinstance(space, Masked):
        yield space.condition
    if isinstance(space, Picked):
        yield from (value for value in (space.condition, space.key) if value is not None)
    for parent in parents_of(space):
        yield from conditions_of(parent)


def parents_of(space: Space) -> tuple[Space, ...]:
    """The spaces that its elements come from."""
    match space:
        case Base():
            return ()
        case Crossed():
            return space.first, space.second
        case Joined():
            return space.parents
        case _:
            return (space.parent,)


@dataclass
class Values:
    """Makes values, equal ones once, and remembers which columns have to have equally long lists."""

    _made: dict[tuple[Any, ...], Any] = field(default_factory=dict)  # Any: whatever the fields of a value are
    _same: dict[Base, Base] = field(default_factory=dict)

    def make(self, kind: type[Made], *fields: Any) -> Made:
        """The value of a kind with these fields."""
        key = (kind, *map(_told_apart, fields))
        if key not in self._made:
            self._made[key] = kind(*fields)
        made: Made = self._made[key]
        return made

    def constant(self, number: Scalar, dtype: DType) -> Constant:
        """A number as a type has it."""
        try:
            with np.errstate(all="ignore"):
                exact = dtype.type(number).item() if dtype in TYPES else None
        except (OverflowError, ValueError):
            exact = None
        if exact is None:
            raise NotCompiledError(f"{number} is not a number of type {dtype}")
        return self.make(Constant, exact, dtype)

    def cast(self, value: Lowered, dtype: DType) -> Value:
        """As another type."""
        if isinstance(value, bool | int | float):
            return self.constant(value, dtype)
        if value.dtype == dtype:
            return value
        return self.make(Instruction, "!=0" if dtype == BOOL else "cast", (value,), dtype, value.space)

    def truth(self, value: Lowered) -> Value:
        """Whether it is not zero."""
        return self.constant(bool(value), BOOL) if isinstance(value, bool | int | float) else self.cast(value, BOOL)

    def both(self, one: Value | None, other: Value | None) -> Value | None:
        """Where both hold; None holds everywhere."""
        if one is None or other is None:
            return other if one is None else one
        return one if one is other else self.make(Instruction, "and", (one, other), BOOL, None)

    def lists(self, base: Base) -> Base:
        """The one that stands for all columns whose lists have to be as long."""
        while (other := self._same.get(base)) is not None:
            base = other
        return base

    def unite(self, one: Base, other: Base) -> None:
        """These columns have to have equally long lists: it is checked before anything is computed."""
        first, second = self.lists(one), self.lists(other)
        if first is not second:
            self._same[second] = first

    def key(self, space: Space) -> tuple[Any, ...]:  # Any: spaces and conditions
        """Equal for spaces with the same elements, once all columns are united that have to be."""
        match space:
            case Base():
                return (self.lists(space),)
            case Masked():
                return (space.condition, *self.key(space.parent))
            case Picked():
                return (space,)
            case Combined():
                return (space.size, *self.key(space.parent))
            case Crossed() | Joined():
                return (type(space), *map(self.key, parents_of(space)))

    @property
    def united(self) -> tuple[tuple[str, str], ...]:
        """Pairs of columns whose lists have to be equally long."""
        return tuple((one.column, other.column) for one, other in self._same.items())


def _told_apart(field: Any) -> Any:
    """1, 1.0 and True are equal to Python, and so are 0.0 and -0.0."""
    if isinstance(field, tuple):
        return tuple(map(_told_apart, field))
    return (type(field), repr(field)) if isinstance(field, bool | int | float) else field
