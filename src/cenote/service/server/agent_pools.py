"""Start and end the agents of pools, by the strategies that start workers of runs."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from cenote.common import errors
from cenote.common.text import plural, worker_name
from cenote.engine.messages import AnyEvent, WorkerLost
from cenote.execution.environments.interface import Environment
from cenote.execution.launch import Launch, LaunchingRun, RunLocation
from cenote.execution.packing.archive import unheard
from cenote.execution.runs.configured import configured
from cenote.execution.runtime.job_queue import ASK_AGAIN, BackgroundCalls
from cenote.execution.runtime.worker_jobs import WorkerJobs
from cenote.execution.strategies.interface import Strategy, TracedJob
from cenote.execution.worker.process.lifetime import Lifetime
from cenote.execution.worker.process.reach import bracketed
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.plugins.registry import starts_here
from cenote.service.client.definitions import PoolDefinition
from cenote.service.client.home import ServiceHome
from cenote.service.server.agent_launch import AgentDoor, JoinedAgents, agent_launch, environment_of, with_software
from cenote.service.server.hub import Hub

LOOPBACK = "127.0.0.1"
_LOG = logging.getLogger("cenote.service")
T = TypeVar("T")
_FEWEST_HERE, _HERE_PER_CPU = 64, 8
"""Workers that a pool on this machine may always have, and how many for each CPU."""


class AgentPools:
    """The jobs that agents run in."""

    def __init__(
        self, home: ServiceHome, hub: Hub, *, service: str, host: str | None, clock: Callable[[], float], orphan: float
    ) -> None:
        """Without a host that was named, workers are on this machine only."""
        self._host, self._hub, self._orphan, self._clock = host, hub, orphan, clock
        location = RunLocation.here(home.path)
        self._run = LaunchingRun(service, home.agents.absolute(), location)
        self._definitions: dict[str, PoolDefinition] = {}
        self._strategies: dict[str, Strategy] = {}
        """Settings → strategy: pools that are alike share one, which knows of all its workers (their GPUs)."""
        self._awaited: Counter[str] = Counter()
        """Pools → answers that must come before workers are asked for."""
        self._wanted: Counter[str] = Counter()
        """Pools → workers to ask for then."""
        self._joined: dict[str, Collection[str]] = {}
        """Pools of a service that was here before → workers that had joined it."""
        self._untraced: dict[str, float] = {}
        """Pools whose batch system did not say which jobs are there → when it is asked again."""
        self._unusable: dict[str, str] = {}
        """Pools that can have no workers → why."""
        self._agents = JoinedAgents(hub)
        self._calls = BackgroundCalls()
        self._jobs = WorkerJobs(self._agents, {}, clock=clock, calls=self._calls)

    def add(self, pool: PoolDefinition) -> None:
        """Agents of this pool may be started. Raises where its strategy or its environment cannot be used here."""
        strategy = self._strategy(pool)
        if not starts_here(pool.strategy) and self._host is None:
            raise errors.error(
                errors.NETWORK,
                f"pool '{pool.name}' has workers on other machines, and this service listens on this one only",
                hint="start it with `cenote serve --host ADDRESS`, an address that they can reach",
            )
        environment = environment_of(pool)
        self._definitions[pool.name] = pool
        launch = self._launch(pool.name, strategy.lifetime)
        ready = with_software(launch, pool, environment)
        strategy.render(ready, [worker_name(pool.name, 1)])  # what cannot be written down is refused now
        self._unusable.pop(pool.name, None)
        self._jobs.add_pool(pool.name, ready, strategy)
        if not environment.is_current:  # it may take minutes, and jobs wait for it
            then = partial(self._prepared, pool, environment, launch)
            self._await(pool.name, environment, partial(environment.prepare, unheard), then)

    def add_again(self, pool: PoolDefinition, joined: Collection[str]) -> None:
        """A pool of a service that was here before, with its jobs; these workers had joined it. One that cannot be used
        any more gets no workers, and says why."""
        try:
            self.add(pool)
        except errors.CenoteError as problem:
            self._unusable[pool.name] = problem.problems[0].message
        else:
            self._joined[pool.name] = joined
            self._trace(pool.name)

    def _strategy(self, pool: PoolDefinition) -> Strategy:
        made: Strategy = configured(registry.load(PluginKind.STRATEGY, pool.strategy), pool.config)
        return self._strategies.setdefault(f"{pool.strategy} {made.model_dump()}", made)

    # What takes time before workers can be asked for

    def _await(self, pool: str, to: object, call: Callable[[], T], then: Callable[[Future[T]], None]) -> None:
        """Ask for no workers of this pool until the call has come back."""
        self._awaited[pool] += 1
        self._calls.send(to, call, partial(self._came_back, pool, then))

    def _came_back(self, pool: str, then: Callable[[Future[T]], None], answer: Future[T]) -> None:
        self._awaited[pool] -= 1
        then(answer)
        if not self._awaited[pool] and pool not in self._untraced:
            self.start_workers(pool, self._wanted.pop(pool, 0))

    def _prepared(self, pool: PoolDefinition, environment: Environment, launch: Launch, done: Future[None]) -> None:
        try:
            done.result()
            self._jobs.relaunch(pool.name, with_software(launch, pool, environment))
        except errors.CenoteError as problem:
            self._unusable[pool.name] = problem.problems[0].message

    def _trace(self, pool: str) -> None:
        strategy = self._strategy(self._definitions[pool])
        self._await(pool, strategy, partial(strategy.trace, self._run.id), partial(self._traced, pool))

    def _traced(self, pool: str, answer: Future[list[TracedJob]]) -> None:
        """Without an answer nothing is asked for: workers may be there, and their names are taken."""
        try:
            self._jobs.take_over(pool, answer.result(), self._joined[pool])
            self._untraced.pop(pool, None)
        except errors.CenoteError as problem:
            if pool not in self._untraced:
                _LOG.warning("pool %s: its jobs are not known yet: %s", pool, problem.problems[0].message)
            self._untraced[pool] = self._clock() + ASK_AGAIN

    def refuse_too_many(self, pool: PoolDefinition) -> None:
        """Raises where a pool asks for more processes on this machine than it could bear."""
        most, cpus = pool.elastic.max if pool.elastic else pool.workers or 0, os.cpu_count() or 1
        if starts_here(pool.strategy) and most > (bearable := max(_FEWEST_HERE, _HERE_PER_CPU * cpus)):
            raise errors.error(
                errors.BAD_VALUE,
                f"pool '{pool.name}' asks for {most} workers on this machine, which has {plural(cpus, 'CPU')}",
                hint=f"ask for at most {bearable}; a worker may have several slots",
            )

    def _launch(self, pool: str, lifetime: Lifetime | None) -> Launch:
        door = AgentDoor(self._run, f"{bracketed(self._host or LOOPBACK)}:{self._hub.port}", self._orphan)
        return agent_launch(self._definitions[pool], door, lifetime)

    def tell(self, event: AnyEvent) -> None:
        """Something happened to an agent."""
        self._agents.tell(event)

    def events(self) -> list[AnyEvent]:
        """What became of agents and their jobs."""
        for pool in [pool for pool, at in self._untraced.items() if at <= self._clock() and not self._awaited[pool]]:
            self._trace(pool)
        return self._jobs.events(0.0)

    def start_workers(self, pool: str, count: int) -> None:
        """Ask for agents."""
        if (reason := self._unusable.get(pool)) is not None:
            for number in range(1, count + 1):
                name = worker_name(pool, number)
                self.tell(WorkerLost(at=self._clock(), worker=name, pool=pool, reason=reason, cause="refused"))
        elif self._awaited[pool] or pool in self._untraced:
            self._wanted[pool] += count
        elif count:
            self._jobs.start_workers(pool, count)

    def stop_workers(self, pool: str, workers: tuple[str, ...], reason: str) -> None:
        """Let agents go once what they run is over."""
        if pool not in self._unusable:
            self._jobs.stop_workers(pool, workers, reason)

    def end_workers(self, pool: str, workers: tuple[str, ...], reason: str) -> None:
        """End agents with what they run. One whose job ended while no service was here has none any more, and nothing
        else would say that it is lost."""
        for worker in workers:
            if self._jobs.pool_of(worker) is None:
                self.tell(WorkerLost(at=self._clock(), worker=worker, pool=pool, reason=reason, cause="unknown"))
        if pool not in self._unusable:
            self._jobs.end_workers(pool, workers, reason)

    def close(self) -> None:
        """End all agents."""
        self._jobs.close()
