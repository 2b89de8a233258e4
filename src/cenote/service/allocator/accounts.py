"""Add up what is used, share it among groups and users, and keep who waits in order.

An account counts from the beginning of its span (a day, a week, a month, or for ever). A worker counts from the time
that it is on a machine until it is gone; a slot from the time that an instance gets it until the instance ends, or is
told to stop, or is past its time limit.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from cenote.language.schema.service import OTHERS, PoolRules, ShareRules
from cenote.service.allocator.queued_task import QueuedTask
from cenote.service.client.definitions import PoolDefinition

RESERVE = 60.0
"""Seconds that everything which runs has set aside: what is to end is over by then, and decisions are as late."""
NOTICE = 300.0
"""Seconds that workers have, to finish what they run, before a budget ends them."""
USE = 300.0
"""Seconds that a worker must be able to work before that, to be asked for at all."""
LEAST = 60.0
"""Seconds that an instance without a time limit must be able to run, to be started."""
_UNIT = 10**15
_HOUR = 3_600_000


def rate_of(cost: float | None, slots: int = 1) -> int:
    """What one of so many slots of a worker costs in a millisecond, from its cost in an hour."""
    return round((cost or 0.0) * _UNIT / (_HOUR * slots))


def moment(at: float) -> int:
    """A time in milliseconds."""
    return round(at * 1000)


def units(amount: float) -> int:
    """An amount as accounts count."""
    return round(amount * _UNIT)


def amount_of(counted: int) -> float:
    """And back."""
    return counted / _UNIT


class Charge(msgspec.Struct, frozen=True):
    """Something that costs."""

    rate: int
    since: int
    until: int | None = None
    """The latest time that it counts to; None where it has no limit."""


class Account:
    """What one pool, profile or user has spent since `begins`, and has promised to spend."""

    def __init__(self, begins: int = 0, closed: int = 0) -> None:
        self.begins, self.closed = begins, closed
        self._rate = self._offset = 0
        """Of charges without a limit: each adds rate × time - rate × its beginning."""
        self._limited_rate = self._limited_offset = self._promised = 0
        """The same of those with one, and what they cost if they last until then."""

    def open(self, charge: Charge, sign: int = 1) -> None:
        """It costs from now on; with the other sign, it never did."""
        since = max(charge.since, self.begins)
        if charge.until is None:
            self._rate += sign * charge.rate
            self._offset += sign * charge.rate * since
        else:
            self._limited_rate += sign * charge.rate
            self._limited_offset += sign * charge.rate * since
            self._promised += sign * charge.rate * max(0, charge.until - since)

    def close(self, charge: Charge, at: int) -> None:
        """It is over."""
        self.open(charge, -1)
        end = at if charge.until is None else min(at, charge.until)
        self.closed += charge.rate * max(0, end - max(charge.since, self.begins))

    def spent(self, at: int) -> int:
        """So far."""
        limited = min(self._limited_rate * at - self._limited_offset, self._promised)
        return self.closed + self._rate * at - self._offset + limited

    def committed(self, at: int) -> int:
        """What it will have spent at least, even if everything without a limit is told to end now."""
        reserve = self._rate * moment(RESERVE)
        return self.closed + self._rate * at - self._offset + reserve + self._promised


# Keep what waits for one pool: by priority, then by group and user, then in order.


class Owner(NamedTuple):
    """Whose work it is."""

    group: str
    user: str


class _Position(NamedTuple):
    """Where a task stands, and with how many instances."""

    priority: int
    owner: Owner
    order: tuple[int, ...]
    instances: int


class OwnerLine:
    """The tasks of one owner with the same priority, in order."""

    def __init__(self) -> None:
        self.tasks: list[tuple[tuple[int, ...], str]] = []
        """(order, id), sorted."""
        self.instances = 0
        """How many wait, of all tasks together."""

    @property
    def first(self) -> tuple[tuple[int, ...], str]:
        """The task that starts next."""
        return self.tasks[0]


class WaitingTasks:
    """What waits for one pool and may start as soon as there is a slot."""

    def __init__(self) -> None:
        self.levels: dict[int, dict[Owner, OwnerLine]] = {}
        """Priority → owner → tasks; nothing that is empty."""
        self.instances = 0
        self._positions: dict[str, _Position] = {}

    def __contains__(self, task: str) -> bool:
        return task in self._positions

    @property
    def tasks(self) -> list[str]:
        """All that wait here, in no order that matters."""
        return list(self._positions)

    @property
    def priorities(self) -> list[int]:
        """Those that tasks have, the highest first."""
        return sorted(self.levels, reverse=True)

    def update(self, task: QueuedTask, *, here: bool) -> None:
        """A task changed: it stands where it should, if it should stand here at all."""
        old, new = self._positions.get(task.id), _position(task) if here and task.may_start and task.waiting else None
        if old is not None and new is not None and old[:3] == new[:3]:
            self._count(self.levels[new.priority][new.owner], new.instances - old.instances)
            self._positions[task.id] = new
            return
        if old is not None:
            self._remove(task.id, old)
        if new is not None:
            self._insert(task.id, new)

    def _insert(self, task: str, position: _Position) -> None:
        line = self.levels.setdefault(position.priority, {}).setdefault(position.owner, OwnerLine())
        insort(line.tasks, (position.order, task))
        self._count(line, position.instances)
        self._positions[task] = position

    def _remove(self, task: str, position: _Position) -> None:
        level = self.levels[position.priority]
        line = level[position.owner]
        del line.tasks[bisect_left(line.tasks, (position.order, task))]
        self._count(line, -position.instances)
        del self._positions[task]
        if not line.tasks:
            del level[position.owner]
        if not level:
            del self.levels[position.priority]

    def _count(self, line: OwnerLine, more: int) -> None:
        line.instances += more
        self.instances += more


def owner_of(task: QueuedTask) -> Owner:
    """Whose task it is."""
    return Owner(task.definition.group, task.definition.user)


def _position(task: QueuedTask) -> _Position:
    return _Position(task.definition.priority, owner_of(task), task.order, task.waiting)


# Choose whose turn it is: by priority and fair share between groups and users, as the rules of the pool say, then
# in order.


_SMALLEST_WEIGHT = 1e-9
"""A weight of nothing is taken for next to nothing: such users come last."""
_USUAL = PoolRules()

Able = Callable[[Owner, str], bool]
"""Whether an owner may get one more slot, for this task."""


@dataclass
class SlotsInUse:
    """Who uses how many slots of a pool."""

    groups: Counter[str] = field(default_factory=Counter)
    users: Counter[str] = field(default_factory=Counter)
    owners: Counter[Owner] = field(default_factory=Counter)

    def take(self, owner: Owner) -> None:
        """One more slot."""
        self.groups[owner.group] += 1
        self.users[owner.user] += 1
        self.owners[owner] += 1

    def give_back(self, owner: Owner) -> None:
        """One slot less."""
        self.groups[owner.group] -= 1
        self.users[owner.user] -= 1
        self.owners[owner] -= 1
        if not self.owners[owner]:
            del self.owners[owner]  # who uses none is not remembered

    def copy(self) -> SlotsInUse:
        """The same, for asking what if."""
        return SlotsInUse(self.groups.copy(), self.users.copy(), self.owners.copy())


def pool_rules(rules: ShareRules, pool: PoolDefinition) -> PoolRules:
    """The rules of a pool: its own, or those of the profile that it is made from."""
    return rules.pools.get(pool.name) or rules.pools.get(pool.profile) or _USUAL


def most_slots(rules: ShareRules | PoolRules, user: str) -> int | None:
    """How many slots a user may have at once; None for any number."""
    return rules.most_slots.get(user, rules.most_slots.get(OTHERS))


def may_have_more(rules: ShareRules | PoolRules, user: str, used: Mapping[str, int]) -> bool:
    """Whether a user may get one more slot; `used` are the slots that users have, in the pool or in all."""
    most = most_slots(rules, user)
    return most is None or used.get(user, 0) < most


def share_of(owner: Owner, used: SlotsInUse, rules: ShareRules) -> tuple[float, float]:
    """How much the group and the user have of a pool, by weight: who has least is next."""
    group = used.groups[owner.group] / max(rules.shares.groups.get(owner.group, 1.0), _SMALLEST_WEIGHT)
    user = used.owners[owner] / max(rules.shares.users.get(owner.user, 1.0), _SMALLEST_WEIGHT)
    return group, user


def rounds(waiting: WaitingTasks, pool: PoolRules) -> Iterator[dict[Owner, list[OwnerLine]]]:
    """Owners that compete with each other → their lines, in order: by priority, or all at once."""
    if pool.scheduling == "priority":
        for priority in waiting.priorities:
            yield {owner: [line] for owner, line in waiting.levels[priority].items()}
        return
    found: dict[Owner, list[OwnerLine]] = {}
    for priority in waiting.priorities:
        for owner, line in waiting.levels[priority].items():
            found.setdefault(owner, []).append(line)
    if found:
        yield found


def next_task(waiting: WaitingTasks, used: SlotsInUse, rules: ShareRules, pool: PoolRules, able: Able) -> str | None:
    """Whose turn it is; None where all who wait have as much as they may."""
    for lines in rounds(waiting, pool):
        heads = {owner: line[0].first for owner, line in lines.items()}
        may = [owner for owner, (_, task) in heads.items() if able(owner, task)]
        if may:
            return heads[min(may, key=lambda owner: (*share_of(owner, used, rules), heads[owner]))][1]
    return None
