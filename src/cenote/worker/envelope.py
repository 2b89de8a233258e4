"""This file defines what travels to a worker and back: TaskEnvelope out, Outcome home. Versioned, plain data."""

from __future__ import annotations

from typing import Any

import msgspec

from cenote.engine.messages import FailureInfo, StageStats
from cenote.operations.events import DatasetInfo
from cenote.plan.plan import Partition, Segment

VERSION = 1


class Program(msgspec.Struct, frozen=True):
    """What every task of a run shares: sent once per worker, not once per task."""

    segments: tuple[Segment, ...]
    datasets: dict[str, DatasetInfo]
    constants: dict[str, Any]
    plugins: tuple[tuple[str, str | None, str | None], ...]
    """(target, kind, name) of own plugins, to be made known before the first task."""
    store: str
    """The folder where products lie under their content hash."""
    files: str
    """The folder that skims are written to."""
    version: int = VERSION


class TaskEnvelope(msgspec.Struct, frozen=True):
    """One task."""

    task: int
    key: str
    kind: str
    segment: int
    partition: Partition | None
    """For scope partition."""
    part: int
    """The partition's number within its dataset, for the names of skims."""
    dataset: str | None
    """For scope dataset."""
    inputs: tuple[tuple[int, str], ...]
    """(segment, key) of the tasks whose results it reads, in order."""
    attempt: int = 1
    version: int = VERSION


class Outcome(msgspec.Struct, frozen=True):
    """How a task went."""

    task: int
    failure: FailureInfo | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory: int = 0
    events: int = 0
    bytes_read: int = 0
    bytes_out: int = 0
    stages: dict[str, StageStats] = {}
    warnings: tuple[str, ...] = ()
