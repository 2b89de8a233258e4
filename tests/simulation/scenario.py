"""Make up a run from a seed: a plan, its pools, and everything that goes wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from builders.plans import SegmentSketch, a_plan, a_pool, tasks_in
from cenote.engine.task_classes import EngineOptions, TaskClasses
from cenote.language.execution import Elastic, FallbackWhen, RunLimits
from cenote.planning.placement.pools import PlacedPool
from cenote.planning.plan import MERGE, Plan, ScopeName

POOLS = ("default", "high_memory", "gpu")
MEMORY = {"default": 4, "gpu": 8, "high_memory": 16}
"""Of a task, by pool; a task is never so hungry that a sixteenth of it would not fit anywhere."""


@dataclass(frozen=True)
class Weather:
    """What befalls the workers that the engine asks for, where it manages them."""

    barren: frozenset[str] = frozenset()
    """Pools whose workers never come. Then everything else is calm, so that what is left undone is known beforehand."""
    queue_time: float = 5.0
    """The longest time from asking for a worker until it joins."""
    refusal_rate: float = 0.0
    """Of a request that the batch system does not take."""
    preemption_rate: float = 0.0
    """Of a lost worker, that it was preempted."""
    walltime: float | None = None
    """How long a worker stays; None: as long as it is wanted."""
    freeze_rate: float = 0.0
    """Of a worker that takes a task, that it does not answer for a while, perhaps for longer than its patience."""
    hungry: Mapping[int, int] = field(default_factory=dict)
    """Task → the memory it needs; a partition in pieces needs so much less."""


@dataclass(frozen=True)
class Scenario:
    """One made-up run. Rates are chances between 0 and 1, times are seconds of simulated time."""

    plan: Plan
    options: EngineOptions
    workers: Mapping[str, tuple[int, ...]]
    """Pool → the slots of each of its workers."""
    doomed: frozenset[int]
    """Tasks that fail whenever they run."""
    killers: frozenset[int]
    """Tasks that take their worker down whenever they run."""
    flaky: Mapping[int, int]
    """Task → how often it fails before it succeeds: never more than its retries."""
    numbered: bool
    """Whether events say which attempt they are about. If not, events of one task arrive in order, failures once."""
    loss_rate: float
    """Of a worker, each time that a task starts there."""
    echo_rate: float
    """Of an event to arrive twice."""
    lateness: float
    """The longest delay of an event."""
    cancel_after: float | None
    """When somebody cancels the run, which is then resumed; None: never."""
    impatient: bool
    """Whether they press Ctrl-C twice."""
    crashes: tuple[int, ...]
    """After so many events the driver dies, and the run is resumed."""
    mended: bool
    """Whether somebody mends what is wrong with spoiled tasks afterwards, and resumes the run."""
    unschedulable: frozenset[int] = frozenset()
    """Tasks all of whose pools are barren."""
    weather: Weather = Weather()

    @property
    def spoiled(self) -> frozenset[int]:
        """Tasks that never succeed."""
        return self.doomed | self.killers | self.unschedulable

    def after_mending(self) -> Scenario:
        """The same run with nothing wrong in it any more."""
        nothing: frozenset[int] = frozenset()
        calm = replace(self, doomed=nothing, killers=nothing, unschedulable=nothing, cancel_after=None, crashes=())
        return replace(calm, mended=False, weather=replace(self.weather, barren=frozenset()))


def a_scenario(seed: int) -> Scenario:
    """The same seed gives the same run, on any machine."""
    random = Random(seed)
    if seed % 2:
        return _with_pools(random)
    plan = _a_plan(random, dict.fromkeys(POOLS, 1))
    tasks = range(len(plan.tasks))
    trouble = random.choice((0.0, 0.0, 0.1, 0.3))
    doomed = frozenset(task for task in tasks if random.random() < trouble / 2)
    killers = frozenset(task for task in tasks if task not in doomed and random.random() < trouble / 10)
    return Scenario(
        plan=plan,
        options=EngineOptions(
            keep_going=random.random() < 0.6,
            limits=RunLimits(lost=random.randint(0, 3)),
            window_per_slot=random.choice((0.5, 1.0, 1.5, 2.0, 4.0)),
        ),
        workers={pool: tuple(random.randint(1, 4) for _ in range(random.randint(1, 3))) for pool in POOLS},
        doomed=doomed,
        killers=killers,
        flaky=_flaky_tasks(random, plan, doomed | killers),
        numbered=random.random() < 0.7,
        loss_rate=random.choice((0.0, 0.0, 0.05, 0.3)),
        echo_rate=random.choice((0.0, 0.1, 0.5)),
        lateness=random.choice((0.0, 1.0, 10.0)),
        cancel_after=random.uniform(0, 30) if random.random() < 0.2 else None,
        impatient=random.random() < 0.3,
        crashes=tuple(random.randint(1, 60) for _ in range(random.choice((0, 0, 0, 1, 3)))),
        mended=random.random() < 0.5,
    )


def _with_pools(random: Random) -> Scenario:
    """A run whose workers the engine manages: pools of all kinds, and a batch system with moods."""
    barren = frozenset(name for name in POOLS if random.random() < 0.4) if random.random() < 0.3 else frozenset[str]()
    plan = _a_plan(random, [_some_pool(random, name, barren=name in barren) for name in POOLS])
    stormy = not barren
    doomed = frozenset(task for task in range(len(plan.tasks)) if random.random() < random.choice((0.0, 0.0, 0.1)))
    return Scenario(
        plan=plan,
        options=EngineOptions(
            keep_going=random.random() < 0.6,
            window_per_slot=random.choice((0.5, 1.0, 2.0)),
            manages_workers=True,
            limits=RunLimits(no_worker_for=random.choice((20, 60))),
        ),
        workers={},
        doomed=doomed,
        killers=frozenset(),
        flaky=_flaky_tasks(random, plan, doomed),
        numbered=True,
        loss_rate=random.choice((0.0, 0.05, 0.2)) if stormy else 0.0,
        echo_rate=random.choice((0.0, 0.1)),
        lateness=random.choice((0.0, 0.0, 1.0)),
        cancel_after=random.uniform(0, 60) if random.random() < 0.1 else None,
        impatient=random.random() < 0.3,
        crashes=tuple(random.randint(1, 60) for _ in range(random.choice((0, 0, 0, 1)))),
        mended=random.random() < 0.3 and all(pool.most_workers for pool in plan.placement.pools),
        unschedulable=_unschedulable_tasks(plan, barren),
        weather=Weather(
            barren=barren,
            queue_time=random.choice((0.0, 5.0, 60.0)) if stormy else 5.0,
            refusal_rate=random.choice((0.0, 0.1)) if stormy else 0.0,
            preemption_rate=random.choice((0.0, 0.5)),
            walltime=random.choice((None, None, 15.0, 60.0)) if stormy else None,
            hungry=_hungry_tasks(random, plan) if stormy and random.random() < 0.4 else {},
            freeze_rate=random.choice((0.0, 0.0, 0.1)) if stormy else 0.0,
        ),
    )


def _some_pool(random: Random, name: str, *, barren: bool) -> PlacedPool:
    slots, fewest = random.randint(1, 3), random.randint(0, 2)
    elastic = Elastic(
        min=fewest,
        max=fewest + random.randint(1, 4),
        idle_slots=random.randint(0, 2),
        idle_time=random.choice((0, 5, 30)),
        resize_period=random.choice((0, 1, 10)),
        resize_factor=random.choice((0.3, 1.0)),
    )
    when = FallbackWhen(
        no_worker_for=random.choice((None, 20, 40)),
        preempted=random.choice((None, 1, 2)),
        oom=random.random() < 0.5,
    )
    return a_pool(
        name,
        workers=random.randint(0 if barren else 1, 3),
        elastic=elastic if random.random() < 0.6 else None,
        slots=slots,
        memory=MEMORY[name] * slots,
        fallback=random.sample([other for other in POOLS if other != name], random.choice((0, 0, 1, 2))),
        fallback_when=when if random.random() < 0.6 else FallbackWhen(),
        queue_timeout=random.choice((30, 100)) if barren else None,
    )


def _unschedulable_tasks(plan: Plan, barren: frozenset[str]) -> frozenset[int]:
    pools: dict[tuple[int, bool], set[str]] = {}
    for one in TaskClasses(plan):
        pools.setdefault((one.segment, one.merges), set()).update(one.choice.pools)
    dead = [kind for kind, names in pools.items() if barren.issuperset(names)]
    kinds = zip(plan.tasks.segment.tolist(), plan.tasks.kind == MERGE, strict=True)
    return frozenset(task for task, (segment, merge) in enumerate(kinds) if (segment, bool(merge)) in dead)


def _hungry_tasks(random: Random, plan: Plan) -> dict[int, int]:
    """Only tasks that can be taken in pieces."""
    return {
        task.number: random.choice((6, 12, 30))
        for task in tasks_in(plan.tasks)
        if task.kind == "run" and plan.segments[task.segment].scope == "partition" and random.random() < 0.2
    }


def _a_plan(random: Random, pools: Mapping[str, int] | Sequence[PlacedPool]) -> Plan:
    names = [f"Segment{number}" for number in range(random.randint(1, 5))]
    segments = [_a_sketch(random, name, names[:index]) for index, name in enumerate(names)]
    return a_plan(
        partitions=random.choice((0, 1, 2, 3, 5, 9, 16)),
        datasets=random.randint(1, 3),
        segments=segments,
        pools=pools,
        merge_pool=random.choice(POOLS),
        fan_in=random.randint(2, 4),
    )


def _a_sketch(random: Random, name: str, earlier: list[str]) -> SegmentSketch:
    scope: ScopeName = random.choices(("partition", "dataset", "run"), (8, 1, 1))[0]
    return SegmentSketch(
        name=name,
        needs=tuple(other for other in earlier if random.random() < 0.5),
        pools=tuple(random.sample(POOLS, random.randint(1, 3))),
        shared=random.random() < 0.5,
        scope=scope,
        product=random.random() < 0.6,
        skim=random.random() < 0.2,
        retries=random.choice((0, 0, 1, 3)),
    )


def _flaky_tasks(random: Random, plan: Plan, spoiled: frozenset[int]) -> dict[int, int]:
    flaky = {}
    for task in range(len(plan.tasks)):
        retries = plan.segments[int(plan.tasks.segment[task])].steps[0].retries
        if task not in spoiled and retries and random.random() < 0.2:
            flaky[task] = random.randint(1, retries)
    return flaky
