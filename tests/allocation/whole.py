"""Check that what the allocator counts agrees with what it holds, and that its log leads to the same state."""

from __future__ import annotations

from collections import Counter

import msgspec

from allocation.agents import require
from cenote.language.schema.service import OTHERS, PoolRules
from cenote.service.allocator.accounts import owner_of
from cenote.service.allocator.allocator import Allocator
from cenote.service.allocator.decide.endings import waits_to_spread
from cenote.service.allocator.messages import KeptEvent, ServiceEvent
from cenote.service.allocator.queued_task import ASSIGNED, CODES, RUNNING
from cenote.service.allocator.state import ServiceState


def check_counts(allocator: Allocator) -> None:
    """Count everything anew."""
    state = allocator._state  # what it holds is the point
    for task in state.tasks.values():
        counted = [task.states.count(code) for code in range(len(CODES))]
        require(task.counts == counted, f"task {task.id} counts {task.counts} instead of {counted}")
        require(len(task.live) == counted[ASSIGNED] + counted[RUNNING], f"task {task.id} miscounts what runs")
        require(task.live == {} or task.state is None, f"task {task.id} has ended and still runs")
    everywhere = [live for task in state.tasks.values() for live in task.live.values()]
    by_user = Counter(state.tasks[live.task].definition.user for live in everywhere)
    require(+state.by_user == by_user, f"users have {state.by_user} instead of {by_user}")
    require(not state.returned and not state.settled and not state.abandoned, "something is left undecided")
    for name in state.pools:
        _check_pool(state, name)
        _check_hours(state, name)
    for task in state.tasks.values():
        waited, limit = state.now - (task.waiting_since or state.now), task.definition.queue_timeout
        require(limit is None or waited <= limit + 1, f"task {task.id} waits for {waited} s, and may for {limit} s")


def check_replay(allocator: Allocator, log: list[ServiceEvent]) -> None:
    """The log, and a compacted one, lead to the same state."""
    state = allocator.compacted()
    replayed = Allocator.replay(log)
    require(replayed.compacted() == state, "the log leads to another state")
    known = replayed._state.pools
    again = [name for name in replayed._state.abandoned if name in known and not known[name].removed]
    require(not again, f"what waits for {again} would be cancelled by a restart")
    require(_timeless(allocator.copied()()) == _timeless(state), "a copy that was made ahead is another state")
    list(allocator.copy_ahead())  # as long as nothing changes, until the next check
    compacted = Allocator.replay(state)
    require(compacted.compacted() == state, "the compacted log leads to another state")
    for other in (replayed, compacted):
        require(_views(other) == _views(allocator), "a replayed state looks different")


def check_reasons(allocator: Allocator) -> None:
    """Every task that waits says why."""
    for view in allocator.tasks():
        name = view.definition.id
        waits = bool(view.counts[CODES[0]]) and not view.state.is_over
        require(bool(allocator.why(name)) == waits, f"task {name} waits: {waits}, and says {allocator.why(name)}")


def _check_pool(state: ServiceState, name: str) -> None:
    pool = state.pools[name]
    here = {
        (live.task, live.instance): live
        for task in state.tasks.values()
        for live in task.live.values()
        if live.pool == name
    }
    require(pool.live == here, f"pool {name} does not know what it runs")
    on_worker = Counter(live.worker for live in here.values())
    for worker, many in on_worker.items():
        require(many <= pool.seats.slots.get(worker, many), f"{worker} has {many} instances, and fewer slots")
    free = sum(pool.seats.slots[worker] - on_worker[worker] for worker in pool.seats.usable)
    require(pool.seats.free == free, f"pool {name} counts {pool.seats.free} free slots instead of {free}")
    owners = Counter(owner_of(state.tasks[live.task]) for live in here.values())
    require(pool.used.owners == owners, f"pool {name} miscounts the slots of its users")
    waiting = [t for t in state.tasks.values() if t.definition.pool == name and t.may_start and t.waiting]
    require(pool.waiting.instances == sum(task.waiting for task in waiting), f"pool {name} miscounts its queue")
    require(sorted(pool.waiting.tasks) == sorted(task.id for task in waiting), f"pool {name} queues the wrong tasks")
    require(pool.preempted == sum(live.preempted for live in here.values()), f"pool {name} miscounts preemptions")
    victims = {key for level in pool.victims.values() for key in level}
    may = {key for key, live in here.items() if _may_stop(state, live.task) and not live.preempted}
    require(victims == may, f"pool {name} would stop {victims} instead of {may}")
    idle = not pool.closed and pool.may_start and not waits_to_spread(state, pool)
    require(not idle or _all_at_their_limit(state, name), f"pool {name} leaves slots unused")


def _check_hours(state: ServiceState, name: str) -> None:
    """An elastic pool is within the limits of the hour; a budget may keep it smaller."""
    pool, (least, most) = state.pools[name], state.sizes.get(name, (0, 1 << 30))
    if (elastic := pool.workers.pool.elastic) is not None and not pool.closed:
        require(elastic.max <= most, f"pool {name} may have {elastic.max} workers at an hour for {most}")
        budget = pool.bounds is not None and bool(pool.bounds.reason)
        require(elastic.min >= least or budget, f"pool {name} may have {elastic.min} workers at an hour for {least}")


def _may_stop(state: ServiceState, task: str) -> bool:
    return state.tasks[task].definition.preemptible and state.tasks[task].cancelled is None


def _all_at_their_limit(state: ServiceState, pool: str) -> bool:
    """Each of them: in all pools, in this one, or by a budget, which is compared with a ledger elsewhere."""
    limits, here = state.rules.most_slots, state.rules.pools.get(pool, PoolRules()).most_slots
    used = Counter(state.tasks[live.task].definition.user for live in state.pools[pool].live.values())
    budgets = state.rules.budgets
    users = {state.tasks[name].definition.user for name in state.pools[pool].waiting.tasks}
    return all(
        state.by_user[user] >= limits.get(user, limits.get(OTHERS, 1 << 30))
        or used[user] >= here.get(user, here.get(OTHERS, 1 << 30))
        or user in budgets
        or OTHERS in budgets
        for user in users
    )


def _timeless(events: list[KeptEvent]) -> list[KeptEvent]:
    return [msgspec.structs.replace(event, at=0.0) for event in events]


def _views(allocator: Allocator) -> list[object]:
    pools = allocator.pools()
    queues = [allocator.queue(view.definition.name) for view in pools]
    tasks = sorted(allocator.tasks(), key=lambda view: view.definition.id)
    instances = [list(allocator.instances(view.definition.id)) for view in tasks]
    return [pools, queues, tasks, instances, [allocator.why(view.definition.id) for view in tasks]]
