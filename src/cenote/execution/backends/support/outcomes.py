"""Turn outcomes into events, decide which tasks travel together, and look how a process is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from cenote.common.values import dataclass
from cenote.engine.messages import FailureInfo, LossCause, TaskDone, TaskFailed, TaskStarted
from cenote.execution.worker.task_spec import Outcome, RunSpec, TaskSpec

STOPPED = FailureInfo(cause="stopped", message="stopped, as asked")


def started(spec: TaskSpec, *, at: float, pool: str, worker: str) -> TaskStarted:
    """A worker began it."""
    return TaskStarted(at=at, task=spec.task, attempt=spec.attempt, pool=pool, worker=worker)


def event_of(
    outcome: Outcome, spec: TaskSpec, *, at: float, pool: str, worker: str, fetch_seconds: float = 0.0
) -> TaskDone | TaskFailed:
    """Done or failed, with the measurements."""
    if outcome.failure is not None:
        return failed(spec, outcome.failure, at=at, pool=pool, worker=worker, seconds=outcome.seconds)
    measured = {name: value for name, value in vars(outcome).items() if name != "failure"}
    return TaskDone(at=at, attempt=spec.attempt, pool=pool, worker=worker, fetch_seconds=fetch_seconds, **measured)


def failed(
    spec: TaskSpec, info: FailureInfo, *, at: float, pool: str, worker: str = "", seconds: float = 0.0
) -> TaskFailed:
    """It failed, with the partition named, where the worker could not tell (it died)."""
    if info.file is None and len(spec.pieces) == 1:
        partition = spec.pieces[0].partition
        entries = (partition.start, partition.stop)
        info = msgspec.structs.replace(info, dataset=partition.dataset, file=partition.url, entries=entries)
    return TaskFailed(
        at=at, task=spec.task, attempt=spec.attempt, pool=pool, worker=worker, failure=info, seconds=seconds
    )


def lost_in(
    stage: str | None, spec: TaskSpec, run: RunSpec, *, message: str, fate: LossCause = "unknown"
) -> FailureInfo:
    """Its worker died in this stage; None where it was in none, or nobody knows. The code that ended it may be that of
    a modifier, so those around the stage are named."""
    steps = run.segments[spec.segment].steps
    around = [modifier.name for step in steps if step.stage == stage for modifier in step.modifiers]
    if around:
        first, *written = message.split("\n")
        message = "\n".join([f"{first}, in the stage or its modifiers ({', '.join(around)})", *written])
    return FailureInfo(cause="lost", message=message, stage=stage, fate=fate)


def withdrawn(spec: TaskSpec, *, at: float, pool: str) -> TaskFailed:
    """The event of a task that was stopped before any worker took it."""
    return failed(spec, FailureInfo(cause="stopped", message="stopped before it began"), at=at, pool=pool)


# Decide which tasks travel together: those so short that the cost of sending each would outweigh them.


ENOUGH_SECONDS = 0.05
"""Work in a bundle: many times what it takes to send a task, and still short for whoever waits for its end."""
_FORGETS = 0.1
"""Weight of the latest task in what counts as typical."""

BundleKey = tuple[int, str]
"""Tasks of one segment and kind: alike in what they do and in what they ask for."""


def key_of(spec: TaskSpec) -> BundleKey:
    """The row that a task belongs to."""
    return spec.segment, spec.kind


class Bundling:
    """Knows how long tasks take, and makes bundles of the short ones. A bundle holds tasks of one row, in order."""

    def __init__(self) -> None:
        self._typical: dict[BundleKey, float] = {}
        self._longest: dict[BundleKey, float] = {}

    def finish(self, spec: TaskSpec, seconds: float) -> None:
        """A task took so long."""
        known = self._typical.get(key_of(spec), seconds)
        self._typical[key_of(spec)] = known + _FORGETS * (seconds - known)
        self.take_longer(spec, seconds)

    def take_longer(self, spec: TaskSpec, seconds: float) -> None:
        """A task takes at least so long."""
        row = key_of(spec)
        self._longest[row] = max(seconds, self._longest.get(row, 0.0))

    def expected(self, specs: Sequence[TaskSpec]) -> float:
        """Seconds that tasks of one row will hardly exceed together; 0 where nothing is known yet."""
        first = specs[0]
        if len(specs) > 1:
            return self._typical[key_of(first)] * len(specs)
        return self._longest.get(key_of(first), 0.0)

    def size(self, spec: TaskSpec, waiting: int, wanted: int) -> int:
        """How many tasks go together with this one, itself counted, where so many of its row wait for about so many
        bundles.

        Tasks of unknown length go alone. So do those that failed before: one that kills its worker is found out.
        """
        row = key_of(spec)
        if spec.attempt > 1 or spec.split > 1 or row not in self._typical:
            return 1
        enough = round(ENOUGH_SECONDS / max(self._typical[row], 1e-6))
        return max(1, min(enough, waiting // max(1, wanted)))

    def bundles(self, waiting: Sequence[TaskSpec], wanted: int) -> Iterator[tuple[TaskSpec, ...]]:
        """Share tasks out to about so many bundles, but none with more work than is enough.

        Tasks of unknown length go alone. So do those that failed before: one that kills its worker is found out.
        """
        rows: dict[BundleKey, list[TaskSpec]] = {}
        for spec in waiting:
            if spec.attempt > 1 or spec.split > 1 or key_of(spec) not in self._typical:
                yield (spec,)
            else:
                rows.setdefault(key_of(spec), []).append(spec)
        work = sum(self._typical[row] * len(specs) for row, specs in rows.items())
        seconds = min(ENOUGH_SECONDS, work / max(1, wanted))
        for row, specs in rows.items():
            size = max(1, round(seconds / max(self._typical[row], 1e-6)))
            for start in range(0, len(specs), size):
                yield tuple(specs[start : start + size])


# Look whether a process of this machine is stopped, how much it has computed, and how long it waited for a core.


_WAITED = Path("/proc/thread-self/schedstat")
_STOPPED = ("T", "t")
"""What Linux calls a process that SIGSTOP or a debugger holds."""


@dataclass(frozen=True)
class VitalSigns:
    """Of a process, at one moment."""

    stopped: bool
    computed: int
    """Ticks of the clock that it has had a core; it works if there are more the next time."""


def vital_signs(process: int, *, named: str = "") -> VitalSigns | None:
    """None where there is no such process here, or its command line does not have this word: it is of another machine,
    or the system cannot say."""
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
        facts = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    if named and named not in words:
        return None
    return VitalSigns(stopped=facts[0] in _STOPPED, computed=int(facts[11]) + int(facts[12]))


def seconds_without_core() -> float:
    """That this thread was ready to compute, and others had the cores; 0 where the system does not say."""
    try:
        return int(_WAITED.read_bytes().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
