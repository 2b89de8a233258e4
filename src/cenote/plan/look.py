"""This file looks at the inputs: which files there are, and what their metadata says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cenote import errors
from cenote.errors import CenoteError, Problem
from cenote.language.workflow import Dataset, SourceUse, Workflow
from cenote.plan.inputs import expand_files
from cenote.plan.metadata import describe_all
from cenote.plan.packed_columns import one_of_each_schema
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind
from cenote.sources.interface import FileInfo, Source, clashes, flat_name, path_name

Progress = Callable[[int, int], None]
"""Told how many files of how many have been looked at."""


@dataclass(frozen=True)
class BadFile:
    """A file that could not be looked at."""

    dataset: str
    source: str
    url: str
    problem: Problem


@dataclass(frozen=True)
class Inputs:
    """What there is to read."""

    infos: Mapping[tuple[str, str], Sequence[FileInfo]]
    """(dataset, source) → its files, in order."""
    bad: tuple[BadFile, ...] = ()
    problems: tuple[Problem, ...] = ()

    def columns(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """(dataset, source) → every column that at least one of its files has, and expressions may name."""
        return {
            key: tuple(dict.fromkeys(name for info in one_of_each_schema(infos) for name in _usable(info)))
            for key, infos in self.infos.items()
            if infos
        }

    def refused(self) -> dict[str, Problem]:
        """Column (by its flat name) → why it cannot be used, although files have it."""
        schemas = one_of_each_schema([info for infos in self.infos.values() for info in infos])
        return {name: problem for info in schemas for name, problem in _refused(info).items()}


def _usable(info: FileInfo) -> list[str]:
    refused = _refused(info)
    return [name for name in info.columns if flat_name(path_name(name)) not in refused]


def _refused(info: FileInfo) -> dict[str, Problem]:
    found = {
        flat_name(path_name(name)): Problem(
            errors.BAD_INPUT, f"branch '{name}' {column.unreadable}", details=(f"file: {info.url}",)
        )
        for name, column in info.columns.items()
        if column.unreadable
    }
    for flat, names in clashes(info.columns).items():
        written = " and ".join(f"'{name}'" for name in names)
        found[flat] = Problem(
            errors.COLUMN_CLASH,
            f"{written} differ only in '.' and '_': which one is meant, cannot be told",
            details=(f"file: {info.url}",),
            hint="give the branch a name of its own under `fields`, such as "
            f"`{flat}_1: {{branch: {names[0]}}}`, and use that",
        )
    return found


def look_at_inputs(workflow: Workflow, *, every_file: bool, progress: Progress | None = None) -> Inputs:
    """Read the metadata of all files, or (for a quick check) of the first file of each dataset."""
    infos: dict[tuple[str, str], list[FileInfo]] = {}
    bad: list[BadFile] = []
    problems: list[Problem] = []
    wanted: list[tuple[Dataset, SourceUse, Source, str]] = []
    for dataset in workflow.datasets:
        files, missing = expand_files(dataset, workflow.folder)
        problems.extend(problem.at(workflow.place(*dataset.path, "files")) for problem in missing)
        for use in workflow.sources:
            source = _source(workflow, use, problems)
            if source is not None:
                infos[dataset.name, use.id] = []
                wanted += [(dataset, use, source, url) for url in (files if every_file else files[:1])]
    found = describe_all([(source, use.kind, url) for _, use, source, url in wanted], progress=progress)
    for (dataset, use, _, url), info in zip(wanted, found, strict=True):
        if isinstance(info, Problem):
            placed = info.at(workflow.place(*dataset.path, "files"))
            bad.append(BadFile(dataset.name, use.id, url, placed))
        else:
            infos[dataset.name, use.id].append(info if info.url == url else replace(info, url=url))
    return Inputs(infos, tuple(bad), tuple(problems))


def _source(workflow: Workflow, use: SourceUse, problems: list[Problem]) -> Source | None:
    try:
        source: Source = registry.load(PluginKind.SOURCE, use.kind).model_validate(dict(use.settings))
    except CenoteError as problem:
        problems.extend(p.at(workflow.place(*use.path, "kind")) for p in problem.problems)
        return None
    return source


def nothing_to_read(workflow: Workflow) -> Problem:
    """The problem of a workflow without data."""
    return Problem(
        errors.NO_DATA,
        "there is nothing to run on: the workflow has no datasets",
        place=workflow.place("data") or workflow.place(),
        hint="name files under `data.datasets`, or add a profile that does",
    )
