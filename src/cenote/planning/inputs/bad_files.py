"""Decide what becomes of files that cannot be read: an error, or left out, as their dataset says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cenote.analysis.sources.interface import FileInfo
from cenote.common import errors
from cenote.common.errors import Problem
from cenote.common.text import listed, plural
from cenote.common.values import dataclass
from cenote.language.workflow import Dataset, Workflow


@dataclass(frozen=True)
class BadFile:
    """A file that could not be looked at, or not be read by an earlier attempt."""

    dataset: str
    source: str
    url: str
    problem: Problem
    events: int | None = None
    """How many it should hold, where that is known: it was read before."""


@dataclass(frozen=True)
class JudgedFiles:
    """What becomes of the bad files of a workflow."""

    skipped: tuple[BadFile, ...]
    """Left out. Each file once, whichever source cannot read it."""
    refused: tuple[BadFile, ...]
    """Errors."""
    problems: tuple[Problem, ...]
    """Datasets with more bad files than they may have."""
    warnings: tuple[str, ...]


def judge(workflow: Workflow, bad: Sequence[BadFile], files: Mapping[str, int], *, all_seen: bool) -> JudgedFiles:
    """`files` has how many there are of each dataset. Unless all were seen, nobody knows whether too many are bad."""
    skipped: list[BadFile] = []
    refused: list[BadFile] = []
    problems: list[Problem] = []
    warnings: list[str] = []
    for dataset in workflow.datasets:
        own = [file for file in bad if file.dataset == dataset.name]
        once = list({file.url: file for file in reversed(own)}.values())[::-1]
        if dataset.on_bad_file == "error" or not own:
            refused += own
        elif all_seen and (words := _too_many(dataset, len(once), files[dataset.name])):
            refused += own
            problems.append(Problem(errors.BAD_INPUT, words, place=workflow.place(*dataset.path, "files")))
        else:
            skipped += once
            warnings.append(_told(dataset, once, files[dataset.name]))
    return JudgedFiles(tuple(skipped), tuple(refused), tuple(problems), tuple(warnings))


def _too_many(dataset: Dataset, bad: int, files: int) -> str:
    """The complaint, where so many of so many files are too many."""
    found = f"dataset '{dataset.name}': {bad} of {plural(files, 'file')} cannot be read"
    if bad >= files:
        return f"{found}: nothing is left"
    limit = dataset.max_bad_files
    most = files * float(limit.rstrip(" %")) / 100 if isinstance(limit, str) else limit
    return f"{found}, and max_bad_files is {limit}" if most is not None and bad > most else ""


def _told(dataset: Dataset, skipped: Sequence[BadFile], files: int) -> str:
    known = [file.events for file in skipped if file.events is not None]
    missing = f"{sum(known):,} events missing" if known else "it is not known how many events are missing"
    if known and len(known) < len(skipped):
        missing += f" and those of {plural(len(skipped) - len(known), 'file')} of which it is not known"
    names = listed(file.url for file in skipped)
    return f"dataset '{dataset.name}': {len(skipped)} of {plural(files, 'file')} skipped, {missing}: {names}"


def without(
    infos: Mapping[tuple[str, str], Sequence[FileInfo]], skipped: Sequence[BadFile]
) -> Iterator[tuple[tuple[str, str], list[FileInfo]]]:
    """What is left to read: a file that one source cannot read is left out for all sources of its dataset."""
    gone = {(file.dataset, file.url) for file in skipped}
    for (dataset, source), some in infos.items():
        yield (dataset, source), [info for info in some if (dataset, info.url) not in gone]
