"""Look at the inputs: which files there are, and what their metadata says."""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path

from cenote.analysis.operations.interface import Operation, Scope
from cenote.analysis.sources.interface import FileInfo, Source, clashes, flat_name, path_name
from cenote.analysis.sources.zip import ZipSource
from cenote.common import errors
from cenote.common.errors import CenoteError, Problem
from cenote.common.text import listed, plural
from cenote.common.values import dataclass
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.workflow import Dataset, SourceUse, Stage, Workflow
from cenote.planning.inputs.bad_files import BadFile, judge, without
from cenote.planning.inputs.digests import as_asked, other_than_known
from cenote.planning.inputs.expand import FoundFiles, expand_files
from cenote.planning.inputs.metadata import InputsProgress, describe_all, last_entries
from cenote.planning.inputs.metadata_cache import one_of_each_schema


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
    read = sources_read(workflow)
    infos: dict[tuple[str, str], list[FileInfo]] = {
        (dataset.name, use.id): []
        for dataset in workflow.datasets
        for use, _ in sources
        if use.id in read[dataset.name]
    }
    bad = [
        file for dataset in workflow.datasets for file in _absent(workflow, dataset, found_of[dataset.name], sources)
    ]
    wanted = [
        (dataset, use, source, source.file_of(url, dataset.nevents))
        for dataset in workflow.datasets
        for use, source in sources
        if use.id in read[dataset.name]
        for url in look.at(found_of[dataset.name].files)
    ]
    described = describe_all([(source, use.kind, url) for _, use, source, url in wanted], progress=progress)
    uses = [(use, source, answer) for (_, use, source, _), answer in zip(wanted, described, strict=True)]
    found = as_asked(uses, all_seen=look is Look.EVERY)
    refused = {**_not_as_known(workflow, found_of, look), **(unreadable or {})}
    for (dataset, use, source, url), info in zip(wanted, found, strict=True):
        problem = info if isinstance(info, Problem) else refused.get((dataset.name, url))
        if problem is not None:
            events = last_entries(source, use.kind, url) if isinstance(info, Problem) else info.entries
            placed = problem.at(workflow.place(*dataset.path, "files"))
            bad.append(BadFile(dataset.name, use.id, url, placed, events))
        elif isinstance(info, FileInfo):
            infos[dataset.name, use.id].append(info if info.url == url else replace(info, url=url))
    counts = {name: len(one.files) + len(one.missing) for name, one in found_of.items()}
    verdict = judge(workflow, bad, counts, all_seen=look is Look.EVERY)
    left = dict(without(infos, verdict.skipped))
    warnings = [
        *_in_the_current_folder(found_of),
        *_in_two_datasets(found_of),
        *_twice(left),
        *_cut_short(workflow, left),
        *_cut_off(workflow, left),
        *_without_digest(workflow, found_of),
    ]
    return Inputs(
        infos=left,
        bad=tuple(file for file in verdict.refused if file.source),
        problems=(*problems, *(file.problem for file in verdict.refused if not file.source), *verdict.problems),
        warnings=(*warnings, *verdict.warnings),
        skipped=verdict.skipped,
    )


def _not_as_known(workflow: Workflow, found_of: Mapping[str, FoundFiles], look: Look) -> dict[tuple[str, str], Problem]:
    """(dataset, file) → what is wrong with its content, for datasets that want to know; where all are looked at."""
    verified = [one for one in workflow.datasets if one.verify == "digest" and look is Look.EVERY]
    digests = {dataset.name: found_of[dataset.name].digests for dataset in verified}
    wrong = other_than_known(list(dict.fromkeys(file for files in digests.values() for file in files)))
    return {(name, file.url): wrong[file.url] for name, files in digests.items() for file in files if file.url in wrong}


def _without_digest(workflow: Workflow, found_of: Mapping[str, FoundFiles]) -> Iterator[str]:
    """A word for each dataset that wants files compared of which no checksum is known."""
    for dataset in workflow.datasets:
        found = found_of[dataset.name]
        unknown = len(found.files) - len(found.digests)
        if dataset.verify == "digest" and unknown:
            count = f"{unknown} of {plural(len(found.files), 'file')}"
            where = workflow.place(*dataset.path, "verify")
            words = f"dataset '{dataset.name}': no checksum is known of {count}, which are not verified"
            yield f"{where}: {words}" if where else words


def sources_read(workflow: Workflow) -> dict[str, set[str]]:
    """Dataset → the sources that the events of its stages come from; all of them for a dataset without stages, which is
    there to be looked at."""
    everything = {use.id for use in workflow.sources}
    if len(everything) < 2:
        return {dataset.name: everything for dataset in workflow.datasets}
    roots: dict[str, set[str]] = {}
    whole = {stage.id for stage in workflow.stages if _sees_all_data(stage)}
    for stage in workflow.stages:  # those that it needs come before it
        carrying = [need for need in stage.needs if need not in whole] or stage.needs
        started = {stage.source or workflow.sources[0].id} if not stage.needs else set()
        roots[stage.id] = started.union(*(roots.get(need, ()) for need in carrying))
    read = {
        dataset.name: set().union(*(roots[stage.id] for stage in workflow.stages if stage.applies_to.includes(dataset)))
        for dataset in workflow.datasets
    }
    return {dataset: found or everything for dataset, found in read.items()}


def _sees_all_data(stage: Stage) -> bool:
    """Whether it hands on a product of all its events, and none of them."""
    if stage.scope is not None:
        return stage.scope != Scope.PARTITION.value
    try:
        operation: type[Operation] = registry.load(PluginKind.OPERATION, stage.op)
    except CenoteError:  # which is told where stages are resolved
        return False
    return operation.scope is not Scope.PARTITION


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


def _cut_off(workflow: Workflow, infos: Mapping[tuple[str, str], Sequence[FileInfo]]) -> Iterator[str]:
    """A word for each dataset of which some events are left out because it says how many are read at most."""
    windows = {use.id: slice(use.start, use.stop) for use in workflow.sources}
    for dataset in workflow.datasets:
        if dataset.limit is None:
            continue
        key, most = dataset.limit
        there = [
            sum(len(range(info.entries)[windows[source]]) for info in files)
            for (name, source), files in infos.items()
            if name == dataset.name
        ]
        if max(there, default=0) > most:
            place = workflow.place(*dataset.path, key)
            where = f"{place}: " if place else ""
            otherwise = "; if it is how many were generated, add `max_events`" if key == "nevents" else ""
            yield f"{where}only the first {plural(most, 'event')} of dataset '{dataset.name}' are read{otherwise}"


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


def _twice(infos: Mapping[tuple[str, str], Sequence[FileInfo]]) -> Iterator[str]:
    """A warning for each dataset that has copies of its own files."""
    for (dataset, _), files in infos.items():
        first = {info.content: info for info in reversed(files) if info.content and info.entries}
        copies = [info for info in files if info.content in first and first[info.content] is not info]
        if copies:
            more = f", and {len(copies) - 1} more" if len(copies) > 1 else ""
            twice = f"{copies[0].url} is a copy of {first[copies[0].content].url}{more}"
            yield f"dataset '{dataset}' has files twice: {twice}; their events count twice"


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
