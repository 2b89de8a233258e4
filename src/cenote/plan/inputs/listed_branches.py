"""Decide which columns of the files stages see: all, or what `branches` lists and what they ask for by name.

A branch within others is found by its own name too, where only one has it: `jetEt` for `L1Upgrade/jetEt`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from cenote import errors
from cenote.errors import Problem
from cenote.language.workflow import Field, SourceUse, Workflow
from cenote.names import did_you_mean, listed
from cenote.plan.inputs.look import Inputs
from cenote.plan.inputs.packed_columns import PackedColumns, one_of_each_schema
from cenote.sources.interface import FileInfo, find_column, flat_name

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
