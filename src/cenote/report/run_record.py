"""Hold what a report shows of a run: plain values, read from the run's folder once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cenote.report.task_names import TaskNames

Counts = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class StageRecord:
    """One stage: what was planned and what happened."""

    id: str
    op: str
    pools: Counts
    """Tasks that ran there, by pool."""
    planned_pools: tuple[str, ...]
    verdict: str
    reason: str
    segment: int | None
    tasks: int
    done: int
    failed: int
    reused: int
    seconds: float
    peak_memory: int
    events_in: int
    events_out: int
    rate: float | None


@dataclass(frozen=True)
class PoolRecord:
    """One pool: what it offered and how it was used."""

    name: str
    strategy: str
    state: str
    resources: str
    slots: int
    workers: str
    """As planned: `4` or `0 to 20`."""
    workers_started: int
    workers_lost: int
    tasks: int
    busy: float
    """Slot-seconds."""
    idle: float
    cost: float | None


@dataclass(frozen=True)
class FailureRecord:
    """Something that failed for good."""

    stage: str
    message: str
    cause: str
    where: tuple[tuple[str, str], ...]
    """Dataset, file, entries, pool, worker, attempts: what is known."""
    traceback: str


@dataclass(frozen=True)
class FallbackRecord:
    """A task that ran in another pool than first meant."""

    stage: str
    task: str
    from_pool: str
    to_pool: str
    reason: str
    at: str


@dataclass(frozen=True)
class ProductRecord:
    """A product and its files, relative to the run's folder."""

    name: str
    kind: str
    description: str
    files: tuple[str, ...]
    plots: tuple[str, ...]
    partial: bool


@dataclass(frozen=True)
class PictureRecord:
    """A picture: the file to show, the same in other formats, and what is known of it."""

    file: Path
    others: tuple[str, ...]
    caption: str
    description: str
    partial: bool


@dataclass(frozen=True)
class CutRecord:
    """One cut of one dataset."""

    label: str
    entering: int
    leaving: int
    weighted_in: float | None
    weighted_out: float | None


@dataclass(frozen=True)
class CutflowRecord:
    """One cutflow: for each dataset and group of cuts, the cuts in order."""

    name: str
    tables: tuple[tuple[str, str, tuple[CutRecord, ...]], ...]
    """(dataset, selection, cuts)"""


@dataclass(frozen=True)
class SegmentRecord:
    """Stages that ran together."""

    name: str
    stages: tuple[str, ...]
    pools: tuple[str, ...]
    tasks: int


@dataclass(frozen=True)
class InputRecord:
    """An input file."""

    dataset: str
    file: str
    size: int | None
    events: int
    stamp: str


@dataclass(frozen=True)
class TaskSpan:
    """One attempt at a task: when and how it ran, in seconds since the start of the run."""

    task: int
    start: float
    end: float
    failure: str | None = None
    """Why it failed; None where it did not."""
    cut_off: bool = False
    """Whether nothing was heard of its end."""


@dataclass(frozen=True)
class SlotRecord:
    """One slot of a worker, with what ran there, in order of time."""

    pool: str
    worker: str
    slot: int
    spans: tuple[TaskSpan, ...]


@dataclass(frozen=True)
class Timeline:
    """How many tasks each pool ran over the course of the run, in steps of equal length; and what each slot ran."""

    seconds: float
    pools: tuple[tuple[str, tuple[float, ...]], ...]
    slots: tuple[SlotRecord, ...] = ()


@dataclass(frozen=True)
class RunRecord:
    """Everything that a report shows."""

    name: str
    status: str
    started: str
    ended: str
    resumed: bool
    seconds: float
    cpu_seconds: float
    events: int
    bytes_read: int
    peak_memory: int
    tasks: int
    done: int
    """Finished, those reused from an earlier run included."""
    failed: int
    reused: int
    retries: int
    command: str
    stages: tuple[StageRecord, ...]
    pools: tuple[PoolRecord, ...]
    segments: tuple[SegmentRecord, ...]
    picture: str
    """The plan as SVG; empty when there is none."""
    timeline: Timeline
    task_names: TaskNames
    failures: tuple[FailureRecord, ...]
    fallbacks: tuple[FallbackRecord, ...]
    warnings: tuple[str, ...]
    products: tuple[ProductRecord, ...]
    pictures: tuple[PictureRecord, ...]
    cutflows: tuple[CutflowRecord, ...]
    inputs: tuple[InputRecord, ...]
    software: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, str], ...]
    """Workflow file, its checksum, the state of the repository, the plan."""
