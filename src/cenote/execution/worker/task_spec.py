"""Define what travels to a worker and back: RunSpec and TaskSpec out, Outcome back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, Self

from cenote.analysis.operations.support.events import DatasetInfo
from cenote.common.values import dataclass
from cenote.engine.messages import FailureInfo, GroupStats, KeptStats, StageStats
from cenote.language.plugins.resources import ResourceFile
from cenote.language.plugins.shipped import SourceFile
from cenote.planning.plan import Partition, Segment

VERSION = 9
"""Of these forms; a worker refuses another one."""


@dataclass(frozen=True)
class RunSpec:
    """What every task of a run shares: sent once per worker, not once per task."""

    segments: tuple[Segment, ...]
    datasets: Mapping[str, DatasetInfo]
    constants: Mapping[str, Any]
    plugins: tuple[tuple[str, str | None, str | None], ...]
    """(target, kind, name) of own plugins, to be made known before the first task."""
    sources: tuple[SourceFile, ...]
    """Those of them that are files, and the modules beside them: workers may not see their folder."""
    path: tuple[str, ...]
    """Folders that the driver imports from, and a Python of its kind by itself does not."""
    resources: tuple[ResourceFile, ...]
    """Files that own code reads."""
    store: str
    """The folder where results lie under their content hash."""
    files: str
    """The folder that skims are written to."""
    folder: str = ""
    """What names of files are relative to: where the driver was started. Workers may be elsewhere."""
    workflow: str = ""
    """The folder of the workflow."""
    key: bytes = field(default=b"", repr=False)
    """Of the store, for processes of this machine alone; a secret."""
    version: int = VERSION


@dataclass(frozen=True)
class Piece:
    """One partition's events, as they come in."""

    partition: Partition
    part: int
    """The partition's number within its dataset, for the names of skims."""
    rows: tuple[int, int] | None = None
    """The part of the partition that this is, when it was split for lack of memory; None for all of it."""
    imports: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Stage of an earlier segment → names in the store to join; an empty name: straight from the source."""
    places: bytes = field(default=b"", repr=False)
    """Where the columns that the segment reads are in the file, as its source words it; empty: it has to look."""


@dataclass(frozen=True)
class TaskSpec:
    """One task."""

    task: int
    key: str
    kind: Literal["run", "merge"]
    segment: int
    pieces: tuple[Piece, ...] = ()
    """One for scope partition; all of the dataset or run otherwise."""
    products: tuple[tuple[str, str], ...] = ()
    """(stage, key) of earlier stages whose product this task may use."""
    parts: tuple[str, ...] = ()
    """For a merge: the keys of the results to merge, in order."""
    attempt: int = 1
    split: int = 1
    """Pieces to take the partition in, one after the other, because it did not fit into memory whole."""
    wanted: frozenset[str] = frozenset()
    """The products to make; others are there already, or nobody reads them."""
    leaving: Mapping[str, str] = field(default_factory=dict)
    """Stage → the name under which its events are handed over; those of other stages are not read."""
    whole: bool = True
    """Whether that takes all stages of the segment."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Stages that do not run → the name under which what they do to events lies in the store."""
    for_later: Mapping[str, str] = field(default_factory=dict)
    """What may be kept for later runs (see `columns_of` and `events_of`), if it was dear → the name to leave it
    under."""


@dataclass(frozen=True)
class TimeLimit:
    """How long a stage may take."""

    seconds: int
    modifier: str | None = None
    """Which set it; None for `execution.timeout`."""


@dataclass(frozen=True)
class Outcome:
    """How a task went."""

    task: int
    failure: FailureInfo | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory: int = 0
    events: int = 0
    bytes_read: int = 0
    """Of columns from files, as they are in memory."""
    bytes_out: int = 0
    stages: Mapping[str, StageStats] = field(default_factory=dict)
    groups: tuple[GroupStats, ...] = ()
    warnings: tuple[str, ...] = ()
    """Of modifiers."""
    more_warnings: int = 0
    """How often they said something else, which is not kept."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Of modifiers, by name below their folder in the run's."""
    kept: Mapping[str, KeptStats] = field(default_factory=dict)
    """What it kept for later runs, and what it read that earlier ones kept."""

    @classmethod
    def of_timeout(cls, task: int, stage: str, limit: TimeLimit) -> Self:
        """Of a task whose stage ran past its limit."""
        words = f"ran longer than its timeout of {limit.seconds} s"
        if limit.modifier is not None:
            words = f"modifier '{limit.modifier}': the stage {words}"
        info = FailureInfo(cause="timeout", message=words, stage=stage, modifier=limit.modifier)
        return cls(task=task, failure=info, seconds=float(limit.seconds))
