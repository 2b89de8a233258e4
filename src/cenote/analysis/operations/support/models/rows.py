"""Turn columns of events into rows of numbers, and answers for rows into columns again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    on_host,
    plain,
)
from cenote.analysis.expressions.problems import EvaluationError
from cenote.analysis.operations.support.events import Events
from cenote.common.arrays import ak, is_awkward
from cenote.common.values import dataclass

Numbers = NDArray[Any]
"""One number per row; of any type that models have."""


@dataclass(frozen=True)
class Rows:
    """Columns side by side: a row for each event, or for each element where some columns are lists."""

    columns: Mapping[str, Numbers]
    size: int
    counts: ListLengths | None = None
    """Elements in each event; None where a row is an event."""

    def column(self, answers: Numbers) -> Column:
        """One answer per row as a column, with the lists of the columns that came in."""
        return answers if self.counts is None else Lists(answers, self.counts).column()


def rows_in(events: Events, names: Sequence[str]) -> Rows:
    """The rows of these columns; values for events are repeated for their elements."""
    columns = {name: _complete(name, _on_host(events[name])) for name in names}
    lists = {name: lists_of(column) for name, column in columns.items() if dimensions(column) == 2}
    counts = common_counts(list(lists.items()))
    if counts is None:
        return Rows({name: _numbers(column) for name, column in columns.items()}, events.size)
    found: dict[str, Numbers] = {}
    for name, column in columns.items():
        values = _numbers(lists[name].content if name in lists else column)
        found[name] = values if name in lists else np.repeat(values, counts)
    return Rows(found, int(counts.sum()), counts)


def as_type(name: str, values: Numbers, wanted: np.dtype[np.generic]) -> Numbers:
    """The values in the type of a model's input. Raises EvaluationError where they would become others."""
    if not np.can_cast(values.dtype, wanted, casting="same_kind"):
        raise EvaluationError(f"column '{name}' holds {values.dtype}, and the model takes {wanted}: convert it before")
    if wanted.kind in "iu" and values.dtype.kind in "iu" and values.size:
        limits = np.iinfo(wanted.name)
        if int(values.min()) < limits.min or int(values.max()) > limits.max:
            raise EvaluationError(f"column '{name}' has values that {wanted}, which the model takes, cannot hold")
    if wanted.kind == "f" and not np.can_cast(values.dtype, wanted) and _becomes_infinite(values, wanted):
        told = f"has numbers that {wanted}, which the model takes, cannot hold: they would become infinite"
        raise EvaluationError(f"column '{name}' {told}; clip or scale them before")
    return values


def _becomes_infinite(values: Numbers, wanted: np.dtype[np.generic]) -> bool:
    """Whether a finite number does; those that are infinite already stay so."""
    limit = np.finfo(wanted.name).max
    if not values.size or (np.fmax.reduce(values) <= limit and np.fmin.reduce(values) >= -limit):
        return False
    with np.errstate(over="ignore"):
        return bool(np.any(np.isinf(values.astype(wanted)) & np.isfinite(values)))


def _on_host(column: Column) -> Column:
    """Where onnxruntime takes rows from, also if `gpu.preload` has put the column elsewhere."""
    if is_awkward(column):
        return ak.to_backend(column, "cpu") if ak.backend(column) != "cpu" else column
    return on_host(column)


def _complete(name: str, column: Column) -> Column:
    """The column without options. Raises EvaluationError where a value is missing."""
    if _has_no_type(column):
        column = ak.values_astype(column, np.bool_, including_unknown=True)  # the one type that every model takes
    if leaf_kind(column) not in "biuf":
        raise EvaluationError(f"column '{name}' holds no numbers, which is all that a model takes")
    if dimensions(column) not in (1, 2):
        raise EvaluationError(f"column '{name}' has lists of lists: a model takes a number per event, or per element")
    if not is_awkward(column) or "?" not in str(ak.type(column)):
        return column
    axes = range(dimensions(column))
    missing = sum(int(ak.sum(ak.is_none(column, axis=axis), axis=None)) for axis in axes)
    if missing:
        raise EvaluationError(
            f"column '{name}' lacks {missing} of its values: fill them first, or select events that have them"
        )
    return ak.drop_none(column, axis=None)


def _has_no_type(column: Column) -> bool:
    """Whether it is made of nothing but empty lists, as a partition of own Python lists may be."""
    if not isinstance(column, ak.Array):
        return False
    form = column.layout.form
    while form.is_list and form.parameter("__array__") is None:
        form = form.content
    return bool(form.is_unknown)


def _numbers(values: Column) -> Numbers:
    found = plain(values)
    return found if isinstance(found, np.ndarray) else ak.to_numpy(found, allow_missing=False)
