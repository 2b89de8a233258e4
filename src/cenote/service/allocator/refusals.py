"""Say at once what can never run, or cannot be done, and why."""

from __future__ import annotations

from collections.abc import Callable

from cenote.common.text import did_you_mean, format_amount, is_one_line, plural
from cenote.language.execution import AMOUNTS
from cenote.planning.placement.pools import amount, lacking, share
from cenote.service.allocator.accounts import most_slots, pool_rules
from cenote.service.allocator.queue import too_dear
from cenote.service.allocator.state import ServiceState
from cenote.service.client.constants import LONGEST_TEXT, why_no_constant
from cenote.service.client.definitions import PoolDefinition, TaskDefinition, TaskState
from cenote.service.protocol import stays_within

Ending = Callable[[str], TaskState | None]
"""How a task of this id ended, if the archive has it."""

MOST_INSTANCES = 1_000_000
"""Of one task."""
MOST_WORKERS = 10_000
"""Of one pool."""
MOST_SLOTS = 1024
"""Of one worker."""
MOST_RETRIES = 1000
HIGHEST_PRIORITY = 1_000_000
LONGEST_TIME = 10 * 365 * 86400
"""Seconds: ten years."""
LONGEST_NAME = 200


def why_never(state: ServiceState, task: TaskDefinition, archived: Ending) -> str | None:
    """Why a task could never run; None where it could."""
    if task.id in state.tasks or archived(task.id) is not None:
        return f"there is a task with id {task.id} already"
    if task.instances < 1:
        return f"a task needs at least one instance, not {task.instances}"
    if task.instances > MOST_INSTANCES:
        return f"a task has at most {MOST_INSTANCES} instances, not {task.instances}"
    if reason := _why_unwritable(task) or _absurd(task):
        return reason
    if most_slots(state.rules, task.user) == 0:
        return f"user '{task.user}' may not have any slot, by the rules of this service"
    return why_not_there(state, task, task.pool) or _why_not_after(state, task, archived)


def _why_unwritable(task: TaskDefinition) -> str:
    """Why it cannot be started, or shown on a terminal, whatever machine it gets; empty where it can."""
    if not task.name.strip():
        return "a task needs a name"
    if reason := _why_no_name("name", task.name) or _why_no_name("group", task.group):
        return reason
    if not task.command.strip() and task.python is None:
        return "a task needs a command"
    if "\0" in task.command:
        return "the command holds a NUL, which no command can"
    if len(task.command.encode(errors="replace")) > LONGEST_TEXT:
        return f"its command should have at most {LONGEST_TEXT:,} bytes"
    if out := [pattern for pattern in task.results if not stays_within(pattern)]:
        return f"`results` are patterns of files below the folder of an instance, and {out[0]!r} leads out of it"
    constants = (why_no_constant(name, value) for name, value in task.constants.items())
    return next((reason for reason in constants if reason), "")


def _why_no_name(what: str, text: str) -> str:
    """Why people cannot read this as the name of something; empty where they can."""
    if len(text) > LONGEST_NAME:
        return f"its {what} should have at most {LONGEST_NAME} letters, not {len(text)}"
    return "" if is_one_line(text) else f"its {what} should have nothing that changes what a terminal shows: {text!r}"


def why_not_there(state: ServiceState, task: TaskDefinition, pool: str) -> str | None:
    """Why a task can not wait in this pool; None where it can."""
    if (known := state.pools.get(pool)) is None:
        hint = did_you_mean(pool, state.pools)
        return f"there is no pool '{pool}'" + (f"; {hint}" if hint else "")
    if known.closed:
        return f"pool '{pool}' is closed"
    if most_slots(pool_rules(state.rules, known.definition), task.user) == 0:
        return f"user '{task.user}' may not have any slot of pool '{pool}', by the rules of this service"
    dear = too_dear(state.rules, known.definition, task.user, task.timeout)
    return lacks(known.definition, task) or dear


def why_no_pool(state: ServiceState, pool: PoolDefinition) -> str | None:
    """Why a pool can not be added; None where it can."""
    if reason := _why_no_name("name", pool.title):
        return reason
    if (pool.workers is None) == (pool.elastic is None):
        return f"pool '{pool.name}' needs either `workers` or `elastic`"
    if pool.slots < 1 or (pool.workers is not None and pool.workers < 0):
        return f"pool '{pool.name}' needs at least one slot per worker, and not fewer than 0 workers"
    if (most := pool.elastic.max if pool.elastic else pool.workers or 0) > MOST_WORKERS:
        return f"pool '{pool.name}' asks for {most} workers; a pool has at most {MOST_WORKERS}"
    if pool.slots > MOST_SLOTS:
        return f"pool '{pool.name}' asks for {pool.slots} slots per worker; a worker has at most {MOST_SLOTS}"
    if any((amount(pool.resources, kind) or 0) < 0 for kind in AMOUNTS):
        return f"pool '{pool.name}': its resources should not be negative"
    if (known := state.pools.get(pool.name)) is None:
        return None
    if not known.closed:
        return f"there is a pool '{pool.name}' already"
    if known.live or known.workers.counts.total:
        return f"pool '{pool.name}' is closing: {plural(known.workers.counts.total, 'worker')} left"
    return None


def lacks(pool: PoolDefinition, task: TaskDefinition) -> str:
    """Why a slot of this pool is too small; empty where it is not."""
    held = share(pool.resources, pool.slots)
    if not (kinds := lacking(held, task.amounts)):
        return ""
    kind = kinds[0]
    has = format_amount(held[AMOUNTS.index(kind)], kind)
    wanted = format_amount(amount(task.amounts, kind) or 0, kind)
    return f"a slot of pool '{pool.name}' has {has}; an instance asks for {wanted}"


def _absurd(task: TaskDefinition) -> str:
    """What is wrong with its numbers; empty where nothing is."""
    if abs(task.priority) > HIGHEST_PRIORITY or not 0 <= task.retries <= MOST_RETRIES:
        return f"`priority` is from -{HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}, `retries` from 0 to {MOST_RETRIES}"
    for name in ("timeout", "queue_timeout", "results_period"):
        seconds = getattr(task, name)
        if seconds is not None and not 0 < seconds <= LONGEST_TIME:
            return f"`{name}` should be more than 0 seconds, and at most ten years, not {seconds}"
    for kind in AMOUNTS:
        if (asked := amount(task.amounts, kind)) is not None and not 0 <= asked < 1e18:
            return f"`{kind}` should not be negative, nor larger than anything, not {asked:g}"
    return ""


def _why_not_after(state: ServiceState, task: TaskDefinition, archived: Ending) -> str | None:
    for name in task.after:
        other = state.tasks.get(name)
        ended = other.state if other else archived(name)
        if other is None and ended is None:
            return f"there is no task {name}, which it should come after"
        if ended is not None and ended is not TaskState.SUCCESS:
            return f"task {name}, which it should come after, ended as {ended}"
    return None
