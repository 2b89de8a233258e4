"""Make templates of a histogram, as programs for statistics take them: processes, and what variations make of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cenote.analysis.operations.interface import ProductShape
from cenote.analysis.renderers.interface import DrawContext, Renderer
from cenote.analysis.renderers.support import bins
from cenote.analysis.renderers.support.bins import BinCounts, Floats, Roles
from cenote.analysis.renderers.support.compared import mirrored, variations_of
from cenote.analysis.renderers.support.picture import histogram_of
from cenote.analysis.renderers.support.samples import Sample, added_up, not_held, samples_of
from cenote.analysis.renderers.support.style import Transform
from cenote.analysis.renderers.support.transforms import check_transforms, names_after, transformed
from cenote.common import errors
from cenote.common.text import listed
from cenote.common.values import dataclass
from cenote.language.plugins.settings import Settings
from cenote.language.systematics import VariationSide, sides_by_group

MOST_BINS = 12
"""That a warning names."""


@dataclass(frozen=True, eq=False)
class Shifted:
    """What a parameter of a fit makes of a process when it moves by one standard deviation."""

    up: BinCounts
    down: BinCounts
    lifted: Floats | None = None
    """How far each bin of a side that is mirrored was lifted, not to be less than nothing; None where none was."""


@dataclass(frozen=True, eq=False)
class Process:
    """A part of what is expected."""

    name: str
    counts: BinCounts
    shifted: Mapping[str, Shifted]
    """Parameter → its effect; without those that change nothing."""
    is_signal: bool = False


@dataclass(frozen=True, eq=False)
class FitTemplates:
    """Everything that a fit of one histogram needs."""

    axis: Any
    """Of the histogram. Any: hist publishes no types."""
    observed: BinCounts
    """Data; where there is none, what is expected."""
    processes: tuple[Process, ...]
    weighted_data: tuple[str, ...] = ()
    """Datasets of real data that are no counts of events."""


class TemplateSettings(Settings):
    """What all forms of templates share."""

    signals: tuple[str, ...] = ()
    """Groups (or datasets without a group) that are signal."""
    flow: Literal["none", "sum"] = "none"
    """Under- and overflow: left out, or added to the outermost bins. NaN is overflow."""
    smallest: float | None = Field(default=None, ge=0)
    """What a bin of a process has at the least, `1.0e-6` say: fits fail where there is data and nothing is expected."""


class TemplateRenderer(Renderer):
    """A renderer that writes templates of histograms of one axis, with datasets apart: each is a channel of a fit."""

    draws: ClassVar[tuple[str, ...]] = ("histogram",)
    holds_numbers: ClassVar[bool] = True

    transforms: tuple[Transform, ...] = ()
    """What is done to the datasets before: grouping, scaling."""

    @property
    def block(self) -> TemplateSettings:
        """Its own settings."""
        raise NotImplementedError

    @property
    def adds_overflow(self) -> bool:
        """With `flow: sum`; see `Renderer.adds_overflow`."""
        return self.block.flow == "sum"

    @abstractmethod
    def write(self, channels: Mapping[str, FitTemplates], target: Path, context: DrawContext) -> list[Path]:
        """Write the templates of all channels, by name, to files whose names begin with `target`."""

    def draw(self, product: Any, target: Path, context: DrawContext) -> list[Path]:
        """One channel, called after the stage; see `Renderer.draw`."""
        return self.draw_together({context.stage: product}, target, context)

    def draw_together(self, products: Mapping[str, Any], target: Path, context: DrawContext) -> list[Path]:
        """A channel for each product; see `Renderer.draw_together`."""
        channels = {name: self.templates(product, replace(context, stage=name)) for name, product in products.items()}
        known = {process.name for templates in channels.values() for process in templates.processes}
        for name in self.block.signals:
            if name not in known:
                raise not_held(errors.RENDER_FAILED, name, known, key="signals", stage=context.stage)
        for name, templates in channels.items():
            for words in _oddities(templates):
                context.warn(f"stage '{name}': {words}")
        return self.write(channels, target, context)

    def check_together(self, shapes: Mapping[str, ProductShape], context: DrawContext) -> None:
        """Each by itself: channels need not have the same bins; see `Renderer.check_together`."""
        for name, shape in shapes.items():
            self.check(shape, replace(context, stage=name))

    def check(self, shape: ProductShape, context: DrawContext) -> None:
        """One axis, datasets apart, signals that are there; see `Renderer.check`."""
        if shape.axes is not None and len(shape.axes) != 1:
            words = f"templates have one axis, the histogram of stage '{context.stage}' has {len(shape.axes)}"
            raise errors.error(errors.BAD_VALUE, words)
        if shape.per_dataset is False:
            words = f"templates keep datasets apart, and the histogram of stage '{context.stage}' adds them up"
            raise errors.error(errors.BAD_VALUE, words, hint="write `dataset_axis: true` in the params of the stage")
        check_transforms(self.transforms, shape, context)
        known = names_after(self.transforms, context) if context.datasets else frozenset(self.block.signals)
        for name in self.block.signals:
            if name not in known:
                raise not_held(errors.BAD_VALUE, name, known, key="signals", stage=context.stage)

    def templates(self, product: Any, context: DrawContext) -> FitTemplates:
        """The templates of a histogram."""
        histogram = histogram_of(product, context)
        roles = bins.roles(histogram, context.datasets)
        if len(roles.free) != 1:
            words = f"templates have one axis, the histogram of stage '{context.stage}' has {len(roles.free)}"
            raise errors.error(errors.RENDER_FAILED, words)
        nominal = self._processes(histogram, roles, context)
        simulated = [self._with_smallest(sample) for sample in nominal if not sample.is_data]
        varied = {name: self._by_name(histogram, roles, context, name) for name in variations_of(histogram, roles)}
        groups = sides_by_group(varied, context.sides)
        processes = tuple(
            Process(
                sample.name,
                sample.counts,
                _shifted(
                    sample.counts,
                    {name: found[sample.name] for name, found in varied.items()},
                    groups,
                    least=self.block.smallest or 0.0,
                ),
                sample.name in self.block.signals,
            )
            for sample in simulated
        )
        self._refuse_broken(nominal, varied, context)
        data = [sample.counts for sample in nominal if sample.is_data]
        everything = data or [sample.counts for sample in simulated]
        weighted = [
            sample.name
            for sample in self._samples(histogram, roles, context)
            if sample.is_data and not sample.counts.are_counts
        ]
        axis = histogram.axes[roles.free[0]]
        return FitTemplates(axis, reduce(BinCounts.plus, everything), processes, tuple(weighted))

    def _refuse_broken(
        self, nominal: Sequence[Sample], varied: Mapping[str, Mapping[str, BinCounts]], context: DrawContext
    ) -> None:
        """No fit can do with bins that are not finite."""
        found = {bins.NOMINAL: {sample.name: sample.counts for sample in nominal}, **varied}
        wrong = [(name, process) for name, some in found.items() for process, one in some.items() if one.broken]
        if wrong:
            words = f"variation '{wrong[0][0]}' of '{wrong[0][1]}' has bins that are not finite in '{context.stage}'"
            hint = "a weight is NaN or infinite there"
            raise errors.error(errors.RENDER_FAILED, words, hint=hint)

    def _processes(
        self, histogram: Any, roles: Roles, context: DrawContext, variation: str | None = None
    ) -> list[Sample]:
        """Samples by group."""
        return added_up(self._samples(histogram, roles, context, variation), lambda sample: sample.group, {})

    def _samples(
        self, histogram: Any, roles: Roles, context: DrawContext, variation: str | None = None
    ) -> list[Sample]:
        found = samples_of(histogram, roles, roles.free, context, styles={}, variation=variation, flow=self.block.flow)
        return transformed(found, self.transforms, {}, context)

    def _by_name(self, histogram: Any, roles: Roles, context: DrawContext, variation: str) -> dict[str, BinCounts]:
        found = map(self._with_smallest, self._processes(histogram, roles, context, variation))
        return {one.name: one.counts for one in found}

    def _with_smallest(self, sample: Sample) -> Sample:
        least = self.block.smallest
        if least is None:
            return sample
        return replace(sample, counts=replace(sample.counts, values=np.maximum(sample.counts.values, least)))


def _oddities(templates: FitTemplates) -> Iterator[str]:
    """What fits fail on, in words."""
    expected = reduce(np.add, (process.counts.values for process in templates.processes), np.zeros(()))
    if (lacking := (templates.observed.values > 0) & (expected <= 0)).any():
        yield f"there is data where nothing is expected, in {_bins(lacking)}: fits fail there (`smallest` lifts bins)"
    if templates.weighted_data:
        yield (
            f"the data of this channel is weighted ({listed(templates.weighted_data)}): fits take what is observed for "
            "counts of events"
        )
    for process in templates.processes:
        if (below := process.counts.values < 0).any():
            yield f"less than nothing is expected of '{process.name}' in {_bins(below)}: fits fail there"
        for parameter, shifted in process.shifted.items():
            if (below := (shifted.up.values < 0) | (shifted.down.values < 0)).any():
                yield f"less than nothing is expected of '{process.name}' with '{parameter}' in {_bins(below)}"
            if (lifted := shifted.lifted) is not None:
                yield (
                    f"the mirrored side of '{parameter}' would be less than nothing for '{process.name}' in "
                    f"{_bins(lifted > 0)}: it was lifted there, by {lifted.max():.4g} at most and {lifted.sum():.4g} "
                    "in all; give the other side to have it as it is"
                )


def _bins(chosen: NDArray[np.bool_]) -> str:
    """Numbered from 0, as in the files."""
    numbers = [str(number) for number in np.flatnonzero(chosen)]
    more = f", … ({len(numbers)} in all)" if len(numbers) > MOST_BINS else ""
    return f"{'bin' if len(numbers) == 1 else 'bins'} {', '.join(numbers[:MOST_BINS])}{more}"


def _shifted(
    nominal: BinCounts,
    varied: Mapping[str, BinCounts],
    groups: Mapping[str, Mapping[str, VariationSide]],
    *,
    least: float,
) -> dict[str, Shifted]:
    found = {}
    for parameter, sides in groups.items():
        if any(not np.array_equal(varied[name].values, nominal.values) for name in sides):
            found[parameter] = _both_sides(nominal, varied, sides, least=least)
    return found


def _both_sides(
    nominal: BinCounts, varied: Mapping[str, BinCounts], sides: Mapping[str, VariationSide], *, least: float
) -> Shifted:
    """Up and down as given. One alone is mirrored; several without directions give their envelope."""
    given = {side.direction: varied[name] for name, side in sides.items() if side.direction in ("up", "down")}
    if len(given) == len(sides) == 2:
        return Shifted(given["up"], given["down"])
    if len(sides) == 1:
        ((name, side),) = sides.items()
        other = replace(varied[name], values=mirrored(nominal.values, varied[name].values, least=least))
        whole = 2 * nominal.values - varied[name].values
        lifted = np.where(whole < 0, other.values - whole, 0.0) if (whole < 0).any() else None
        up, down = (other, varied[name]) if side.direction == "down" else (varied[name], other)
        return Shifted(up, down, lifted)
    moved = [nominal.values, *(varied[name].values for name in sides)]
    return Shifted(replace(nominal, values=np.max(moved, axis=0)), replace(nominal, values=np.min(moved, axis=0)))
