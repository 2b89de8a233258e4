"""Count the tasks of a segment and what a stage did; collect what tasks took for later plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from cenote.analysis.modifiers.support.measures import Measured, MeasuredStage, Tally
from cenote.engine.messages import AnyEvent, KeptStats, StageStats, TaskDone, TaskSplit
from cenote.execution.runs.summary import KeptRecord, TaskTotals, rounded
from cenote.language.plugins.registry import shares_process
from cenote.planning.forecast.task_history import Seen, task_key
from cenote.planning.plan import MERGE, Plan
from cenote.planning.record import PlannedStage


@dataclass(slots=True)
class TaskTally:
    """The tasks of one segment, or its merges."""

    segment: int
    merge: bool
    tasks: int = 0
    done: int = 0
    """Run to the end in this run."""
    reused: int = 0
    not_needed: int = 0
    """Of the reused ones: every task that would read their result is reused."""
    running: int = 0
    failed: int = 0
    not_run: int = 0
    """Abandoned, or not begun when the run ended."""
    abandoned: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Why tasks were abandoned: each reason with how many."""
    seconds: float = 0.0
    peak_memory: int = 0
    first_started: float | None = None
    last_done: float = 0.0
    pools: Counter[str] = field(default_factory=Counter)
    workers: set[str] = field(default_factory=set)

    @property
    def waiting(self) -> int:
        """Neither running nor finished in any way."""
        return self.tasks - self.done - self.reused - self.running - self.failed - self.not_run

    def abandon(self, count: int = 1) -> None:
        """One will not run; with -1, it does after all."""
        self.not_run += count
        self.abandoned += count

    def end(self) -> None:
        """The run is over: nothing waits any more."""
        self.not_run += self.waiting

    def start(self, *, at: float) -> None:
        """A worker took one."""
        self.running += 1
        if self.first_started is None:
            self.first_started = at

    def finish(self, event: TaskDone) -> None:
        """One is done."""
        self.done += 1
        self.seconds += event.seconds
        self.peak_memory = max(self.peak_memory, event.peak_memory)
        self.pools[event.pool] += 1
        self.workers.add(event.worker)
        self.last_done = max(self.last_done, event.at)
        if self.first_started is None:
            self.first_started = event.at - event.seconds

    def wall(self, now: float) -> float:
        """Seconds from the first start until now, or until the last one was done."""
        if self.first_started is None:
            return 0.0
        until = now if self.waiting + self.running else self.last_done
        return max(0.0, until - self.first_started)

    def time_left(self, now: float) -> float | None:
        """Seconds for the rest at the pace so far; None before one is done."""
        rest = self.waiting + self.running
        if rest == 0:
            return 0.0
        return rest * self.wall(now) / self.done if self.done else None


def totals(tallies: Sequence[TaskTally], *, kept: int | None = None) -> TaskTotals:
    """Several tallies added up."""

    def total(name: str) -> int:
        return sum(getattr(tally, name) for tally in tallies)

    counted = ("failed", "reused", "running", "waiting", "not_run", "not_needed", "abandoned")
    return TaskTotals(
        total=total("tasks"),
        done=total("done") + total("reused"),
        **{name: total(name) for name in counted},
        seconds=rounded(total("seconds")),
        kept=kept,
    )


class ModifierTally:
    """What the modifiers around a stage measured, or those around stages that are compiled together with it."""

    def __init__(self, stage: PlannedStage) -> None:
        self._modifiers = {modifier.name: Tally(modifier.measures) for modifier in stage.modifiers}

    def add(self, measured: Mapping[str, Measured]) -> None:
        """One more task: modifier → what it measured."""
        for name, found in measured.items():
            if name in self._modifiers:
                self._modifiers[name].add(found)

    @property
    def records(self) -> tuple[MeasuredStage, ...]:
        """In their order."""
        return tuple(tally.record(name) for name, tally in self._modifiers.items())


class StageTally:
    """What one stage did, whichever tasks it ran in."""

    def __init__(self, stage: PlannedStage) -> None:
        self.seconds = 0.0
        self.events_in = 0
        self.events_out = 0
        self._modifiers = ModifierTally(stage)
        self._kept: dict[str, KeptRecord] = {}

    def keep(self, what: str, stats: KeptStats) -> None:
        """One more task kept this for later runs, or read it."""
        before = self._kept.get(what, KeptRecord(what))
        self._kept[what] = KeptRecord(
            what,
            kept=before.kept + (not stats.read),
            read=before.read + stats.read,
            bytes=before.bytes + stats.bytes,
            seconds=before.seconds + stats.seconds,
        )

    @property
    def for_later(self) -> tuple[KeptRecord, ...]:
        """What is kept of it."""
        return tuple(msgspec.structs.replace(one, seconds=rounded(one.seconds)) for one in self._kept.values())

    def add(self, stats: StageStats) -> None:
        """One more task."""
        self.seconds += stats.seconds
        self.events_in += stats.events_in
        self.events_out += stats.events_out
        self._modifiers.add(stats.modifiers)

    @property
    def modifiers(self) -> tuple[MeasuredStage, ...]:
        """What each modifier measured, in their order."""
        return self._modifiers.records


# Collect from a run's events how much memory and time its tasks took, for the plans of later runs.


class TasksSeen:
    """What tasks took, by what they run and how large their input is."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._keys = [task_key(segment) for segment in plan.segments]
        self._split: set[int] = set()
        self._seen: dict[str, dict[int, Seen]] = {}
        together = shares_process(plan.workflow.execution.backend)
        self._shared = {pool.name for pool in plan.placement.pools if together and pool.slots > 1}
        """Pools whose tasks run side by side in one process: whose memory it is cannot be known."""

    def take(self, event: AnyEvent) -> None:
        """Tasks that are done count, unless they were taken in pieces, or an earlier run has done a part of them."""
        if isinstance(event, TaskSplit):
            self._split.add(event.task)
        if not isinstance(event, TaskDone) or event.task in self._split or self._plan.tasks.kind[event.task] == MERGE:
            return
        if any(kept.read for kept in event.kept.values()):
            return
        key = self._keys[int(self._plan.tasks.segment[event.task])]
        peak = 0 if event.pool in self._shared else event.peak_memory
        new = Seen(events=self._events(event), peak=peak, tasks=1, seconds=event.seconds)
        sizes = self._seen.setdefault(key, {})
        sizes[new.size] = _together(sizes.get(new.size), new)

    def _events(self, event: TaskDone) -> int:
        segment = self._plan.segments[int(self._plan.tasks.segment[event.task])]
        if segment.scope != "partition":
            return event.events
        return self._plan.partitions[int(self._plan.tasks.partition[event.task])].events

    def found(self) -> dict[str, list[Seen]]:
        """For the history."""
        return {key: list(sizes.values()) for key, sizes in self._seen.items()}


def _together(before: Seen | None, new: Seen) -> Seen:
    if before is None:
        return new
    most = max(before, new, key=lambda one: one.peak)
    return Seen(most.events, most.peak, before.tasks + new.tasks, before.seconds + new.seconds)
