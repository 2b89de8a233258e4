"""Fill one histogram several times: once per weight of its own, once per variation of the workflow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from cenote.expressions.expression import expression
from cenote.language.systematics import NOMINAL, Fillings, Shift
from cenote.operations.hep.hist.filling import as_weight, empty_histogram, fill, named_category
from cenote.operations.hep.hist.moments import add_sums
from cenote.operations.support.events import Column, DatasetInfo, Events
from cenote.operations.support.varied import with_replaced
from cenote.products.histogram import HistogramProduct
from cenote.products.support import fill_sums
from cenote.values import dataclass

if TYPE_CHECKING:
    from cenote.operations.hep.hist.operation import Hist

_AT_ONCE = 16
"""Weights that are evaluated together, where nothing but their own values depends on them."""


@dataclass(frozen=True)
class Weight:
    """What entries count in a filling."""

    text: str
    label: str | None

    @property
    def in_words(self) -> str:
        """As errors call it."""
        return f"the weight '{self.text}'" + (f" of '{self.label}'" if self.label is not None else "")


@dataclass(frozen=True)
class Filling:
    """One filling of a histogram."""

    label: str | None
    """Where along the axis of variations; None where there is no such axis."""
    weight: str | None
    """None: every entry counts 1."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column → the column that is read instead."""
    hist: Hist | None = None
    """The operation whose axes are filled, where the variation changes its settings."""
    shifted: bool = False
    """Whether it is a variation's of the workflow: equal to what a workflow of its own would fill."""

    @property
    def plain(self) -> bool:
        """Whether the axes are filled as usual."""
        return not self.columns and self.hist is None


def with_systematics(
    operation: Hist, own: Sequence[Filling], fillings: Fillings, dataset: DatasetInfo
) -> list[Filling]:
    """How a dataset fills a histogram that variations of the workflow change."""
    if fillings.label is not None:
        return [
            Filling(fillings.label, _multiplied(_nominal_weight(operation), fillings.factors, operation), shifted=True)
        ]
    shifts = {shift.label: shift for shift in fillings.shifts if dataset.own_name in shift.datasets}
    if dataset.stands_in:
        nominal = Shift(NOMINAL)
        labels = fillings.instead.get(dataset.own_name, ())
        return [_shifted(operation, shifts.get(label, nominal), label) for label in labels]
    usual = [Filling(NOMINAL if one.label is None else one.label, one.weight) for one in own]
    return [*usual, *(_shifted(operation, shift, shift.label) for shift in shifts.values())]


def _shifted(operation: Hist, shift: Shift, label: str) -> Filling:
    changed = None if shift.params is None else type(operation).model_validate(shift.params).for_stage(operation.stage)
    weight = _multiplied(_nominal_weight(changed or operation), shift.factors, operation)
    return Filling(label, weight, shift.columns, changed, shifted=True)


def _nominal_weight(operation: Hist) -> str | None:
    if not operation.weighted:
        return None
    varied = operation.variations.weights if operation.variations else {}
    return varied.get(NOMINAL, operation.weight_expr)


def _multiplied(weight: str | None, factors: Sequence[str], operation: Hist) -> str | None:
    """A weight times factors, as one would write it."""
    if not factors or not operation.weighted:
        return weight
    return " * ".join(f"({text})" for text in (*([weight] if weight is not None else []), *factors))


def filled_with(operation: Hist, fillings: Sequence[Filling], events: Events) -> Any:  # Any: hist publishes no types
    """The histogram of these events, filled one after the other: weights need not be in memory at the same time."""
    parts: list[Any] = []
    for batch in _batches(fillings, events):
        seen = with_replaced(events, batch[0].columns)
        hist = batch[0].hist or operation
        groups = _groups([Weight(one.weight, one.label) for one in batch if one.weight is not None], seen) or [[]]
        first = hist.aligned(groups[0], seen)
        fills = hist.axis_fills(first, seen)
        if not parts or any(one.axis.traits.growth for one in fills):
            parts.append(_empty(operation, [one.axis for one in fills]))
        weights = _weights(hist, groups, first, seen)
        for one in batch:
            weight = None if one.weight is None else as_weight(next(weights))
            place = None if one.label is None else operation.labels.index(one.label)
            entries = fill(parts[-1], fills, weight, events.size, place=place)
            add_sums(parts[-1], fills, weight, entries, place)
    if not parts:
        fills = operation.axis_fills(operation.aligned([], events), events)
        return _empty(operation, [one.axis for one in fills])
    for part in parts:
        fill_sums.seal(part)
    return HistogramProduct().merge(parts)


def _weights(hist: Hist, groups: Sequence[Sequence[Weight]], first: Sequence[Column], seen: Events) -> Iterator[Column]:
    """The weights of all groups; those of the first were lined up with the axes."""
    axes = len(hist.all_axes)
    yield from first[axes:]
    for group in groups[1:]:
        yield from hist.aligned(group, seen)[axes:]


def _empty(operation: Hist, axes: Sequence[Any]) -> Any:
    labels = operation.labels
    varied = [named_category(operation.variation_axis, "", labels, labels[0]).axis] if labels else []
    return empty_histogram([*axes, *varied], weighted=operation.weighted)


def _batches(fillings: Sequence[Filling], events: Events) -> Iterator[Sequence[Filling]]:
    """Fillings whose axes have the same entries."""
    usual = [one for one in fillings if one.plain]
    alone = all(_is_plain(one.weight, events) for one in usual)
    together = [one for one in usual if alone or not one.shifted]
    if together:
        yield together
    yield from ([one] for one in fillings if one not in together)


def _is_plain(weight: str | None, events: Events) -> bool:
    """Whether a weight is one number per event: it decides about no entries then."""
    names = [] if weight is None else [name for name in expression(weight).names if name in events]
    return all(isinstance(events[name], np.ndarray) and events[name].ndim == 1 for name in names)


def _groups(weights: Sequence[Weight], events: Events) -> list[Sequence[Weight]]:
    """Weights of one number per event in groups, to be in memory one group after the other.

    Lists and missing values of one weight decide about the entries of all of them: these stay together.
    """
    alone = all(_is_plain(weight.text, events) for weight in weights)
    step = _AT_ONCE if alone else max(1, len(weights))
    return [weights[start : start + step] for start in range(0, len(weights), step)]
