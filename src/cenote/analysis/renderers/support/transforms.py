"""Carry out the `transforms` of a style, and check them before there is anything to transform."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cenote.analysis.operations.interface import ProductShape
from cenote.analysis.operations.support.events import DatasetInfo
from cenote.analysis.renderers.interface import DrawContext
from cenote.analysis.renderers.support.samples import Sample, added_up, not_held
from cenote.analysis.renderers.support.style import DatasetStyle, Luminosity, SampleGroup, Scale, Transform
from cenote.common import errors
from cenote.common.errors import CenoteError, ErrorKind

PER_FEMTOBARN = 1000.0
"""Picobarns in a femtobarn: cross sections are in the former, luminosities in the latter."""


def transformed(
    samples: Sequence[Sample],
    transforms: Sequence[Transform],
    styles: Mapping[str, DatasetStyle],
    context: DrawContext,
) -> list[Sample]:
    """The samples after the `transforms` of a style, in order."""
    current = list(samples)
    for transform in transforms:
        match transform:
            case Scale():
                current = [_scaled(sample, transform) for sample in current]
            case Luminosity():
                current = [_to_luminosity(sample, transform, context) for sample in current]
            case SampleGroup():
                current = added_up(current, _group_name(transform), styles)
    return current


def _group_name(transform: SampleGroup) -> Callable[[Sample], str]:
    if isinstance(transform.by, str):
        return lambda sample: sample.group
    named = {dataset: group for group, datasets in transform.by.items() for dataset in datasets}
    return lambda sample: named.get(sample.name, sample.name)


def _scaled(sample: Sample, transform: Scale) -> Sample:
    name = sample.name if transform.by == "dataset_name" else sample.group
    factor = transform.factors.get(name)
    if factor is None:
        return sample
    factors = np.asarray(factor, dtype=np.float64)
    bins = sample.counts.values.shape
    if factors.ndim and factors.shape != bins[-1:]:
        raise errors.error(
            errors.RENDER_FAILED,
            f"the scale of '{name}' has {factors.size} factors, the histogram has {bins[-1]} bins",
            hint="give one factor per bin, or a single number",
        )
    return replace(sample, counts=sample.counts.times(factors))


def _to_luminosity(sample: Sample, transform: Luminosity, context: DrawContext) -> Sample:
    if sample.is_data:
        return sample
    if sample.source is None:
        raise _not_a_dataset(errors.RENDER_FAILED, sample.name, context.stage)
    factor = _expected_per_event(sample.source, transform, errors.RENDER_FAILED)
    return replace(sample, counts=sample.counts.times(factor))


def _expected_per_event(info: DatasetInfo, transform: Luminosity, kind: ErrorKind) -> float:
    """How many events of real data one generated event stands for."""
    facts = {"nevents": info.nevents, **info.metadata}
    found = []
    for key in (transform.cross_section, transform.generated):
        value = facts.get(key)
        if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
            raise errors.error(
                kind,
                f"dataset '{info.own_name}' cannot be scaled to a luminosity: its '{key}' is "
                + ("missing" if value is None else f"{value!r}, not a number above zero"),
                hint=f"write `{key}: …` at the dataset (cross sections in picobarns), or name the keys that have the "
                "numbers with `cross_section` and `generated`",
            )
        found.append(float(value))
    return transform.lumi * PER_FEMTOBARN * found[0] / found[1]


def _not_a_dataset(kind: ErrorKind, name: str, stage: str) -> CenoteError:
    return errors.error(
        kind,
        f"'{name}' of stage '{stage}' is not a dataset, so it has no cross section",
        hint="write `kind: luminosity` before `kind: group`; `dataset_axis: true` at the stage keeps datasets apart",
    )


def check_transforms(transforms: Sequence[Transform], shape: ProductShape, context: DrawContext) -> None:
    """Refuse transforms of datasets that the histogram of a stage will not hold."""
    if shape.per_dataset is None or not context.datasets:
        return
    stage = context.stage
    hint = None if shape.per_dataset else "`dataset_axis: true` in the params of the stage keeps datasets apart"
    groups = {name: info.group or name for name, info in context.datasets.items()}
    groups = groups if shape.per_dataset else {stage: stage}
    for number, transform in enumerate(transforms):
        match transform:
            case Scale():
                known, named = {*(groups if transform.by == "dataset_name" else groups.values())}, [*transform.factors]
            case SampleGroup():
                known = {*groups}
                named = [] if isinstance(transform.by, str) else [one for ones in transform.by.values() for one in ones]
            case Luminosity():
                known, named = set(), []
                _check_luminosity(transform, groups, context)
        for name in named:
            if name not in known:
                raise not_held(errors.BAD_VALUE, name, known, key=f"transforms.{number}", stage=stage, hint=hint)
        groups = _groups_after(transform, groups)


def _check_luminosity(transform: Luminosity, names: Iterable[str], context: DrawContext) -> None:
    for name in names:
        info = context.datasets.get(name)
        if info is None:
            raise _not_a_dataset(errors.BAD_VALUE, name, context.stage)
        if info.eventtype == "data":
            continue
        for one in (info, *(others[name] for others in context.instead.values() if name in others)):
            _expected_per_event(one, transform, errors.BAD_VALUE)


def names_after(transforms: Sequence[Transform], context: DrawContext) -> frozenset[str]:
    """The names of datasets and groups that a histogram with a dataset axis has once the transforms are done."""
    groups = {name: info.group or name for name, info in context.datasets.items()}
    for transform in transforms:
        groups = _groups_after(transform, groups)
    return frozenset({*groups, *groups.values()})


def _groups_after(transform: Transform, groups: Mapping[str, str]) -> dict[str, str]:
    """Name → group of the samples, once this transform is done."""
    if not isinstance(transform, SampleGroup):
        return dict(groups)
    by = {} if isinstance(transform.by, str) else {one: new for new, ones in transform.by.items() for one in ones}
    new = (group if isinstance(transform.by, str) else by.get(name, name) for name, group in groups.items())
    return {name: name for name in new}
