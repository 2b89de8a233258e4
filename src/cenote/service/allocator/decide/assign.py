"""Give free slots to whoever is next, and take slots from those who may be stopped for a higher priority."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

from cenote.service.allocator.budgets import can_pay
from cenote.service.allocator.decide.answers import stop
from cenote.service.allocator.fold.event import fold
from cenote.service.allocator.kept import LiveInstance
from cenote.service.allocator.messages import (
    InstanceAssigned,
    InstancePreempted,
    RecordDecision,
    ServiceCommand,
    StartInstance,
)
from cenote.service.allocator.pool import LongLivedPool
from cenote.service.allocator.queued_task import QueuedTask
from cenote.service.allocator.share import may_have_more, most_slots, pool_rules
from cenote.service.allocator.share import next_task as whose_turn
from cenote.service.allocator.state import ServiceState
from cenote.service.allocator.waiting import Owner


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
    if own.scheduling != "priority" or not own.preemption:
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
