"""Show the queue of a service, its pools and its tasks, in programs and notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cenote.common.text import html_table, plural
from cenote.service.client.records import LivePoolRecord, QueuedTaskRecord


class QueueView(Mapping[str, Sequence[QueuedTaskRecord]]):
    """Pool → tasks that wait for it, in the order in which they would start now."""

    def __init__(self, queues: Mapping[str, Sequence[QueuedTaskRecord]]) -> None:
        self._queues = dict(queues)

    def __getitem__(self, pool: str) -> Sequence[QueuedTaskRecord]:
        return self._queues[pool]

    def __iter__(self) -> Iterator[str]:
        return iter(self._queues)

    def __len__(self) -> int:
        return len(self._queues)

    @property
    def tasks(self) -> list[QueuedTaskRecord]:
        """Those of all pools."""
        return [task for tasks in self._queues.values() for task in tasks]

    def __repr__(self) -> str:
        waiting = ", ".join(f"{plural(len(tasks), 'task')} for {pool}" for pool, tasks in self._queues.items() if tasks)
        return f"QueueView({waiting or 'nothing waits'})"

    def _repr_html_(self) -> str:
        return tasks_table(self.tasks) if self.tasks else "<p>nothing waits</p>"


def tasks_table(tasks: Sequence[QueuedTaskRecord]) -> str:
    """Tasks as a table for notebooks."""
    rows = (
        (
            task.id[:8],
            task.name,
            task.pool,
            task.user,
            str(task.priority),
            str(task.state),
            ", ".join(f"{count} {state}" for state, count in task.counts.items()),
            "; ".join(task.why),
        )
        for task in tasks
    )
    return html_table(("Task", "Name", "Pool", "User", "Priority", "State", "Instances", "Why"), rows)


def pools_table(pools: Sequence[LivePoolRecord]) -> str:
    """Pools as a table for notebooks."""
    rows = (
        (
            pool.title or pool.name,
            pool.state,
            str(pool.workers),
            f"{pool.busy} of {pool.workers * pool.slots}",
            str(pool.waiting),
            pool.reason,
        )
        for pool in pools
    )
    return html_table(("Pool", "State", "Workers", "Slots busy", "Waiting", "Why"), rows)
