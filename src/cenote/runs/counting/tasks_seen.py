"""Collect from a run's events how much memory and time its tasks took, for the plans of later runs."""

from __future__ import annotations

from cenote.engine.messages import AnyEvent, TaskDone, TaskSplit
from cenote.plan.forecast.task_history import Seen, task_key
from cenote.plan.plan import MERGE, Plan
from cenote.plugins.capabilities import shares_process


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
