"""Decide which sample plays which part in a comparison of data with simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from cenote.renderers.interface import DrawContext
from cenote.renderers.support.bins import BinCounts
from cenote.renderers.support.envelopes import Envelope
from cenote.renderers.support.samples import Sample, added_up, all_data, named
from cenote.renderers.support.style import DatasetStyle
from cenote.values import dataclass


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
