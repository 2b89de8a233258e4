"""Make one histogram of several products, so that every renderer of pictures can draw them together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cenote import errors
from cenote.errors import CenoteError, ErrorKind
from cenote.operations.interface import ProductShape
from cenote.operations.support.events import DatasetInfo
from cenote.renderers.interface import DrawContext
from cenote.renderers.support import bins
from cenote.values import dataclass

MIXED = "mixed"
"""The type of a product that adds up real data and simulation."""


@dataclass(frozen=True, eq=False)
class _Part:
    """One dataset of a product, or all of them where it does not keep them apart."""

    product: str
    dataset: str | None
    histogram: Any

    @property
    def empty(self) -> bool:
        return not (np.any(self.histogram.values(flow=True)) or np.any(self.histogram.variances(flow=True)))


def combined(
    histograms: Mapping[str, Any], context: DrawContext, *, wanted: Collection[str], variation: str | None
) -> tuple[Any, DrawContext]:
    """A histogram with a dataset axis, on which the datasets of all products stand side by side, and what describes it.

    Datasets that several products have are called `product: dataset`. Of the axes, only those `wanted` are kept, where
    there are such.
    """
    import hist

    parts = [
        part
        for product, histogram in histograms.items()
        for part in _parts(product, histogram, context, wanted=wanted, variation=variation)
    ]
    parts = [part for part in parts if not part.empty] or parts
    first = parts[0].histogram
    for part in parts[1:]:
        _refuse_other_bins(parts[0], part, context)
    names = _names([(part.product, part.dataset) for part in parts])
    weighted = any("Weight" in part.histogram.storage_type.__name__ for part in parts)
    storage = hist.storage.Weight() if weighted else hist.storage.Double()
    whole: Any = hist.Hist(hist.axis.StrCategory(names, name="dataset", growth=True), *first.axes, storage=storage)
    view = whole.view(flow=True)
    for number, part in enumerate(parts):
        if weighted:
            view["value"][number] = part.histogram.values(flow=True)
            view["variance"][number] = part.histogram.variances(flow=True)
        else:
            view[number] = part.histogram.values(flow=True)
    return whole, _described([(part.product, part.dataset) for part in parts], names, context, variation)


def _parts(
    product: str, histogram: Any, context: DrawContext, *, wanted: Collection[str], variation: str | None
) -> Iterable[_Part]:
    roles = bins.roles(histogram, context.datasets, wanted=wanted)
    if roles.variation is not None:
        names = list(histogram.axes[roles.variation])
        name = variation or bins.NOMINAL
        if name not in names:
            words = f"the product '{product}' that stage '{context.stage}' draws has no variation '{name}'"
            raise CenoteError(errors.unknown_name(errors.RENDER_FAILED, words, name, names, what="variations"))
        histogram = histogram[{roles.variation: names.index(name)}]
        roles = bins.roles(histogram, context.datasets, wanted=wanted)
    kept = [index for index in roles.free if histogram.axes[index].name in wanted] or list(roles.free)
    if roles.dataset is None:
        yield _Part(product, None, histogram.project(*kept))
        return
    whole = histogram.project(roles.dataset, *kept)
    for number, name in enumerate(list(whole.axes[0])):
        yield _Part(product, name, whole[{0: number}])


def _refuse_other_bins(first: _Part, other: _Part, context: DrawContext) -> None:
    ours, theirs = first.histogram.axes, other.histogram.axes
    if len(ours) != len(theirs):
        many = {first.product: len(ours), other.product: len(theirs)}
        raise _different_axes(errors.RENDER_FAILED, many, context.stage)
    for one, two in zip(ours, theirs, strict=True):
        if one.traits != two.traits or one.size != two.size or not np.array_equal(_cut(one), _cut(two)):
            raise _cut_differently(errors.RENDER_FAILED, (first.product, other.product), one.name, (), context.stage)


def _cut(axis: Any) -> Any:
    return axis.edges if axis.traits.continuous else list(axis)


def _names(parts: Sequence[tuple[str, str | None]]) -> list[str]:
    """The dataset where one product alone has it, else `product: dataset`; the product where that has none."""
    plain = [dataset or product for product, dataset in parts]
    if len(set(plain)) == len(plain):
        return plain
    return [f"{product}: {dataset}" if dataset else product for product, dataset in parts]


def _described(
    parts: Sequence[tuple[str, str | None]], names: Sequence[str], context: DrawContext, variation: str | None = None
) -> DrawContext:
    """The context with the datasets as they are called now, and which product each belongs to."""
    types = {info.eventtype for info in context.datasets.values()}
    of_all = types.pop() if len(types) == 1 else MIXED
    infos: dict[str, DatasetInfo] = {}
    together: dict[str, tuple[str, ...]] = {}
    for name, (product, dataset) in zip(names, parts, strict=True):
        together[product] = (*together.get(product, ()), name)
        if dataset is None:
            infos[name] = DatasetInfo(name, "data" if product.lower() == "data" else of_all)
        else:
            known = context.source_of(dataset, variation) or DatasetInfo(dataset)
            infos[name] = known if name == dataset else replace(known, name=name, group=product)
    return replace(context, datasets=infos, instead={}, together=together)


def combined_shape(
    shapes: Mapping[str, ProductShape], context: DrawContext, *, wanted: Collection[str]
) -> tuple[ProductShape, DrawContext]:
    """What is known of the histogram beforehand; raises what is wrong with drawing these together."""
    first, *others = shapes
    kept = {name: _kept(shape, wanted) for name, shape in shapes.items()}
    for other in others:
        ours, theirs = kept[first], kept[other]
        if ours is None or theirs is None:
            continue
        if len(ours) != len(theirs):
            raise _different_axes(errors.BAD_VALUE, {first: len(ours), other: len(theirs)}, context.stage)
        for (axis, one), (_, two) in zip(ours, theirs, strict=True):
            if one and two and one != two:
                raise _cut_differently(errors.BAD_VALUE, (first, other), axis, (one, two), context.stage)
    sure = all(shape.per_dataset is not None for shape in shapes.values())
    axes = shapes[first].axes
    shape = replace(shapes[first], axes=axes, per_dataset=True if sure else None, variations=())
    return shape, _expected(shapes, context)


def _kept(shape: ProductShape, wanted: Collection[str]) -> list[tuple[str, str]] | None:
    """Name and bins of the axes that are drawn; None where only the data tells."""
    if shape.axes is None or not shape.binning:
        return None
    axes = list(zip(shape.axes, shape.binning, strict=True))
    return [axis for axis in axes if axis[0] in wanted] or axes


def _expected(shapes: Mapping[str, ProductShape], context: DrawContext) -> DrawContext:
    """With every name that a dataset may get: which of them are filled is not known yet."""
    parts: list[tuple[str, str | None]] = []
    for product, shape in shapes.items():
        parts += [(product, name) for name in context.datasets] if shape.per_dataset else [(product, None)]
    long = [f"{product}: {dataset}" if dataset else product for product, dataset in parts]
    found = _described(parts, long, context)
    plain = {name: context.datasets[name] for _, name in parts if name is not None}
    return replace(found, datasets={**plain, **found.datasets})


def _different_axes(kind: ErrorKind, many: Mapping[str, int], stage: str) -> CenoteError:
    return errors.error(
        kind,
        f"the products that stage '{stage}' draws together have different axes: "
        + ", ".join(f"'{name}' has {number}" for name, number in many.items()),
        hint="choose one that all have with axes.x.name",
    )


def _cut_differently(
    kind: ErrorKind, products: Sequence[str], axis: str, cuts: Sequence[str], stage: str
) -> CenoteError:
    return errors.error(
        kind,
        f"stage '{stage}' cannot draw '{products[0]}' and '{products[1]}' together: their bins along '{axis}' differ",
        details=tuple(f"{name}: {cut}" for name, cut in zip(products, cuts, strict=False)),
        hint="give both histograms the same bins",
    )
