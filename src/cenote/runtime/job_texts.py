"""Write down the jobs that a run would submit, without submitting them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from cenote.names import worker_name
from cenote.placement.pools import PlacedPool
from cenote.plan.plan import Plan
from cenote.runs.configured import backend_of, strategy_of
from cenote.runs.folder import RunFolder
from cenote.runtime.worker_jobs import worker_request
from cenote.strategies.interface import JobRequest, RunLocation

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
    backend = backend_of(plan)
    logs = RunFolder(out).debug.absolute()
    home = replace(RunLocation.here(out), process=_PROCESS)
    found = []
    for pool in plan.placement.pools:
        strategy = strategy_of(plan, pool)
        requests: list[JobRequest] = []
        for number in range(1, _first_workers(pool) + 1):
            worker = worker_name(pool.name, number)
            command = backend.example_command(
                plan.placement.pools, pool, worker, log=logs / "logs" / worker, lifetime=strategy.lifetime
            )
            if command is None:
                return []
            request = worker_request(_RUN, pool, worker, command=command, logs=logs)
            requests.append(replace(request, home=home))
        found.append(PoolJobs(pool.name, pool.strategy, len(requests), tuple(strategy.render_all(requests))))
    return found


def _first_workers(pool: PlacedPool) -> int:
    """An elastic pool that begins with none is shown with one."""
    return max(1, pool.elastic.min) if pool.elastic else pool.workers or 0
