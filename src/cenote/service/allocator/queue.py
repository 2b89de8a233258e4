"""Foresee the order in which the instances that wait for a pool would start, if slots came free one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from cenote.service.allocator.budgets import can_pay
from cenote.service.allocator.pool import LongLivedPool
from cenote.service.allocator.share import may_have_more, pool_rules, rounds, share_of
from cenote.service.allocator.state import ServiceState
from cenote.service.allocator.waiting import Owner


class QueueEntry(msgspec.Struct, frozen=True):
    """Some instances of a task that would start one after the other."""

    task: str
    name: str
    user: str
    group: str
    priority: int
    instances: int
    """How many, before it is another task's turn."""
    held: bool = False
    """Whether they wait for a limit or a budget of their user."""


def queue(state: ServiceState, pool: LongLivedPool, *, most: int) -> list[QueueEntry]:
    """The first so many entries."""
    entries: list[QueueEntry] = []
    for name, held in starts(state, pool):
        last = entries[-1] if entries else None
        if last is not None and last.task == name and last.held == held:
            entries[-1] = msgspec.structs.replace(last, instances=last.instances + 1)
        elif len(entries) == most:
            break
        else:
            entries.append(_entry(state, name, held=held))
    return entries


def starts(state: ServiceState, pool: LongLivedPool) -> Iterator[tuple[str, bool]]:
    """Task after task, one for each instance that waits, and whether it waits for a limit or a budget of its user."""
    used, by_user = pool.used.copy(), Counter(state.by_user)
    own = pool_rules(state.rules, pool.definition)
    for lines in rounds(pool.waiting, own):
        tasks = {
            owner: _instances(state, [name for line in several for _, name in line.tasks])
            for owner, several in lines.items()
        }
        heads = {owner: next(names) for owner, names in tasks.items()}

        def is_able(owner: Owner, heads: dict[Owner, str] = heads) -> bool:
            room = may_have_more(state.rules, owner.user, by_user) and may_have_more(own, owner.user, used.users)
            return room and can_pay(state, pool, state.tasks[heads[owner]])

        def turn(owner: Owner, heads: dict[Owner, str] = heads) -> tuple[float, float, tuple[int, ...], str]:
            name = heads[owner]
            return *share_of(owner, used, state.rules), state.tasks[name].order, name

        while heads:
            able = [owner for owner in heads if is_able(owner)]
            owner = min(able or heads, key=turn)
            yield heads[owner], not able
            used.take(owner)
            by_user[owner.user] += 1
            if (following := next(tasks[owner], None)) is None:
                del heads[owner]
            else:
                heads[owner] = following


def _instances(state: ServiceState, names: list[str]) -> Iterator[str]:
    for name in names:
        for _ in range(state.tasks[name].waiting):
            yield name


def _entry(state: ServiceState, name: str, *, held: bool) -> QueueEntry:
    task = state.tasks[name].definition
    return QueueEntry(name, task.name, task.user, task.group, task.priority, 1, held)
