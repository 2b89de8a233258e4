"""Decide which columns of the files stages see, and what becomes of those that some files lack."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from cenote.analysis.sources.interface import FileInfo, find_column, flat_name
from cenote.common import errors
from cenote.common.errors import Problem
from cenote.common.text import did_you_mean, listed, plural
from cenote.common.values import dataclass
from cenote.language.workflow import Field, SourceUse, Workflow
from cenote.planning.inputs.look import Inputs, usable
from cenote.planning.inputs.metadata_cache import PackedColumns, one_of_each_schema
from cenote.planning.plan import Fill


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


# Decide which columns of the files stages see: all, or what `branches` lists and what they ask for by name.
#
# A branch within others is found by its own name too, where only one has it: `jetEt` for `L1Upgrade/jetEt`.


Columns = Mapping[tuple[str, str], Sequence[str]]
"""(dataset, source) → the columns that stages may read."""


def with_whole_names(workflow: Workflow, inputs: Inputs) -> tuple[Workflow, list[Problem]]:
    """Aliases under `fields` of branches that are named by their last part alone, for their whole names."""
    fields: list[Field] = []
    problems: list[Problem] = []
    schemas = {stream: _schemas(inputs, stream) for stream in {field.stream for field in workflow.fields}}
    for field in workflow.fields:
        meant = _by_leaf(field.branch, schemas[field.stream])
        if len(meant) > 1:
            words = f"the branch '{field.branch}' of '{field.alias}' is within several: {listed(meant)}"
            place = workflow.place(*field.path)
            problems.append(Problem(errors.COLUMN_CLASH, words, place=place, hint=f"write `branch: {meant[0]}`"))
        fields.append(replace(field, branch=meant[0]) if meant else field)
    return replace(workflow, fields=tuple(fields)), problems


def only_listed(workflow: Workflow, inputs: Inputs, columns: Columns) -> Columns:
    """Without the columns that `branches` of their source leaves out; names under `fields` stay."""
    aliases = {field.alias for field in workflow.fields}
    shown = {use.id: _listed(use, inputs) for use in workflow.sources if use.branches is not None}
    return {
        (dataset, source): [name for name in names if name in aliases or name in shown[source]]
        if source in shown
        else names
        for (dataset, source), names in columns.items()
    }


def with_asked_for(columns: Columns, everything: Columns, names: Collection[str]) -> Columns | None:
    """With the columns that stages ask for by these names as well; None where files have none of them besides."""
    wider = {key: _wider(columns[key], everything[key], names) for key in columns} if names else columns
    return wider if any(len(wider[key]) > len(columns[key]) for key in columns) else None


def _wider(here: Sequence[str], there: Sequence[str], names: Collection[str]) -> Sequence[str]:
    if len(here) == len(there):
        return here
    shown = {*here, *(find_column(name, frozenset(there)) for name in names)}
    return [name for name in there if name in shown]


def with_leaves(workflow: Workflow, inputs: Inputs, names: Collection[str]) -> Workflow | None:
    """With an alias for each of these names that is the last part of one branch; None where none of them is."""
    schemas = _schemas(inputs, None)
    found = {name: _by_leaf(name, schemas) for name in sorted(names)}
    more = [Field(name, None, meant[0]) for name, meant in found.items() if len(meant) == 1]
    return replace(workflow, fields=(*workflow.fields, *more)) if more else None


def unknown_branches(workflow: Workflow, inputs: Inputs) -> Iterator[Problem]:
    """What `branches` lists and no file has."""
    for use in workflow.sources:
        schemas = [info for info in _schemas(inputs, use.id) if info.columns]
        for name in use.branches or () if schemas and use.missing_branches == "error" else ():
            if not any(_meant(name, info) for info in schemas):
                known = dict.fromkeys(column for info in schemas for column in info.columns)
                yield Problem(
                    errors.UNKNOWN_COLUMN,
                    f"source '{use.id}' lists the branch '{name}', which no file has",
                    place=workflow.place(*use.path, "branches"),
                    details=(f"branches there: {listed(known)}",),
                    hint=did_you_mean(name, known),
                )


def _listed(use: SourceUse, inputs: Inputs) -> set[str]:
    schemas = _schemas(inputs, use.id)
    return {name for branch in use.branches or () for info in schemas for name in _meant(branch, info)}


def _meant(branch: str, info: FileInfo) -> list[str]:
    """The column of a file that a branch is: by its name, its path, or its last part."""
    known = find_column(branch, info.columns)
    return [known] if known is not None else _by_leaf(branch, [info])


def _schemas(inputs: Inputs, source: str | None) -> list[FileInfo]:
    """One file of each kind, of a source or of all."""
    of_source = [infos for (_, use), infos in inputs.infos.items() if use == source]
    return one_of_each_schema([info for infos in of_source or inputs.infos.values() for info in infos])


def _by_leaf(branch: str, schemas: Sequence[FileInfo]) -> list[str]:
    """The columns that are called so within others, unless a file has a column of this very name."""
    if any(find_column(branch, info.columns) is not None for info in schemas):
        return []
    return list(
        dict.fromkeys(
            column for info in schemas for column, leaf in _leaves(info) if flat_name(leaf) == flat_name(branch)
        )
    )


def _leaves(info: FileInfo) -> Sequence[tuple[str, str]]:
    if isinstance(info.columns, PackedColumns):
        return info.columns.schema.leaves
    return [(name, column.leaf) for name, column in info.columns.items() if column.leaf]
