"""Foresee the order in which the instances that wait for a pool would start, if slots came free one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice

import msgspec

from cenote.service.allocator.budgets import can_pay
from cenote.service.allocator.pool import LongLivedPool
from cenote.service.allocator.share import SlotsInUse, may_have_more, pool_rules, rounds, share_of
from cenote.service.allocator.state import ServiceState
from cenote.service.allocator.waiting import Owner

_FORESEEN = 1000
"""Instances whose turns are looked at one by one."""


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
    """The first so many entries. What lies far ahead comes task by task: nobody waits for the turn of each instance."""
    entries: list[QueueEntry] = []
    seen: Counter[str] = Counter()
    for name, held in islice(starts(state, pool), _FORESEEN):
        seen[name] += 1
        _extend(state, entries, name, 1, held=held)
        if len(entries) > most:
            return entries[:most]
    if sum(seen.values()) == _FORESEEN:
        for name in _in_line(state, pool):
            if len(entries) <= most and (left := state.tasks[name].waiting - seen[name]):
                _extend(state, entries, name, left, held=False)
    return entries[:most]


def _extend(state: ServiceState, entries: list[QueueEntry], name: str, many: int, *, held: bool) -> None:
    last = entries[-1] if entries else None
    if last is not None and last.task == name and last.held == held:
        entries[-1] = msgspec.structs.replace(last, instances=last.instances + many)
    else:
        entries.append(_entry(state, name, many, held=held))


def _in_line(state: ServiceState, pool: LongLivedPool) -> Iterator[str]:
    """The tasks that wait, by priority where that counts, then in order."""
    for lines in rounds(pool.waiting, pool_rules(state.rules, pool.definition)):
        yield from (
            name for _, name in sorted(one for several in lines.values() for line in several for one in line.tasks)
        )


def starts(state: ServiceState, pool: LongLivedPool) -> Iterator[tuple[str, bool]]:
    """Task after task, one for each instance that waits, and whether it waits for a limit or a budget of its user."""
    used, by_user = pool.used.copy(), Counter(state.by_user)
    own = pool_rules(state.rules, pool.definition)
    for lines in rounds(pool.waiting, own):
        turns = _Turns(state, pool, used, by_user)
        for owner, several in lines.items():
            turns.add(owner, _instances(state, [name for line in several for _, name in line.tasks]))
        yield from turns


_Turn = tuple[float, tuple[int, ...], str, Owner]


@dataclass
class _GroupTurns:
    """Whose turn it is in one group: a heap of those who may get a slot, and one of the others."""

    able: list[_Turn] = field(default_factory=list)
    held: list[_Turn] = field(default_factory=list)


class _Turns:
    """Whose turn it is among owners that compete, again and again. Only who gets a slot moves back in the group; who
    comes to a limit by another group is found out when their turn comes."""

    def __init__(self, state: ServiceState, pool: LongLivedPool, used: SlotsInUse, by_user: Counter[str]) -> None:
        self._state, self._pool, self._used, self._by_user = state, pool, used, by_user
        self._own = pool_rules(state.rules, pool.definition)
        self._heads: dict[Owner, str] = {}
        self._following: dict[Owner, Iterator[str]] = {}
        self._groups: dict[str, _GroupTurns] = {}

    def add(self, owner: Owner, names: Iterator[str]) -> None:
        """Somebody whose instances are of these tasks, one after the other."""
        self._following[owner] = names
        self._advance(owner)

    def __iter__(self) -> Iterator[tuple[str, bool]]:
        while (found := self._next()) is not None:
            owner, held = found
            yield self._heads[owner], held
            self._used.take(owner)
            self._by_user[owner.user] += 1
            self._advance(owner)

    def _next(self) -> tuple[Owner, bool] | None:
        """Those who may get a slot come first; among groups the one that has least."""
        for group in self._groups.values():
            while group.able and not self._is_able(group.able[0][-1]):
                heappush(group.held, heappop(group.able))
        able = [(self._share(turns.able[0]), turns.able) for turns in self._groups.values() if turns.able]
        held = [(self._share(turns.held[0]), turns.held) for turns in self._groups.values() if turns.held]
        if not able and not held:
            return None
        _, heap = min(able or held, key=lambda one: one[0])
        return heappop(heap)[-1], not able

    def _advance(self, owner: Owner) -> None:
        if (following := next(self._following[owner], None)) is not None:
            self._heads[owner] = following
            group = self._groups.setdefault(owner.group, _GroupTurns())
            heappush(group.able if self._is_able(owner) else group.held, self._turn(owner))

    def _is_able(self, owner: Owner) -> bool:
        rules, user = self._state.rules, owner.user
        room = may_have_more(rules, user, self._by_user) and may_have_more(self._own, user, self._used.users)
        return room and can_pay(self._state, self._pool, self._state.tasks[self._heads[owner]])

    def _turn(self, owner: Owner) -> _Turn:
        name = self._heads[owner]
        return share_of(owner, self._used, self._state.rules)[1], self._state.tasks[name].order, name, owner

    def _share(self, turn: _Turn) -> tuple[float, _Turn]:
        return share_of(turn[-1], self._used, self._state.rules)[0], turn


def _instances(state: ServiceState, names: list[str]) -> Iterator[str]:
    for name in names:
        for _ in range(state.tasks[name].waiting):
            yield name


def _entry(state: ServiceState, name: str, many: int, *, held: bool) -> QueueEntry:
    task = state.tasks[name].definition
    return QueueEntry(name, task.name, task.user, task.group, task.priority, many, held)
