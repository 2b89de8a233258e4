"""Look at the inputs: which files there are, and what their metadata says."""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path

from cenote import errors
from cenote.errors import CenoteError, Problem
from cenote.language.workflow import Dataset, SourceUse, Workflow
from cenote.names import listed
from cenote.plan.inputs.bad_files import BadFile, judge, without
from cenote.plan.inputs.expand import FoundFiles, expand_files
from cenote.plan.inputs.metadata import InputsProgress, describe_all, last_entries
from cenote.plan.inputs.packed_columns import one_of_each_schema
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind
from cenote.sources.interface import FileInfo, Source, clashes, flat_name, path_name
from cenote.sources.zip import ZipSource
from cenote.text import plural
from cenote.values import dataclass


class Look(Enum):
    """Which files are opened to see what they hold."""

    NONE = "none"
    FIRST = "the first of each dataset"
    EVERY = "every file"

    def at(self, files: Sequence[str]) -> Sequence[str]:
        """Of these files of a dataset, the ones to open."""
        return {Look.NONE: (), Look.FIRST: files[:1], Look.EVERY: files}[self]


@dataclass(frozen=True)
class Inputs:
    """What there is to read."""

    infos: Mapping[tuple[str, str], Sequence[FileInfo]]
    """(dataset, source) → its files, in order."""
    bad: tuple[BadFile, ...] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    skipped: tuple[BadFile, ...] = ()
    """Files that their datasets do without."""

    def unreadable(self) -> list[Problem]:
        """What is wrong with the bad files: each thing once, however many files it is wrong with."""
        alike: dict[tuple[object, ...], list[BadFile]] = {}
        for file in self.bad:
            problem = file.problem
            alike.setdefault((problem.kind, problem.message.replace(file.url, ""), problem.hint), []).append(file)
        return [_of_all(files) for files in alike.values()]

    def refused(self) -> dict[str, Problem]:
        """Column (by its flat name) → why it cannot be used, although files have it."""
        schemas = one_of_each_schema([info for infos in self.infos.values() for info in infos])
        return {name: problem for info in schemas for name, problem in _refused(info).items()}


def usable(info: FileInfo) -> list[str]:
    """The columns of a file that expressions may name."""
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
            f"{written} differ only in '.' and '_': it is not clear which one is meant",
            details=(f"file: {info.url}",),
            hint="give the branch a name of its own under `fields`, such as "
            f"`{flat}_1: {{branch: {names[0]}}}`, and use that",
        )
    return found


Unreadable = Mapping[tuple[str, str], Problem]
"""(dataset, file) → why an earlier attempt could not read it, although its metadata is there."""


def look_at_inputs(
    workflow: Workflow, look: Look, *, progress: InputsProgress | None = None, unreadable: Unreadable | None = None
) -> Inputs:
    """Find the files and read their metadata; a look at none of them does not even search."""
    found_of = _files_of(workflow, look)
    problems = [
        problem.at(workflow.place(*dataset.path, "files"))
        for dataset in workflow.datasets
        for problem in found_of[dataset.name].problems
    ]
    made = {use.id: _source(workflow, use, problems) for use in workflow.sources}
    sources = [(use, source) for use in workflow.sources if (source := made[use.id]) is not None]
    infos: dict[tuple[str, str], list[FileInfo]] = {
        (dataset.name, use.id): [] for dataset in workflow.datasets for use, _ in sources
    }
    bad = [
        file for dataset in workflow.datasets for file in _absent(workflow, dataset, found_of[dataset.name], sources)
    ]
    wanted = [
        (dataset, use, source, source.file_of(url, dataset.nevents))
        for dataset in workflow.datasets
        for use, source in sources
        for url in look.at(found_of[dataset.name].files)
    ]
    found = describe_all([(source, use.kind, url) for _, use, source, url in wanted], progress=progress)
    for (dataset, use, source, url), info in zip(wanted, found, strict=True):
        problem = info if isinstance(info, Problem) else (unreadable or {}).get((dataset.name, url))
        if problem is not None:
            events = last_entries(source, use.kind, url) if isinstance(info, Problem) else info.entries
            placed = problem.at(workflow.place(*dataset.path, "files"))
            bad.append(BadFile(dataset.name, use.id, url, placed, events))
        elif isinstance(info, FileInfo):
            infos[dataset.name, use.id].append(info if info.url == url else replace(info, url=url))
    counts = {name: len(one.files) + len(one.missing) for name, one in found_of.items()}
    verdict = judge(workflow, bad, counts, all_seen=look is Look.EVERY)
    left = dict(without(infos, verdict.skipped))
    warnings = [*_in_the_current_folder(found_of), *_in_two_datasets(found_of), *_cut_short(workflow, left)]
    return Inputs(
        infos=left,
        bad=tuple(file for file in verdict.refused if file.source),
        problems=(*problems, *(file.problem for file in verdict.refused if not file.source), *verdict.problems),
        warnings=(*warnings, *verdict.warnings),
        skipped=verdict.skipped,
    )


def _files_of(workflow: Workflow, look: Look) -> dict[str, FoundFiles]:
    if look is Look.NONE:
        return {dataset.name: FoundFiles(()) for dataset in workflow.datasets}
    inner = [one["kind"] for use in workflow.sources if use.of for one in use.settings["inputs"]]
    catalogues = "json" not in (*inner, *(use.kind for use in workflow.sources))
    return {
        dataset.name: expand_files(dataset, workflow.folder, catalogues=catalogues) for dataset in workflow.datasets
    }


def _absent(
    workflow: Workflow, dataset: Dataset, found: FoundFiles, sources: Sequence[tuple[SourceUse, Source]]
) -> Iterator[BadFile]:
    """Files of a dataset that are not there; no source is to blame."""
    for one in found.missing:
        known = (last_entries(source, use.kind, one.path) for use, source in sources)
        events = next((entries for entries in known if entries is not None), None)
        yield BadFile(dataset.name, "", one.path, one.problem.at(workflow.place(*dataset.path, "files")), events)


def _in_the_current_folder(found_of: Mapping[str, FoundFiles]) -> Iterator[str]:
    """One word for all files that are not beside the workflow."""
    written = [name for found in found_of.values() for name in found.not_beside]
    if written:
        shown = f"'{written[0]}'" if len(written) == 1 else f"'{written[0]}' and {len(written) - 1} more"
        yield f"{shown}: not beside the workflow, taken from the current folder, {Path.cwd()}"


def _cut_short(workflow: Workflow, infos: Mapping[tuple[str, str], Sequence[FileInfo]]) -> Iterator[str]:
    """A word for each file of which some events are left out, because not all sources side by side have them."""
    for (_, name), files in infos.items():
        use = next(use for use in workflow.sources if use.id == name)
        source = _source(workflow, use, []) if use.of else None
        if isinstance(source, ZipSource) and source.on_mismatch == "warn":
            asked = [(one.source, one.kind, one.url(info.url)) for info in files for one in source.inputs]
            answers = iter(describe_all(asked))
            for info in files:
                found = [(one, answer) for one in source.inputs if isinstance(answer := next(answers), FileInfo)]
                if len({answer.entries for _, answer in found}) > 1:
                    counts = f"{source.counted(found)}: the first {info.entries} are read"
                    yield f"join '{name}': sources of {info.url} have different numbers of events, {counts}"


def _in_two_datasets(found_of: Mapping[str, FoundFiles]) -> Iterator[str]:
    """A warning for each pair of datasets that share files: their events count twice in what adds datasets up."""
    first: dict[str, str] = {}
    shared: dict[tuple[str, str], list[str]] = {}
    for dataset, found in found_of.items():
        for url in found.files:
            file = url if "://" in url else os.path.realpath(url)
            if first.setdefault(file, dataset) != dataset:
                shared.setdefault((first[file], dataset), []).append(url)
    for (one, other), files in shared.items():
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        yield f"datasets '{one}' and '{other}' share {files[0]}{more}: its events are read for both"


def _of_all(files: Sequence[BadFile]) -> Problem:
    """The problem of the first of these files, which the others have too."""
    first, *others = files
    if not others:
        return first.problem
    datasets = listed(dict.fromkeys(file.dataset for file in others))
    count = plural(len(others), "more file")
    return replace(first.problem, details=(*first.problem.details, f"the same with {count} of: {datasets}"))


def _source(workflow: Workflow, use: SourceUse, problems: list[Problem]) -> Source | None:
    try:
        source: Source = registry.make(PluginKind.SOURCE, use.kind, use.settings)
    except CenoteError as problem:
        problems.extend(p.at(workflow.place(*use.path, "kind")) for p in problem.problems)
        return None
    return source


def nothing_to_read(workflow: Workflow) -> Problem:
    """The problem of a workflow without data."""
    return Problem(
        errors.NO_DATA,
        "there is nothing to process: the workflow has no datasets",
        place=workflow.place("data") or workflow.place(),
        hint="name files under `data.datasets`, or add a profile that does",
    )
