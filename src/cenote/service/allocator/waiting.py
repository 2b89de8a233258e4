"""Keep what waits for one pool: by priority, then by group and user, then in order."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import NamedTuple

from cenote.service.allocator.queued_task import QueuedTask


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
