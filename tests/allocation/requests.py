"""Draw what users ask of a service."""

from __future__ import annotations

from random import Random

from allocation.world import World
from cenote.language.execution import Elastic
from cenote.language.schema.service import OTHERS, Budget, PoolRules, ShareRules, Shares
from cenote.service.allocator.messages import (
    CalendarTurned,
    PoolAdded,
    PoolClosed,
    PoolRemoved,
    PoolResized,
    RulesChanged,
    ServiceEvent,
    TaskAdded,
    TaskCancelled,
    TaskMoved,
    TaskPaused,
    TaskPrioritised,
    TaskPutAhead,
    TaskResumed,
)
from cenote.service.allocator.snapshot import Span
from cenote.service.client.definitions import PoolDefinition, TaskDefinition

POOLS = ("cpu", "gpu", "spot")
USERS = ("ada", "bob", "cyd")
_KINDS = ("good", "good", "good", "flaky", "bad", "killer")


COST = {"cpu": 36.0, "gpu": 36.0, "spot": 18.0}


def first_requests(world: World) -> list[ServiceEvent]:
    """Pools and rules to begin with."""
    random, now = world.random, world.now
    world.budgets = _budgets(random)
    pools = [PoolAdded(at=now, pool=_pool(random, name)) for name in POOLS[: random.randint(1, 3)]]
    return [RulesChanged(at=now, rules=_rules(world)), *pools]


def a_random_request(world: World) -> ServiceEvent:
    """Anything that users may ask for; most often a new task."""
    random, now = world.random, world.now
    unfinished = [name for name in world.tasks if name not in world.ended]
    if not unfinished or random.random() < 0.45:
        return TaskAdded(at=now, task=_task(world, unfinished))
    task, pool = random.choice(unfinished), random.choice(POOLS)
    return random.choice(
        (
            TaskCancelled(at=now, task=task, by="ada"),
            TaskPaused(at=now, task=task),
            TaskResumed(at=now, task=task),
            TaskMoved(at=now, task=task, pool=pool),
            TaskPrioritised(at=now, task=task, priority=random.randint(-1, 3)),
            TaskPutAhead(at=now, task=task, of=random.choice(unfinished)),
            RulesChanged(at=now, rules=_rules(world)),
            _calendar(world),
            PoolAdded(at=now, pool=_pool(random, pool)),
            PoolResized(at=now, pool=pool, workers=random.randint(0, 4)),
            random.choice((PoolClosed, PoolRemoved))(at=now, pool=pool)
            if random.random() < 0.4
            else PoolResized(at=now, pool=pool, elastic=_elastic(random)),
        )
    )


def calm_requests(world: World, *, first: bool) -> list[ServiceEvent]:
    """What is needed so that everything can run: an open pool with workers, and nothing paused."""
    now = world.now
    views = {view.definition.name: view for view in world.allocator.pools()}
    asked: list[ServiceEvent] = []
    if "cpu" in views and views["cpu"].state.value in ("Failure", "Submitted") and first:
        asked.append(PoolResized(at=now, pool="cpu", workers=2))
    if world.allocator.why_no_pool(pool := PoolDefinition(name="cpu", workers=2, cost=COST["cpu"])) is None:
        asked.append(PoolAdded(at=now, pool=pool))
    if not first:
        return asked
    asked.append(RulesChanged(at=now, rules=_calm_rules(world)))
    asked.append(CalendarTurned(at=now, spans={per: Span(now, "soon") for per in ("day", "week")}))
    for name in world.tasks:
        if name not in world.ended:
            asked += [TaskResumed(at=now, task=name), TaskMoved(at=now, task=name, pool="cpu")]
    return asked


def _task(world: World, unfinished: list[str]) -> TaskDefinition:
    random = world.random
    timeout = random.choice((None, None, 30, 150))
    name = f"{random.choice(_KINDS)}-{len(world.tasks)}-{world.restarts}-{len(world.log)}"
    return TaskDefinition(
        id=name,
        name=name,
        user=random.choice(USERS),
        group=random.choice(("", "", "big")),
        pool=random.choice([view.definition.name for view in world.allocator.pools()] or ["cpu"]),
        instances=random.choice((1, 1, 2, 5, 12)),
        command="true",
        priority=random.choice((0, 0, 0, 1, 2)),
        preemptible=random.random() < 0.4,
        requeue=random.random() < 0.8,
        retries=random.randint(0, 2),
        timeout=timeout,
        queue_timeout=random.choice((None, None, None, 40, 300)),
        after=tuple(random.sample(unfinished, 1)) if unfinished and random.random() < 0.2 else (),
    )


def _pool(random: Random, name: str) -> PoolDefinition:
    fixed = random.random() < 0.5
    return PoolDefinition(
        name=name,
        workers=random.randint(1, 4) if fixed else None,
        elastic=None if fixed else _elastic(random),
        slots=random.choice((1, 1, 2, 4)),
        fallback=tuple(random.sample(POOLS, random.randint(0, 2))),
        no_worker_for=random.choice((None, 5, 60)),
        queue_timeout=random.choice((None, None, None, None, 200)),
        cost=COST[name],
    )


def _elastic(random: Random) -> Elastic:
    most = random.randint(1, 4)
    period = random.choice((0, 5))
    return Elastic(min=random.randint(0, 1), max=most, idle_time=random.choice((0, 20)), resize_period=period)


def _rules(world: World) -> ShareRules:
    random = world.random
    kinds = {
        name: PoolRules(
            scheduling=random.choice(("priority", "priority", "fair_share")),
            preemption=None if random.random() < 0.7 else False,
            most_slots={user: random.randint(1, 3) for user in (OTHERS, *USERS) if random.random() < 0.2},
            budget=world.budgets.pools[name].budget,
        )
        for name in POOLS
    }
    return ShareRules(
        shares=Shares(
            users={user: random.choice((0.5, 1.0, 2.0)) for user in USERS if random.random() < 0.5},
            groups={"big": 3.0} if random.random() < 0.3 else {},
        ),
        most_slots={user: random.randint(1, 5) for user in (OTHERS, *USERS) if random.random() < 0.2},
        budgets=world.budgets.budgets,
        pools=kinds,
    )


def _budgets(random: Random) -> ShareRules:
    """Of this world: they stay the same, so that none is passed because it was made smaller."""
    users = {user: _budget(random, (4, 10)) for user in (OTHERS, *USERS) if random.random() < 0.25}
    pools = {name: PoolRules(budget=_budget(random, (15, 40)) if random.random() < 0.4 else None) for name in POOLS}
    return ShareRules(budgets=users, pools=pools)


def _budget(random: Random, amounts: tuple[int, int]) -> Budget:
    return Budget(amount=random.uniform(*amounts), per=random.choice(("day", "week", "total")))


def _calm_rules(world: World) -> ShareRules:
    """The same budgets again every day, so that everything can be paid in the end."""
    budgets = {user: Budget(amount=one.amount, per="day") for user, one in world.budgets.budgets.items()}
    pools = {
        name: PoolRules(budget=Budget(amount=one.budget.amount, per="day") if one.budget else None)
        for name, one in world.budgets.pools.items()
    }
    return ShareRules(most_slots={"ada": 1}, budgets=budgets, pools=pools)


def _calendar(world: World) -> CalendarTurned:
    """The next day, or an hour in which elastic pools have other limits."""
    random, spans = world.random, dict(world.allocator.calendar[0])
    for per in ("day", "week"):
        if per not in spans or random.random() < 0.3:
            spans[per] = Span(world.now, "soon")
    sizes = {}
    for name in POOLS:
        if random.random() < 0.4:
            most = random.randint(1, 5)
            sizes[name] = (random.randint(0, most), most)
    return CalendarTurned(at=world.now, spans=spans, sizes=sizes)
