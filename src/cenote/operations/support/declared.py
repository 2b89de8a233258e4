"""Compare what own code returns with what it declared, and say the difference in the author's words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import Any

import numpy as np

from cenote.expressions.arrays import is_on_device, on_host
from cenote.jagged import ak
from cenote.names import listed
from cenote.operations.support.evaluation import event_column
from cenote.operations.support.events import Column, Events, NoColumnError
from cenote.values import dataclass


class ReturnedWrongError(TypeError):
    """Own code returned something else than it declared."""


@dataclass(frozen=True)
class Declared:
    """What a call may read and must return."""

    operation: str
    stage: str
    reads: tuple[str, ...]
    adds: tuple[str, ...]
    filters: bool
    product: bool

    @property
    def in_words(self) -> str:
        """`columns a, b; one boolean per event`."""
        words = [f"columns {', '.join(self.adds)}"] if self.adds else []
        words += ["one boolean per event"] if self.filters else []
        words += ["a product"] if self.product else []
        return "; ".join(words) or "nothing"

    def wrong(self, what: str) -> ReturnedWrongError:
        """An error that names the stage, the operation and the declaration."""
        return ReturnedWrongError(
            f"operation '{self.operation}' of stage '{self.stage}' {what}; it declares {self.in_words}"
        )

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Adds to an error about a missing column that only declared ones are handed over."""
        try:
            yield
        except NoColumnError as problem:
            problem.add_note(
                f"'{self.operation}' receives only the columns it declares, reads={list(self.reads)}: add it there"
            )
            raise


@dataclass(frozen=True)
class Returned:
    """What came back, taken apart."""

    columns: Mapping[str, Column] = field(default_factory=dict)
    mask: Column | None = None
    product: Any | None = None


def parts_of(value: Any, declared: Declared, events: Events) -> Returned:
    """Take apart what was returned. Raises ReturnedWrongError when it is not what was declared."""
    wanted = [bool(declared.adds), declared.filters, declared.product]
    if not any(wanted):
        return Returned() if value is None else _undeclared(value, declared, events)
    values = value if sum(wanted) > 1 else (value,)
    if not isinstance(values, tuple) or len(values) != sum(wanted):
        raise declared.wrong(f"returned {_kind(value)} where a tuple of {sum(wanted)} is expected")
    remaining = iter(values)
    return Returned(
        columns=_columns(next(remaining), declared, events) if declared.adds else {},
        mask=_mask(next(remaining), declared, events) if declared.filters else None,
        product=_product(next(remaining), declared) if declared.product else None,
    )


def _undeclared(value: Any, declared: Declared, events: Events) -> Returned:
    """A mask needs no declaration: nothing else looks like one."""
    if (isinstance(value, np.ndarray | ak.Array) or is_on_device(value)) and "bool" in str(
        getattr(value, "dtype", ak.type(value))
    ):
        return Returned(mask=_mask(value, declared, events))
    if isinstance(value, Mapping):
        raise declared.wrong(f"returned the columns {listed(map(str, value))}: name them under adds=")
    raise declared.wrong(f"returned {_kind(value)}: declare adds=, filter=True or product=")


def _columns(value: Any, declared: Declared, events: Events) -> Mapping[str, Column]:
    if not isinstance(value, Mapping):
        raise declared.wrong(f"returned {_kind(value)} where a mapping of columns is expected")
    if missing := [name for name in declared.adds if name not in value]:
        raise declared.wrong(f"did not return the column {listed(missing)}")
    if extra := [str(name) for name in value if name not in declared.adds]:
        raise declared.wrong(f"returned the column {listed(extra)} too")
    return {name: _column(name, value[name], declared, events) for name in declared.adds}


def _column(name: str, value: Any, declared: Declared, events: Events) -> Column:
    column = np.asarray(value) if isinstance(value, list | tuple) and not any(_nested(v) for v in value) else value
    column = ak.Array(column) if isinstance(column, list | tuple) else column
    try:
        return event_column(column, events, f"column '{name}'")
    except (ValueError, TypeError) as problem:
        raise declared.wrong(f"returned a wrong column: {problem}") from None


def _nested(value: Any) -> bool:
    return value is None or isinstance(value, list | tuple | np.ndarray)


def _mask(value: Any, declared: Declared, events: Events) -> Column:
    mask = np.asarray(on_host(value))
    if mask.dtype != np.bool_ or mask.shape != (events.size,):
        raise declared.wrong(
            f"returned {mask.dtype} of shape {mask.shape} where {events.size} booleans are due, one per event"
        )
    return mask


def _product(value: Any, declared: Declared) -> Any:
    if value is None:
        raise declared.wrong("returned None where a product is expected: is a 'return' missing?")
    return value


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a value of type {type(value).__name__}"
