"""Decide which samples are compared with which, and write what a picture compares as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cenote.analysis.operations.interface import ProductShape
from cenote.analysis.products.cutflow import csv_text
from cenote.analysis.renderers.interface import DrawContext
from cenote.analysis.renderers.support.bins import BinAxis, Floats
from cenote.analysis.renderers.support.compared import Compared
from cenote.analysis.renderers.support.samples import Sample, added_up, all_data, named, not_held
from cenote.analysis.renderers.support.style import DatasetStyle, SampleGroup, Transform
from cenote.analysis.renderers.support.transforms import names_after, transformed
from cenote.common import errors, storage
from cenote.common.errors import CenoteError, ErrorKind
from cenote.common.text import listed
from cenote.common.values import dataclass

EventType = Literal["data", "mc"]
Each = Literal["dataset", "eventtype"]
"""What pairs are made of, where products are compared dataset by dataset, or real data and simulation apart."""
EVERYTHING = "all datasets"
"""What a product is of that does not keep datasets apart."""


@dataclass(frozen=True)
class AskedSides:
    """What the settings say of the two sides: names, and what is meant where there are none."""

    reference: tuple[str, ...]
    target: tuple[str, ...]
    reference_eventtype: EventType = "data"
    target_eventtype: EventType = "mc"

    @property
    def sides(self) -> dict[str, tuple[tuple[str, ...], EventType]]:
        """Key → the names that it gives, and the type of the datasets otherwise."""
        return {
            "reference": (self.reference, self.reference_eventtype),
            "target": (self.target, self.target_eventtype),
        }


@dataclass(frozen=True, eq=False)
class Pair:
    """Two samples that are compared."""

    one: Sample
    other: Sample
    label: str | None = None
    """What both are of, where there is a pair for each dataset."""


def pairs_of(
    found: Sequence[Sample],
    asked: AskedSides,
    transforms: Sequence[Transform],
    styles: Mapping[str, DatasetStyle],
    context: DrawContext,
    *,
    each: Each,
) -> list[Pair]:
    """A pair for each dataset (or group) that both products have, or one of real data and one of simulation."""
    grouped = transformed(found, transforms, styles, context)
    sides = _by_product(asked, list(context.together))
    products = sides.reference[0], sides.target[0]
    ones, others = ({s.name: s for s in _of_product(grouped, name, styles, each=each)} for name in products)
    pairs = [
        Pair(_of(one, products[0]), _of(others[name], products[1]), name)
        for name, one in ones.items()
        if name in others
    ]
    if not pairs:
        words = (
            f"'{products[0]}' and '{products[1]}', which stage '{context.stage}' compares, have no dataset in common"
        )
        raise errors.error(errors.RENDER_FAILED, words)
    return pairs


def _of(sample: Sample, product: str) -> Sample:
    return replace(sample, name=f"{product}: {sample.name}")


def _of_product(
    samples: Sequence[Sample], product: str, styles: Mapping[str, DatasetStyle], *, each: Each
) -> list[Sample]:
    """The samples of a product, as datasets are called without it."""
    prefix = f"{product}: "
    own = [sample for sample in samples if sample.name.startswith(prefix) or sample.name == product]
    if each == "eventtype":
        return added_up(own, lambda sample: "Data" if sample.is_data else "Simulation", styles)
    return added_up(own, lambda sample: EVERYTHING if sample.name == product else sample.name[len(prefix) :], styles)


def check_each(asked: AskedSides, context: DrawContext, *, key: str) -> None:
    """Refuse pairs of anything but two products; `key` is what asks for them."""
    sides = _by_product(asked, list(context.together))
    known = {*context.together}
    if len(known) < 2:
        words = f"'{key}' compares two products, and stage '{context.stage}' draws one"
        hint = "write a stage whose `op` is the renderer, with `from: [{node: …, as: …}, {node: …, as: …}]`"
        raise errors.error(errors.BAD_VALUE, words, hint=hint)
    for names in (sides.reference, sides.target):
        if len(names) != 1:
            raise errors.error(errors.BAD_VALUE, f"'{key}' compares one product with one other, not {listed(names)}")
        if names[0] not in known:
            raise not_held(errors.BAD_VALUE, names[0], known, key=key, stage=context.stage)


def sides_of(
    found: Sequence[Sample],
    asked: AskedSides,
    transforms: Sequence[Transform],
    styles: Mapping[str, DatasetStyle],
    context: DrawContext,
) -> tuple[Sample, list[Sample]]:
    """The reference, and what it is compared with: as named; else by the names of products, or by types of datasets."""
    grouped = transformed(found, transforms, styles, context)
    apart = [one for one in transforms if not isinstance(one, SampleGroup)]
    ungrouped = transformed(found, apart, styles, context)
    asked = _by_product(asked, list(context.together)) if context.together else asked
    ones, others = (
        _side(key, names, eventtype, grouped=grouped, ungrouped=ungrouped, styles=styles, context=context)
        for key, (names, eventtype) in asked.sides.items()
    )
    one = ones[0] if len(ones) == 1 else added_up(ones, lambda _: " + ".join(asked.reference), styles)[0]
    return _called_data(one), [_called_data(other) for other in others]


def _by_product(asked: AskedSides, products: Sequence[str]) -> AskedSides:
    """With the names of products for sides that have none: FAST-HEP's, else the first one and the others."""
    first = asked.reference or (("reference",) if "reference" in products else tuple(products[:1]))
    rest = tuple(name for name in products if name not in first)
    return replace(asked, reference=first, target=asked.target or (("target",) if "target" in rest else rest))


def _side(
    key: str,
    names: Sequence[str],
    eventtype: EventType,
    *,
    grouped: Sequence[Sample],
    ungrouped: Sequence[Sample],
    styles: Mapping[str, DatasetStyle],
    context: DrawContext,
) -> list[Sample]:
    if not names:
        parts = [sample for sample in grouped if sample.is_data == (eventtype == "data")]
        if not parts:
            raise _unnamed(errors.RENDER_FAILED, key, eventtype, context)
        data = all_data(parts, styles) if eventtype == "data" else None
        if data is not None:
            return [data]
        return parts if len(parts) == 1 else added_up(parts, lambda _: "Simulation", styles)
    found: list[Sample] = []
    for name in names:
        parts = [sample for sample in ungrouped if sample.name in context.together.get(name, ())]
        if parts:
            found += _as_one(parts, name, styles)
        else:
            found += named(grouped, [name], key=f"comparison.{key}", stage=context.stage)
    return found


def _as_one(parts: Sequence[Sample], name: str, styles: Mapping[str, DatasetStyle]) -> list[Sample]:
    return added_up(parts, lambda _: name, styles)


def _called_data(sample: Sample) -> Sample:
    return replace(sample, name="Data") if sample.name == "data" else sample


def check_sides(asked: AskedSides, transforms: Sequence[Transform], shape: ProductShape, context: DrawContext) -> None:
    """Refuse sides that the histogram of a stage will not hold."""
    if not shape.per_dataset:
        raise nothing_to_compare(errors.BAD_VALUE, context.stage)
    known = names_after(transforms, context) | set(context.together)
    there = {info.eventtype for info in context.datasets.values()}
    for key, (names, eventtype) in asked.sides.items():
        for name in names:
            if name not in known:
                raise not_held(errors.BAD_VALUE, name, known, key=f"comparison.{key}", stage=context.stage)
        if not names and not context.together and eventtype not in there:
            raise _unnamed(errors.BAD_VALUE, key, eventtype, context)


def nothing_to_compare(kind: ErrorKind, stage: str) -> CenoteError:
    """The error of a histogram that is the sum of all datasets."""
    return errors.error(
        kind,
        f"the histogram of stage '{stage}' does not keep datasets apart: there is nothing to compare",
        hint="`dataset_axis: true` in the params of the stage keeps them apart; to compare the products of two stages, "
        "write a stage with `op: hep.render.comparison` and `from: [{node: …, as: reference}, {node: …, as: target}]`",
    )


def _unnamed(kind: ErrorKind, key: str, eventtype: str, context: DrawContext) -> CenoteError:
    return errors.error(
        kind,
        f"'comparison.{key}' is not given, and no dataset of stage '{context.stage}' has `eventtype: {eventtype}`",
        details=(f"datasets: {listed(context.datasets)}",),
        hint=f"name what is compared with `comparison: {{{key}: …}}`",
    )


# Write the numbers that a picture compares as a table beside it: what is drawn is stored nowhere else.


ENDING = "csv"
_NUMBERS = ("value", "down", "up")


@dataclass(frozen=True, eq=False)
class Side:
    """One of two samples that are compared."""

    name: str
    values: Floats
    down: Floats
    up: Floats
    """How far its interval reaches in each bin."""


@dataclass(frozen=True, eq=False)
class ComparedSides:
    """Two samples, and how they compare in each bin."""

    first: Side
    second: Side
    kind: str
    """What is drawn of them: `ratio`, `efficiency`, …"""
    found: Compared


def write_numbers(axes: Sequence[BinAxis], compared: Sequence[ComparedSides], target: Path, *, partial: bool) -> Path:
    """`<target>.csv`: a row for each bin of each pair. Blank where a comparison says nothing."""
    columns = [
        *(column for letter, axis in zip("xy", axes, strict=False) for column in _bin_columns(letter, axis)),
        *("first", "second", "comparison", *_NUMBERS),
        *(f"{side}_{number}" for side in ("first", "second") for number in _NUMBERS),
        *(["partial"] if partial else []),
    ]
    rows = [{**row, "partial": "true"} for pair in compared for row in _rows(axes, pair)]
    return storage.write_text(target.with_name(f"{target.name}.{ENDING}"), csv_text(columns, rows))


def _rows(axes: Sequence[BinAxis], pair: ComparedSides) -> Iterator[dict[str, Any]]:
    found = pair.found
    for place in np.ndindex(found.values.shape):
        row: dict[str, Any] = {"first": pair.first.name, "second": pair.second.name, "comparison": pair.kind}
        for letter, axis, number in zip("xy", axes, place, strict=False):
            row |= dict(zip(_bin_columns(letter, axis), _bin(axis, number), strict=True))
        if found.known[place]:
            row |= _numbers("", found.values[place], found.down[place], found.up[place])
        for called, side in (("first_", pair.first), ("second_", pair.second)):
            row |= _numbers(called, side.values[place], side.down[place], side.up[place])
        yield row


def _numbers(called: str, *numbers: Any) -> dict[str, float]:  # Any: numbers of numpy
    return {f"{called}{name}": float(number) for name, number in zip(_NUMBERS, numbers, strict=True)}


def _bin_columns(letter: str, axis: BinAxis) -> tuple[str, ...]:
    return (f"{letter}_low", f"{letter}_high") if axis.ticks is None else (letter,)


def _bin(axis: BinAxis, number: int) -> tuple[float | str, ...]:
    """Where a bin begins and ends; under- and overflow have no end on one side. Categories have a name."""
    if axis.ticks is not None:
        return (axis.ticks[number],)
    under, over = axis.flow
    low, high = float(axis.edges[number]), float(axis.edges[number + 1])
    last = len(axis.edges) - 2
    return ("-inf" if under and number == 0 else low, "inf" if over and number == last else high)
