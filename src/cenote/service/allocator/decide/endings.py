"""Decide which instances are tried again, and how tasks end."""

from __future__ import annotations

from collections.abc import Iterator

from cenote.client.definitions import TaskState, TaskTerms
from cenote.language.execution import RunLimits
from cenote.service.allocator.fold.event import fold
from cenote.service.allocator.kept import Trouble
from cenote.service.allocator.messages import (
    ArchiveTask,
    InstanceGivenUp,
    RecordDecision,
    ServiceCommand,
    TaskEnded,
)
from cenote.service.allocator.queued_task import CANCELLED, FAILED, WAITING, QueuedTask
from cenote.service.allocator.state import ServiceState
from cenote.text import plural

LIMITS = RunLimits()
"""How often an instance may lose its worker: as often as a task of a run may."""
_ENDED_AT_ONCE = 200
"""Tasks: thousands may come after one that fails."""
_LOST_SLOT = ("lost", "refused", "stopped", "preempted", "evicted")
"""Causes that are no fault of the instance."""


def give_up(state: ServiceState) -> Iterator[ServiceCommand]:
    """Instances that have failed as often as they may; the others wait for their next attempt."""
    while state.returned:
        name, instance = next(iter(state.returned))
        del state.returned[name, instance]
        task = state.tasks.get(name)
        if task is None or task.states[instance] != WAITING:
            continue
        if reason := _why_over(task.troubles[instance], task.definition):
            event = InstanceGivenUp(at=state.now, task=name, instance=instance, reason=reason)
            fold(state, event)
            yield RecordDecision(event)


def end_tasks(state: ServiceState) -> Iterator[ServiceCommand]:
    """Tasks of which nothing is left, or which can never start; those that came after them may end with them. Where
    they are many, the others end with the next events: there is one every moment."""
    for _ in range(_ENDED_AT_ONCE):
        if (name := next(iter(state.settled), None)) is None:
            return
        del state.settled[name]
        task = state.tasks.get(name)
        if task is None or task.state is not None or task.live or (task.doomed is None and task.unfinished):
            continue
        ending, reason = _ending(task)
        event = TaskEnded(at=state.now, task=name, state=ending, reason=reason)
        fold(state, event)
        yield RecordDecision(event)
        yield ArchiveTask(name)


def _why_over(trouble: Trouble, task: TaskTerms) -> str:
    """Why there is no further attempt; empty where there is one."""
    if not task.requeue and trouble.cause in _LOST_SLOT:
        return _how(trouble)
    if trouble.failures > task.retries:
        return f"{_how(trouble)} ({plural(trouble.failures, 'attempt')})"
    if trouble.losses > LIMITS.lost:
        return f"kills its worker: {plural(trouble.losses, 'worker')} lost under it; the last: {_how(trouble)}"
    if trouble.evictions > LIMITS.preempted:
        return f"does not end before its workers must go ({plural(trouble.evictions, 'worker')}): {_how(trouble)}"
    return ""


def _how(trouble: Trouble) -> str:
    words = {"timeout": "exceeded its time limit", "signal": "was ended by a signal"}
    found = words.get(trouble.cause, f"ended with exit code {trouble.exit_code}")
    if trouble.cause in (*_LOST_SLOT, "unkept"):
        return trouble.message or f"its worker {trouble.cause} it"
    return f"{found}: {trouble.message}" if trouble.message else found


def _ending(task: QueuedTask) -> tuple[TaskState, str]:
    if task.cancelled is not None and (task.counts[CANCELLED] or task.counts[FAILED]):
        return TaskState.CANCELLED, task.cancelled
    if task.doomed is not None:
        return TaskState.FAILURE, task.doomed
    if failed := task.counts[FAILED]:
        return TaskState.FAILURE, f"{failed:,} of {plural(len(task.states), 'instance')} failed"
    return TaskState.SUCCESS, ""
