"""Make samples of a histogram: the datasets (or groups of them) that a picture shows side by side."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cenote import errors
from cenote.errors import CenoteError, ErrorKind
from cenote.names import did_you_mean, listed
from cenote.operations.support.events import DatasetInfo
from cenote.renderers.interface import DrawContext
from cenote.renderers.support.bins import NOMINAL, BinCounts, Flow, Roles, counts_along, dataset_names
from cenote.renderers.support.style import DatasetStyle
from cenote.values import dataclass

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
