"""Make samples of histograms: datasets or groups side by side, the part each plays, several products as one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from cenote.analysis.operations.interface import ProductShape
from cenote.analysis.operations.support.events import DatasetInfo
from cenote.analysis.renderers.interface import DrawContext
from cenote.analysis.renderers.support import bins
from cenote.analysis.renderers.support.bins import NOMINAL, BinCounts, Flow, Roles, counts_along, dataset_names
from cenote.analysis.renderers.support.compared import Envelope
from cenote.analysis.renderers.support.style import DatasetStyle
from cenote.common import errors
from cenote.common.errors import CenoteError, ErrorKind
from cenote.common.text import did_you_mean, listed
from cenote.common.values import dataclass

PLAIN = DatasetStyle()


@dataclass(frozen=True, eq=False)
class Sample:
    """What is drawn as one line, area or set of points. Compared by identity: arrays have no single truth."""

    name: str
    counts: BinCounts
    group: str
    is_data: bool = False
    is_named: bool = False
    """Whether it stands for a dataset, and not for the whole histogram."""
    style: DatasetStyle = PLAIN
    source: DatasetInfo | None = None
    """The dataset that its events come from, where that is one: in a variation perhaps another than its name says."""

    @property
    def label(self) -> str:
        """Its name in the legend. Matplotlib would hide a label that begins with an underscore."""
        text = self.style.label or self.name
        return f" {text}" if text.startswith("_") else text


def samples_of(
    histogram: Any,
    roles: Roles,
    drawn: Sequence[int],
    context: DrawContext,
    *,
    styles: Mapping[str, DatasetStyle],
    variation: str | None = None,
    flow: Flow = "none",
) -> list[Sample]:
    """One sample per dataset in the order of the axis; a single one without a dataset axis."""
    picked: dict[int, str | None] = {}
    if roles.variation is not None:
        picked[roles.variation] = _variation(histogram, roles.variation, variation, context.stage)
    if roles.dataset is None:
        counts = counts_along(histogram, drawn, picked, flow=flow)
        return [Sample(context.stage, counts, context.stage, style=styles.get(context.stage, PLAIN))]
    found = []
    for name in dataset_names(histogram, roles):
        info = context.datasets.get(name)
        style = styles.get(name, PLAIN)
        # Without a description of the datasets, FAST-HEP's convention holds: data is called "data".
        is_data = style.kind == "data" or (
            style.kind is None and (info.eventtype == "data" if info else name.lower() == "data")
        )
        counts = counts_along(histogram, drawn, {**picked, roles.dataset: name}, flow=flow)
        group = (info.group if info else None) or name
        source = context.source_of(name, variation)
        found.append(Sample(name, counts, group, is_data, is_named=True, style=style, source=source))
    return found


def _variation(histogram: Any, axis: int, wanted: str | None, stage: str) -> str:
    names = list(histogram.axes[axis])
    name = wanted or NOMINAL
    if name not in names:
        message = f"the histogram of stage '{stage}' has no variation '{name}'"
        raise CenoteError(errors.unknown_name(errors.RENDER_FAILED, message, name, names, what="variations"))
    return name


def added_up(
    samples: Iterable[Sample], name_of: Callable[[Sample], str], styles: Mapping[str, DatasetStyle]
) -> list[Sample]:
    """Samples with the same name as one, in the order in which the names first come."""
    together: dict[str, Sample] = {}
    for sample in samples:
        name = name_of(sample)
        if name in together:
            before = together[name]
            is_data = before.is_data and sample.is_data
            together[name] = replace(before, counts=before.counts.plus(sample.counts), is_data=is_data, source=None)
        else:
            style = styles.get(name, sample.style)
            together[name] = replace(sample, name=name, group=name, style=style)
    return list(together.values())


def all_data(points: Sequence[Sample], styles: Mapping[str, DatasetStyle]) -> Sample | None:
    """All data, called after the group that it has in common; a dataset without a group is one by itself."""
    groups = {sample.group for sample in points}
    name = "Data" if len(groups) > 1 or "data" in groups else "".join(groups)
    together = added_up(points, lambda _: name, styles)
    return together[0] if together else None


def named(samples: Sequence[Sample], names: Iterable[str], *, key: str, stage: str) -> list[Sample]:
    """The samples that a style names, by dataset or by group (added up), in the order of the names."""
    by_name = {sample.name: sample for sample in samples}
    by_group: dict[str, Sample] = {s.name: s for s in added_up(samples, lambda s: s.group, {})}
    found = []
    for name in names:
        sample = by_name.get(name) or by_group.get(name)
        if sample is None:
            raise not_held(errors.RENDER_FAILED, name, {*by_name, *by_group}, key=key, stage=stage)
        found.append(sample)
    return found


def not_held(
    kind: ErrorKind, name: str, known: Collection[str], *, key: str, stage: str, hint: str | None = None
) -> CenoteError:
    """The error of a style that names a dataset or group which a histogram does not have."""
    return errors.error(
        kind,
        f"'{key}' names '{name}', which the histogram of stage '{stage}' does not hold",
        details=(f"datasets and groups: {listed(known)}",),
        hint=hint or did_you_mean(name, known),
    )


# Decide which sample plays which part in a comparison of data with simulation.


@dataclass(frozen=True)
class SampleRoles:
    """Who is drawn as what."""

    data: Sample | None
    backgrounds: tuple[Sample, ...]
    """In the order of the legend."""
    signals: tuple[Sample, ...]
    signals_in_stack: bool = True
    envelope: Envelope | None = None
    """How far variations move what is expected."""

    @property
    def stacked(self) -> tuple[Sample, ...]:
        """The samples that add up to what is expected."""
        within = self.signals if self.signals_in_stack else ()
        return tuple(sample for sample in (*self.backgrounds, *within) if sample.style.stack is not False)

    @property
    def expected(self) -> BinCounts | None:
        """The sum of the stack; None when nothing is simulated."""
        return reduce(BinCounts.plus, (sample.counts for sample in self.stacked)) if self.stacked else None

    @property
    def uncertainty(self) -> Envelope:
        """Of what is expected: of the simulated statistics, and of variations where there are some."""
        errors = np.zeros(0) if self.expected is None else self.expected.errors
        return Envelope(errors, errors) if self.envelope is None else self.envelope.with_errors(errors)

    @property
    def everything(self) -> tuple[Sample, ...]:
        """All of them."""
        return (*([self.data] if self.data else []), *self.backgrounds, *self.signals)


def roles_of(
    samples: Sequence[Sample],
    *,
    data: Sequence[str] | None,
    backgrounds: Sequence[str],
    signals: Sequence[str],
    signals_in_stack: bool,
    normalise_to_data: bool,
    styles: Mapping[str, DatasetStyle],
    context: DrawContext,
) -> SampleRoles:
    """As the style names them; what it does not name follows from the datasets' event type and group."""
    if data is None:
        points = [sample for sample in samples if sample.is_data]
    else:
        points = named(samples, data, key="data_mc.data", stage=context.stage)
    lines = named(samples, signals, key="data_mc.signals", stage=context.stage)
    lines += [sample for sample in samples if sample.style.kind == "signal" and sample not in lines]
    if backgrounds:
        areas = named(samples, backgrounds, key="data_mc.backgrounds", stage=context.stage)
    else:
        taken = {*(sample.name for sample in (*points, *lines)), *(data or ()), *signals}
        rest = [s for s in samples if s.name not in taken and s.group not in taken and not s.is_data]
        areas = added_up(rest, lambda sample: sample.group, styles)
    cast = SampleRoles(all_data(points, styles), tuple(areas), tuple(lines), signals_in_stack)
    return _normalised(cast) if normalise_to_data else cast


def _normalised(cast: SampleRoles) -> SampleRoles:
    if cast.data is None or cast.expected is None or cast.expected.total <= 0:
        return cast
    factor = cast.data.counts.total / cast.expected.total
    scaled = [
        tuple(replace(sample, counts=sample.counts.times(factor)) for sample in group)
        for group in (cast.backgrounds, cast.signals)
    ]
    return replace(cast, backgrounds=scaled[0], signals=scaled[1])


# Make one histogram of several products, so that every renderer of pictures can draw them together.


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
