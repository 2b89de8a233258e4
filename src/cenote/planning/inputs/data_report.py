"""Report on the data of a workflow: how much there is, and which files cannot be used."""

from __future__ import annotations

from cenote.common.errors import Problem
from cenote.common.values import dataclass
from cenote.language.workflow import Workflow
from cenote.planning.inputs.look import Inputs, sources_read


@dataclass(frozen=True)
class ReportedFile:
    """A file, as it was found."""

    url: str
    entries: int | None
    """None where it cannot be used."""
    size: int = 0
    problem: Problem | None = None
    skipped: bool = False
    """Whether it cannot be used, and its dataset does without it."""
    missing: int | None = None
    """The events that it had when it was read last."""


@dataclass(frozen=True)
class ReportedDataset:
    """The files of a dataset, read as one source."""

    name: str
    source: str
    eventtype: str
    files: tuple[ReportedFile, ...]

    @property
    def bad(self) -> tuple[ReportedFile, ...]:
        """Files that cannot be used."""
        return tuple(file for file in self.files if file.problem is not None)

    @property
    def skipped(self) -> tuple[ReportedFile, ...]:
        """Those of them that the dataset does without."""
        return tuple(file for file in self.files if file.skipped)

    @property
    def entries(self) -> int:
        """Events of the good files."""
        return sum(file.entries or 0 for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of the good files."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class DataReport:
    """All datasets, what is wrong with names of files, and what is odd."""

    datasets: tuple[ReportedDataset, ...]
    problems: tuple[Problem, ...] = ()
    """Files that are not there, patterns that match nothing, sources that cannot be had."""
    warnings: tuple[str, ...] = ()

    @property
    def all_problems(self) -> tuple[Problem, ...]:
        """Those of files too, unless they are skipped."""
        bad = [file.problem for dataset in self.datasets for file in dataset.bad if not file.skipped]
        return (*self.problems, *(problem for problem in bad if problem is not None))


def report_on(workflow: Workflow, inputs: Inputs) -> DataReport:
    """What a look at every file gave."""
    datasets = []
    read = sources_read(workflow)
    for dataset in workflow.datasets:
        for use in [use for use in workflow.sources if use.id in read[dataset.name]]:
            good = [
                ReportedFile(info.url, info.entries, info.size) for info in inputs.infos.get((dataset.name, use.id), ())
            ]
            bad = [
                ReportedFile(file.url, None, 0, file.problem)
                for file in inputs.bad
                if (file.dataset, file.source) == (dataset.name, use.id)
            ]
            skipped = [
                ReportedFile(file.url, None, 0, file.problem, skipped=True, missing=file.events)
                for file in inputs.skipped
                if file.dataset == dataset.name
            ]
            datasets.append(ReportedDataset(dataset.name, use.id, dataset.eventtype, (*good, *bad, *skipped)))
    return DataReport(tuple(datasets), inputs.problems, inputs.warnings)
