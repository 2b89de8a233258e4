"""Decide what becomes of columns that some files lack: an error, left out, or filled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cenote import errors
from cenote.errors import Problem
from cenote.language.workflow import SourceUse, Workflow
from cenote.names import did_you_mean, listed
from cenote.plan.inputs.look import Inputs, usable
from cenote.plan.inputs.packed_columns import one_of_each_schema
from cenote.plan.plan import Fill
from cenote.sources.interface import FileInfo, find_column
from cenote.text import plural
from cenote.values import dataclass


@dataclass(frozen=True)
class Lacking:
    """Per source with `missing_branches: default`, what to fill in."""

    fills: Mapping[str, Mapping[str, Fill]]
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


def known_columns(workflow: Workflow, inputs: Inputs) -> dict[tuple[str, str], tuple[str, ...]]:
    """(dataset, source) → the columns that stages may read, where files were looked at.

    Every column that one of the dataset's files has; with `ignore`, those that all of them have; with `default`,
    those that any file of any dataset has. A name under `fields` is there where its branch is.
    """
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for use in workflow.sources:
        anywhere = _described(inputs, use) if use.missing_branches == "default" else []
        for dataset in workflow.datasets:
            infos = one_of_each_schema(inputs.infos.get((dataset.name, use.id), ()))
            if infos and use.missing_branches == "ignore":
                shared = [*_shared(infos), *_aliases(workflow, infos, everywhere=True)]
                found[dataset.name, use.id] = tuple(dict.fromkeys(shared))
            elif infos:
                infos = [*infos, *anywhere]
                found[dataset.name, use.id] = tuple(dict.fromkeys([*_union(infos), *_aliases(workflow, infos)]))
    return found


def _aliases(workflow: Workflow, infos: Sequence[FileInfo], *, everywhere: bool = False) -> Iterator[str]:
    """The names under `fields` whose branch can be read in one of these files, or in all of them."""
    enough = all if everywhere else any
    for field in workflow.fields:
        known = ((info, find_column(field.branch, info.columns)) for info in infos)
        if enough(name is not None and not info.columns[name].unreadable for info, name in known):
            yield field.alias


def what_is_lacking(workflow: Workflow, inputs: Inputs) -> Lacking:
    """What files lack, as far as it is not an error."""
    fills: dict[str, dict[str, Fill]] = {}
    problems: list[Problem] = []
    warnings: list[str] = []
    for use in workflow.sources:
        if use.missing_branches == "default":
            fills[use.id] = _fills(use, _described(inputs, use))
            problems += _unknown_defaults(workflow, use, _described(inputs, use))
        elif use.missing_branches == "ignore":
            warnings += _left_out(workflow, use, inputs)
    return Lacking(fills, tuple(problems), tuple(warnings))


def filled_in(
    inputs: Inputs, fills: Mapping[str, Mapping[str, Fill]], read: Mapping[tuple[str, str], Sequence[str]]
) -> list[str]:
    """A warning for each column that is read (by its name in the files) and filled in some of them."""
    found = []
    for (dataset, source), names in read.items():
        infos = inputs.infos.get((dataset, source), ()) if source in fills else ()
        for name in names if infos else ():
            lacking = sum(find_column(name, info.columns) is None for info in infos)
            known = find_column(name, fills[source])
            if lacking and known is not None:
                fill = fills[source][known]
                where = f"{lacking} of {len(infos)} files of dataset '{dataset}'"
                found.append(f"branch '{name}' is missing in {where}: filled with {fill.shown}")
    return found


def _described(inputs: Inputs, use: SourceUse) -> list[FileInfo]:
    """One file of each schema of a source, over all datasets; empty files without any columns say nothing."""
    infos = [
        info for (_, source), some in inputs.infos.items() if source == use.id for info in one_of_each_schema(some)
    ]
    return [info for info in infos if info.columns or info.entries]


def _union(infos: Sequence[FileInfo]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for info in infos for name in usable(info)))


def _shared(infos: Sequence[FileInfo]) -> tuple[str, ...]:
    described = [info for info in infos if info.columns or info.entries] or infos
    return tuple(name for name in usable(described[0]) if all(name in info.columns for info in described))


def _fills(use: SourceUse, described: Sequence[FileInfo]) -> dict[str, Fill]:
    lacking = [name for name in _union(described) if not all(name in info.columns for info in described)]
    examples = {name: next(info for info in described if name in info.columns) for name in lacking}
    return {
        name: Fill(like=info.url, type=info.columns[name].type, value=use.defaults.get(name))
        for name, info in examples.items()
    }


def _unknown_defaults(workflow: Workflow, use: SourceUse, described: Sequence[FileInfo]) -> Iterator[Problem]:
    known = _union(described)
    for name in use.defaults if described else ():
        if name not in known:
            yield Problem(
                errors.UNKNOWN_COLUMN,
                f"'defaults' of source '{use.id}' names '{name}', which no file has",
                place=workflow.place(*use.path, "defaults", name),
                hint=did_you_mean(name, known),
            )


def _left_out(workflow: Workflow, use: SourceUse, inputs: Inputs) -> Iterator[str]:
    for dataset in workflow.datasets:
        infos = one_of_each_schema(inputs.infos.get((dataset.name, use.id), ()))
        shared = set(_shared(infos)) if infos else set()
        if lost := [name for name in _union(infos) if name not in shared]:
            branches = plural(len(lost), "branch", "branches")
            yield f"dataset '{dataset.name}': {branches} that only some of its files have left out: {listed(lost)}"
