"""Assign slots, decide which instances are tried again, and how tasks end."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

from cenote.common.text import plural
from cenote.engine.messages import EndWorkers, StopWorkers, WorkerJoined
from cenote.language.execution import RunLimits
from cenote.service.allocator.accounts import Owner, may_have_more, most_slots, pool_rules
from cenote.service.allocator.accounts import next_task as whose_turn
from cenote.service.allocator.fold.event import fold
from cenote.service.allocator.fold.instances import is_unwanted
from cenote.service.allocator.messages import (
    ArchiveTask,
    AttemptId,
    InstanceAssigned,
    InstanceGivenUp,
    InstancePreempted,
    InstancesKnown,
    RecordDecision,
    ServiceCommand,
    ServiceEvent,
    StartInstance,
    StopInstance,
    TaskCancelled,
    TaskEnded,
)
from cenote.service.allocator.pool import LongLivedPool
from cenote.service.allocator.queue import can_pay
from cenote.service.allocator.queued_task import CANCELLED, FAILED, WAITING, QueuedTask
from cenote.service.allocator.snapshot import LiveInstance, Trouble
from cenote.service.allocator.state import ServiceState
from cenote.service.client.definitions import TaskState, TaskTerms

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


# Say what single events ask for at once: attempts to stop or to start once more, workers to send away.


_GIVES_WAY = "it gives way to a task of higher priority"


def answers(state: ServiceState, event: ServiceEvent) -> Iterator[ServiceCommand]:
    """After the event was folded in."""
    match event:
        case TaskCancelled():
            if (task := state.tasks.get(event.task)) is not None and task.cancelled is not None:
                yield from (stop(state, live) for live in task.live.values())
        case WorkerJoined():
            yield from _about_worker(state, event)
        case InstancesKnown():
            yield from _about_attempts(state, event)
        case _:
            pass


def stop(state: ServiceState, live: LiveInstance) -> StopInstance:
    """End this attempt, for the reason that the state has."""
    reason = state.tasks[live.task].cancelled or live.stop_reason or _GIVES_WAY
    return StopInstance(live.task, live.instance, live.attempt, live.worker, reason)


def _about_worker(state: ServiceState, event: WorkerJoined) -> Iterator[ServiceCommand]:
    if (pool := state.pools.get(event.pool)) is None:
        yield EndWorkers(event.pool, (event.worker,), "its pool is gone")
    elif event.worker in pool.workers.leaving:
        yield StopWorkers(event.pool, (event.worker,), "it is no longer needed")


def _about_attempts(state: ServiceState, event: InstancesKnown) -> Iterator[ServiceCommand]:
    """What it should run and does not know is started again; what it runs and should not is stopped."""
    known = {*event.running, *event.finished}
    wanted: set[AttemptId] = set()
    for live in state.on_worker.get(event.worker, {}).values():
        attempt = AttemptId(live.task, live.instance, live.attempt)
        wanted.add(attempt)
        if is_unwanted(state, live):
            yield stop(state, live)
        elif attempt not in known:
            yield StartInstance(live.task, live.instance, live.attempt, live.worker)
    for stray in event.running:
        if stray not in wanted:
            reason = "it is not wanted any more"
            yield StopInstance(stray.task, stray.instance, stray.attempt, event.worker, reason)


# Give free slots to whoever is next, and take slots from those who may be stopped for a higher priority.


def assign(state: ServiceState) -> Iterator[ServiceCommand]:
    """Every free slot that someone may use."""
    for pool in state.pools.values():
        while pool.may_start and not waits_to_spread(state, pool) and (task := next_task(state, pool)) is not None:
            yield from _assign_next(state, pool, task)


def waits_to_spread(state: ServiceState, pool: LongLivedPool) -> bool:
    """Whether all workers that are there have something, and others are about to come for the rest."""
    return pool.seats.best() in state.on_worker and pool.waits_for_workers(state.now)


def preempt(state: ServiceState) -> Iterator[ServiceCommand]:
    """Stop an instance for each waiting one of higher priority that could start in its place."""
    for pool in state.pools.values():
        while (victim := _next_victim(state, pool)) is not None:
            ahead = next_task(state, pool)
            event = InstancePreempted(
                at=state.now,
                task=victim.task,
                instance=victim.instance,
                attempt=victim.attempt,
                worker=victim.worker,
                ahead=ahead.id if ahead else "",
            )
            fold(state, event)
            yield RecordDecision(event)
            yield stop(state, victim)


def next_task(state: ServiceState, pool: LongLivedPool) -> QueuedTask | None:
    """The task that gets the next slot of a pool."""
    own = pool_rules(state.rules, pool.definition)

    def able(owner: Owner, task: str) -> bool:
        room = may_have_more(state.rules, owner.user, state.by_user) and may_have_more(own, owner.user, pool.used.users)
        return room and can_pay(state, pool, state.tasks[task])

    name = whose_turn(pool.waiting, pool.used, state.rules, own, able)
    return None if name is None else state.tasks[name]


def _assign_next(state: ServiceState, pool: LongLivedPool, task: QueuedTask) -> Iterator[ServiceCommand]:
    instance, worker = task.next_waiting(), pool.seats.best()
    if instance is None or worker is None:
        raise AssertionError(f"pool {pool.name} counts slots or instances that are not there")
    attempt = task.attempts[instance] + 1
    event = InstanceAssigned(
        at=state.now, task=task.id, instance=instance, attempt=attempt, worker=worker, pool=pool.name
    )
    fold(state, event)
    yield RecordDecision(event)
    yield StartInstance(task.id, instance, attempt, worker)


def _next_victim(state: ServiceState, pool: LongLivedPool) -> LiveInstance | None:
    """The latest one of the lowest priority that may be stopped, if one has to be."""
    own = pool_rules(state.rules, pool.definition)
    if not own.preempts:
        return None
    if not pool.victims or pool.closed or pool.seats.free or not pool.waiting.instances:
        return None
    highest = max(pool.waiting.levels)
    for priority in sorted(pool.victims):
        if priority >= highest or _could_start(state, pool, above=priority) <= pool.preempted:
            return None
        here = (pool.live[key] for key in pool.victims[priority])
        victims = [live for live in here if live.worker in pool.seats]
        if victims:
            return max(victims, key=lambda live: live.serial)
    return None


def _could_start(state: ServiceState, pool: LongLivedPool, *, above: int) -> int:
    """Waiting instances of higher priority that would get slots, if there were enough."""
    wanted: Counter[str] = Counter()
    for priority, lines in pool.waiting.levels.items():
        if priority > above:
            for owner, line in lines.items():
                if can_pay(state, pool, state.tasks[line.first[1]]):
                    wanted[owner.user] += line.instances
    return sum(min(many, _room_for(state, pool, user)) for user, many in wanted.items())


def _room_for(state: ServiceState, pool: LongLivedPool, user: str) -> int:
    everywhere, here = most_slots(state.rules, user), most_slots(pool_rules(state.rules, pool.definition), user)
    room = [] if everywhere is None else [everywhere - state.by_user[user]]
    room += [] if here is None else [here - pool.used.users[user]]
    return max(0, min(room, default=sys.maxsize))
