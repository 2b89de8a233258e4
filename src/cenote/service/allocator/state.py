"""Hold everything that the allocator knows, its deadlines among it, and change it by steps that keep it whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from heapq import heapify, heappop, heappush

import msgspec

from cenote.engine.autoscaler import Autoscaler
from cenote.language.execution import RunLimits
from cenote.language.schema.service import OTHERS, Budget, ShareRules
from cenote.service.allocator.accounts import RESERVE, Account, Charge, moment, owner_of, rate_of
from cenote.service.allocator.pool import LongLivedPool, placed
from cenote.service.allocator.queued_task import SUCCEEDED, WAITING, QueuedTask
from cenote.service.allocator.snapshot import LiveInstance, Span, Trouble
from cenote.service.client.definitions import PoolDefinition, TaskState

# Know which tasks may wait no longer, without a look at all the others.


_SPARE = 1000
"""Entries that are forgotten together, where they are also half of all."""


class Deadlines:
    """Tasks, and until when each may wait."""

    def __init__(self) -> None:
        self._ends: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        """The same, with some that hold no longer."""

    def set(self, task: str, at: float) -> None:
        """It may wait until then."""
        if self._ends.get(task) == at:
            return
        self._ends[task] = at
        heappush(self._heap, (at, task))
        if len(self._heap) > 2 * len(self._ends) + _SPARE:
            self._heap = [(end, name) for name, end in self._ends.items()]
            heapify(self._heap)

    def clear(self, task: str) -> None:
        """It waits no longer, or may wait for ever."""
        self._ends.pop(task, None)

    def is_any_over(self, now: float) -> bool:
        """Whether there are such tasks."""
        while self._heap and self._ends.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return bool(self._heap) and self._heap[0][0] <= now

    def over(self, now: float, *, most: int) -> list[str]:
        """Those whose time is over, the longest first; they are not told again."""
        found: list[str] = []
        while len(found) < most and self.is_any_over(now):
            _, task = heappop(self._heap)
            del self._ends[task]
            found.append(task)
        return found


class ServiceState:
    """Pools, tasks, rules, and what is still to be decided about them."""

    def __init__(self) -> None:
        self.now = 0.0
        """The latest time of any event, those included that no log has."""
        self.at = 0.0
        """The time of the event that is folded in: what costs, and what waits, is counted by this."""
        self.rules = ShareRules()
        self.spans: dict[str, Span] = {}
        """`day`, `week`, `month` → the one that it is now."""
        self.sizes: dict[str, tuple[int, int]] = {}
        """Names in the rules of pools → smallest and largest size now, where a period says so."""
        self.accounts: dict[str, Account] = {}
        """`pool:NAME`, `profile:NAME`, `user:NAME` → what they have spent."""
        self.autoscaler = Autoscaler((), RunLimits())
        self.pools: dict[str, LongLivedPool] = {}
        self.tasks: dict[str, QueuedTask] = {}
        self.by_user: Counter[str] = Counter()
        """User → slots in all pools."""
        self.on_worker: dict[str, dict[tuple[str, int], LiveInstance]] = {}
        """Worker → what it runs."""
        self.dependents: dict[str, set[str]] = {}
        """Task → tasks that wait for its success."""
        self.deadlines = Deadlines()
        """Of tasks that have no slot and may not wait for ever."""
        self.next_order = 1
        self.next_serial = 1
        self.returned: dict[tuple[str, int], None] = {}
        """To be decided: instances whose attempt failed. Is there another one?"""
        self.settled: dict[str, None] = {}
        """To be decided: tasks that have come to an end, or can never start."""
        self.abandoned: dict[str, None] = {}
        """To be decided: pools that were removed. Where do their tasks go?"""

    # Pools

    def add_pool(self, definition: PoolDefinition) -> LongLivedPool:
        """A pool, without workers."""
        workers = self.autoscaler.add(placed(definition))
        pool = self.pools[definition.name] = LongLivedPool(definition, workers)
        for task in [task for task in self.tasks.values() if task.definition.pool == pool.name]:
            pool.waiting.update(task, here=True)
            self._note_wait(task)
        return pool

    def settle_pool(self, pool: LongLivedPool) -> None:
        """Something changed in a pool: remember since when it lacks workers, and forget it once it is gone."""
        pool.note_waiting(self.now)
        if pool.is_gone and self.pools.get(pool.name) is pool:
            del self.pools[pool.name]
            self.autoscaler.remove(pool.name)

    def pay_worker(self, pool: LongLivedPool, worker: str, *, costs: bool) -> None:
        """A worker is on a machine, or no longer."""
        if costs and worker not in pool.paid:
            self.charge_worker(pool, worker, self.at)
        elif not costs and worker in pool.paid:
            charge = _worker_charge(pool, worker)
            del pool.paid[worker]
            self._close(pool_keys(pool.definition), charge)

    def charge_worker(self, pool: LongLivedPool, worker: str, since: float) -> None:
        """A worker costs since then."""
        pool.paid[worker] = since
        self._open(pool_keys(pool.definition), _worker_charge(pool, worker))

    def begin_spans(self, keys: Collection[str], since: float) -> None:
        """These accounts count from this time on; what runs goes on costing."""
        for key in keys:
            self.accounts[key] = Account(moment(since))
        for pool in self.pools.values():
            for worker in pool.paid:
                self._open([key for key in pool_keys(pool.definition) if key in keys], _worker_charge(pool, worker))
            for live in pool.live.values():
                if not live.preempted and (key := user_key(self.tasks[live.task].definition.user)) in keys:
                    self._open([key], self._slot_charge(live))

    def _open(self, keys: Collection[str], charge: Charge) -> None:
        for key in keys:
            self.accounts.setdefault(key, Account()).open(charge)

    def _close(self, keys: Collection[str], charge: Charge) -> None:
        for key in keys:
            self.accounts[key].close(charge, moment(self.at))

    def _slot_charge(self, live: LiveInstance) -> Charge:
        pool = self.pools[live.pool].definition
        until = None if live.timeout is None else moment(live.since + live.timeout + RESERVE)
        return Charge(rate_of(pool.cost, pool.slots), moment(live.since), until)

    # Tasks

    def add_task(self, task: QueuedTask) -> None:
        """A task, with whatever of it runs already."""
        self.tasks[task.id] = task
        for other in task.pending:
            self.dependents.setdefault(other, set()).add(task.id)
        for live in task.live.values():
            self._seat(task, live)
        self.requeue(task)
        self.check_end(task)

    def requeue(self, task: QueuedTask) -> None:
        """A task changed: it waits where it should, or nowhere."""
        self._note_wait(task)
        if pool := self.pools.get(task.definition.pool):
            pool.waiting.update(task, here=True)
            pool.note_waiting(self.now)

    def _note_wait(self, task: QueuedTask) -> None:
        """Remember since when a task has had no slot, though it lacks nothing else."""
        task.copied = None
        if task.may_start and task.waiting and not task.live:
            task.waiting_since = self.at if task.waiting_since is None else task.waiting_since
        else:
            task.waiting_since = None
        ends = [end for end in self.ends_of_patience(task) if end is not None]
        if ends:
            self.deadlines.set(task.id, min(ends))
        else:
            self.deadlines.clear(task.id)

    def ends_of_patience(self, task: QueuedTask) -> tuple[float | None, float | None]:
        """Until when a task may wait by its own `queue_timeout`, and by that of its pool."""
        if task.waiting_since is None:
            return None, None
        own, pool = task.definition.queue_timeout, self.pools.get(task.definition.pool)
        pools = pool.definition.queue_timeout if pool else None
        return (
            None if own is None else task.waiting_since + own,
            None if pools is None else max(task.waiting_since, task.arrived) + pools,
        )

    def redefine(self, task: QueuedTask, **changes: str | int) -> None:
        """Give a task another pool or another priority; what runs stays where it is."""
        if before := self.pools.get(task.definition.pool):
            before.waiting.update(task, here=False)
            before.note_waiting(self.now)
        if changes.get("pool", task.definition.pool) != task.definition.pool:
            task.arrived = self.at
        for live in task.live.values():
            self._forget_victim(task, live)
        task.definition = msgspec.structs.replace(task.definition, **changes)
        for live in task.live.values():
            self._note_victim(task, live)
        self.requeue(task)

    def check_end(self, task: QueuedTask) -> None:
        """Whether a task has come to an end is to be decided, if nothing of it is left."""
        if task.state is None and not task.live and (task.doomed is not None or not task.unfinished):
            self.settled[task.id] = None

    def forget_task(self, task: QueuedTask) -> None:
        """A task is known no more."""
        del self.tasks[task.id]
        self.deadlines.clear(task.id)
        self.settled.pop(task.id, None)
        for other in task.pending:
            self.dependents.get(other, set()).discard(task.id)

    def free_dependents(self, task: QueuedTask) -> None:
        """A task ended: those that wait for it may start, or never will."""
        for name in sorted(self.dependents.pop(task.id, ())):
            if (other := self.tasks.get(name)) is None or other.state is not None:
                continue
            other.pending.discard(task.id)
            if task.state is not TaskState.SUCCESS:
                other.doomed = why_doomed(task)
            self.requeue(other)
            self.check_end(other)

    # Instances

    def live(self, task: str, instance: int, attempt: int) -> LiveInstance | None:
        """The attempt, if it has a slot."""
        known = self.tasks.get(task)
        live = known.live.get(instance) if known else None
        return live if live is not None and live.attempt == attempt else None

    def seat(self, live: LiveInstance) -> None:
        """An instance gets a slot."""
        task = self.tasks[live.task]
        task.assign(live)
        self.returned.pop((live.task, live.instance), None)
        self._seat(task, live)
        self.requeue(task)

    def change_live(self, live: LiveInstance, **changes: bool | str) -> None:
        """Something is new of an attempt that has a slot. One that is told to give way costs its user no more."""
        task, pool = self.tasks[live.task], self.pools[live.pool]
        if changes.get("preempted") and not live.preempted:
            self._close([user_key(task.definition.user)], self._slot_charge(live))
        self._forget_victim(task, live)
        pool.preempted -= live.preempted
        task.copied = None
        task.change(live, **changes)
        self._remember(task, task.live[live.instance])

    def unseat(self, live: LiveInstance, code: int, trouble: Trouble | None = None) -> None:
        """An attempt has no slot any more: its instance is over, or waits again."""
        task, pool = self.tasks[live.task], self.pools[live.pool]
        key = (live.task, live.instance)
        self._forget_victim(task, live)
        pool.preempted -= live.preempted
        if not live.preempted:
            self._close([user_key(task.definition.user)], self._slot_charge(live))
        if code == SUCCEEDED:
            task.busy += max(0.0, self.at - live.since)
        task.finish(live.instance, code)
        if trouble is not None:
            task.troubles[live.instance] = trouble
            if code == WAITING:
                self.returned[key] = None
        del pool.live[key]
        self._leave_worker(live)
        pool.seats.give_back(live.worker)
        pool.used.give_back(owner_of(task))
        self.by_user[task.definition.user] -= 1
        self.requeue(task)
        self.check_end(task)
        self.settle_pool(pool)

    def _seat(self, task: QueuedTask, live: LiveInstance) -> None:
        pool = self.pools[live.pool]
        pool.seats.take(live.worker)
        pool.used.take(owner_of(task))
        self.by_user[task.definition.user] += 1
        if not live.preempted:
            self._open([user_key(task.definition.user)], self._slot_charge(live))
        self._remember(task, live)

    def _remember(self, task: QueuedTask, live: LiveInstance) -> None:
        pool, key = self.pools[live.pool], (live.task, live.instance)
        pool.live[key] = self.on_worker.setdefault(live.worker, {})[key] = live
        pool.preempted += live.preempted
        self._note_victim(task, live)

    def _leave_worker(self, live: LiveInstance) -> None:
        there = self.on_worker[live.worker]
        del there[live.task, live.instance]
        if not there:
            del self.on_worker[live.worker]

    def _note_victim(self, task: QueuedTask, live: LiveInstance) -> None:
        if task.definition.preemptible and task.cancelled is None and not live.preempted:
            victims = self.pools[live.pool].victims
            victims.setdefault(task.definition.priority, set()).add((live.task, live.instance))

    def _forget_victim(self, task: QueuedTask, live: LiveInstance) -> None:
        victims = self.pools[live.pool].victims
        level = victims.get(task.definition.priority, set())
        level.discard((live.task, live.instance))
        if not level:
            victims.pop(task.definition.priority, None)


def why_doomed(task: QueuedTask) -> str:
    """Why those that come after a task can never start: it ended without success."""
    how = "was cancelled" if task.state is TaskState.CANCELLED else "failed"
    return f"task '{task.definition.name}' ({task.id}), which it comes after, {how}"


def pool_keys(pool: PoolDefinition) -> list[str]:
    """The accounts that its workers cost."""
    return [f"pool:{pool.name}", *([f"profile:{pool.profile}"] if pool.profile else [])]


def user_key(user: str) -> str:
    """The account that a user's slots cost."""
    return f"user:{user}"


def budget_of(rules: ShareRules, key: str) -> Budget | None:
    """The budget of an account, if it has one."""
    kind, _, name = key.partition(":")
    if kind == "user":
        return rules.budgets.get(name, rules.budgets.get(OTHERS))
    found = rules.pools.get(name)
    return found.budget if found else None


def _worker_charge(pool: LongLivedPool, worker: str) -> Charge:
    return Charge(rate_of(pool.definition.cost), moment(pool.paid[worker]))
