"""Lay out pools, the queue and tasks of a service for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from cenote.cli.views.tables.fitted import FittedTable, TableColumn, name
from cenote.common.text import clock_time
from cenote.common.units import format_seconds
from cenote.service.client.records import ForecastRecord, LivePoolRecord, QueuedTaskRecord, TaskInstance, TokenRecord

_POOLS = (
    TableColumn("pool"),
    TableColumn("state", rank=1),
    TableColumn("workers", rank=2, right=True),
    TableColumn("slots busy", rank=3, right=True),
    TableColumn("waiting", rank=4, right=True),
    TableColumn("strategy", rank=6),
    TableColumn("why", rank=5, wraps=True),
)
_TASKS = (
    TableColumn("task"),
    TableColumn("name", rank=1, wraps=True),
    TableColumn("state", rank=2),
    TableColumn("pool", rank=4),
    TableColumn("instances", rank=3, wraps=True),
    TableColumn("user", rank=6),
    TableColumn("why", rank=5, wraps=True),
)
_INSTANCES = (
    TableColumn("instance", right=True),
    TableColumn("state", rank=1),
    TableColumn("attempts", rank=4, right=True),
    TableColumn("worker", rank=3),
    TableColumn("exit", rank=2, right=True),
    TableColumn("message", rank=5, wraps=True),
)
_FORECAST = (
    TableColumn("task"),
    TableColumn("name", rank=1, wraps=True),
    TableColumn("pool", rank=4),
    TableColumn("ahead", rank=5, right=True),
    TableColumn("starts", rank=2),
    TableColumn("ends", rank=3),
    TableColumn("an instance takes", rank=7, wraps=True),
    TableColumn("why", rank=6, wraps=True),
)
_TOKENS = (
    TableColumn("token"),
    TableColumn("user", rank=1),
    TableColumn("rights", rank=2, wraps=True),
    TableColumn("expires", rank=3),
    TableColumn("last used", rank=4),
    TableColumn("made", rank=5),
)
MOST_ROWS = 200


def pool_rows(pools: Sequence[LivePoolRecord]) -> FittedTable | str:
    """One row per pool."""
    table = FittedTable(_POOLS)
    for pool in pools:
        awaited = f" (+{pool.awaited})" if pool.awaited else ""
        slots = f"{pool.busy} of {pool.workers * pool.slots}"
        row = (f"{pool.workers}{awaited}", slots, str(pool.waiting), pool.strategy, pool.reason)
        table.add_row(name(pool.name, style="bold"), pool.state, *row)
    return table if pools else "no pools"


def task_rows(tasks: Sequence[QueuedTaskRecord]) -> FittedTable | str:
    """One row per task."""
    table = FittedTable(_TASKS)
    for task in tasks[:MOST_ROWS]:
        counts = ", ".join(f"{count} {state}" for state, count in task.counts.items())
        pool = f"{task.pool} (fell back from {task.fell_back_from[-1]})" if task.fell_back_from else task.pool
        table.add_row(
            task.id[:8], name(task.name, style="bold"), task.state, pool, counts, task.user, "; ".join(task.why)
        )
    return table if tasks else "no tasks"


def queue_rows(queues: Mapping[str, Sequence[QueuedTaskRecord]]) -> FittedTable | str:
    """One row per task that waits, in order."""
    return task_rows([task for tasks in queues.values() for task in tasks]) if any(queues.values()) else "nothing waits"


def forecast_rows(tasks: Sequence[ForecastRecord]) -> FittedTable | str:
    """One row per task that is not over."""
    table = FittedTable(_FORECAST)
    for task in tasks[:MOST_ROWS]:
        table.add_row(
            task.task[:8],
            name(task.name, style="bold"),
            task.pool,
            str(task.ahead),
            _clock(task.starts) if task.why or task.starts else "runs",
            _clock(task.ends),
            f"{format_seconds(task.seconds)} ({task.duration})",
            "; ".join(task.why),
        )
    return table if tasks else "no tasks"


def _clock(time: str | None) -> str:
    """As clocks of this machine show it."""
    if time is None:
        return "not in sight"
    at = datetime.fromisoformat(time)
    return clock_time(at.timestamp(), now=datetime.now(at.tzinfo).timestamp())


def instance_rows(instances: Sequence[TaskInstance]) -> FittedTable:
    """One row per instance."""
    table = FittedTable(_INSTANCES)
    for one in instances[:MOST_ROWS]:
        code = "" if one.exit_code is None else str(one.exit_code)
        table.add_row(str(one.number), one.state, str(one.attempts), one.worker, code, one.message)
    return table


def token_rows(tokens: Sequence[TokenRecord]) -> FittedTable | str:
    """One row per token, without what makes it one."""
    table = FittedTable(_TOKENS)
    for one in tokens:
        groups = f"own tasks; groups {', '.join(one.groups)}" if one.groups else "own tasks"
        used = (one.expires or "never", one.used or "never", one.created)
        table.add_row(one.id, name(one.user, style="bold"), "admin" if one.admin else groups, *used)
    return table if tokens else "no tokens"
