"""This file looks at the inputs: which files there are, and what their metadata says."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cenote import errors
from cenote.errors import CenoteError, Problem
from cenote.language.workflow import Dataset, SourceUse, Workflow
from cenote.plan.inputs import expand_files
from cenote.plan.metadata import describe_all
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind
from cenote.sources.interface import FileInfo, Source

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
    warnings: tuple[str, ...] = ()


def look_at_inputs(workflow: Workflow, *, every_file: bool, progress: Progress | None = None) -> Inputs:
    """Read the metadata of all files, or (for a quick check) of the first file of each dataset."""
    infos: dict[tuple[str, str], list[FileInfo]] = {}
    bad: list[BadFile] = []
    problems: list[Problem] = []
    wanted: list[tuple[Dataset, SourceUse, Source, str]] = []
    files_of: dict[str, list[str]] = {}
    for dataset in workflow.datasets:
        files, missing = expand_files(dataset, workflow.folder)
        files_of[dataset.name] = files
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
    return Inputs(infos, tuple(bad), tuple(problems), tuple(_in_two_datasets(files_of)))


def _in_two_datasets(files_of: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A warning for each pair of datasets that share files: their events count twice in what adds datasets up."""
    first: dict[str, str] = {}
    shared: dict[tuple[str, str], list[str]] = {}
    for dataset, files in files_of.items():
        for url in files:
            file = url if "://" in url else os.path.realpath(url)
            if first.setdefault(file, dataset) != dataset:
                shared.setdefault((first[file], dataset), []).append(url)
    for (one, other), files in shared.items():
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        yield f"datasets '{one}' and '{other}' share {files[0]}{more}: its events are read for both"


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
