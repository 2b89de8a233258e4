"""This file makes up a run from a seed: a plan, its pools, and everything that goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from cenote.engine.options import EngineOptions
from cenote.plan.plan import Plan, ScopeName
from cenote.testing.plans import SegmentSketch, a_plan

POOLS = ("default", "high_memory", "gpu")


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

    @property
    def spoiled(self) -> frozenset[int]:
        """Tasks that never succeed."""
        return self.doomed | self.killers

    def after_mending(self) -> Scenario:
        """The same run with nothing wrong in it any more."""
        return replace(self, doomed=frozenset(), killers=frozenset(), cancel_after=None, crashes=(), mended=False)


def a_scenario(seed: int) -> Scenario:
    """The same seed gives the same run, on any machine."""
    random = Random(seed)
    plan = _a_plan(random)
    tasks = range(len(plan.tasks))
    trouble = random.choice((0.0, 0.0, 0.1, 0.3))
    doomed = frozenset(task for task in tasks if random.random() < trouble / 2)
    killers = frozenset(task for task in tasks if task not in doomed and random.random() < trouble / 10)
    return Scenario(
        plan=plan,
        options=EngineOptions(
            keep_going=random.random() < 0.6,
            lost_limit=random.randint(0, 3),
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


def _a_plan(random: Random) -> Plan:
    names = [f"Segment{number}" for number in range(random.randint(1, 5))]
    segments = [_a_sketch(random, name, names[:index]) for index, name in enumerate(names)]
    return a_plan(
        partitions=random.choice((0, 1, 2, 3, 5, 9, 16)),
        datasets=random.randint(1, 3),
        segments=segments,
        pools=dict.fromkeys(POOLS, 1),
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
