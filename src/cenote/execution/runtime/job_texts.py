"""Write down the jobs that a run would submit, without submitting them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cenote.common.text import worker_name
from cenote.common.values import dataclass
from cenote.execution.launch import LaunchingRun, RunLocation
from cenote.execution.runs.configured import WorkerSetup, strategy_of
from cenote.execution.runs.folder import RunFolder
from cenote.planning.plan import Plan

_RUN, _PROCESS = "RUN", "PROCESS"
"""Stand for the id that a run gets when it starts, and for its driver."""


@dataclass(frozen=True)
class PoolJobs:
    """What a pool submits when it first asks for workers."""

    pool: str
    strategy: str
    workers: int
    texts: tuple[str, ...]


def job_texts(plan: Plan, out: Path) -> list[PoolJobs]:
    """For every pool; none where the backend starts its workers itself."""
    run = LaunchingRun(_RUN, RunFolder(out).debug.absolute(), location=replace(RunLocation.here(out), process=_PROCESS))
    setup, found = WorkerSetup(plan), []
    for pool in plan.placement.pools:
        strategy = strategy_of(plan, pool)
        launch = setup.launch(pool, run, lifetime=strategy.lifetime)
        if launch is None:
            return []
        first = max(1, pool.elastic.min) if pool.elastic else pool.workers or 0  # one, where it begins with none
        workers = [worker_name(pool.name, number) for number in range(1, first + 1)]
        found.append(PoolJobs(pool.name, pool.strategy, len(workers), tuple(strategy.render(launch, workers))))
    return found
