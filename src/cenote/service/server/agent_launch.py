"""Say how the agents of a pool are started, and open the session that starts them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cenote.common import errors, software
from cenote.common.values import dataclass
from cenote.engine.messages import AnyEvent
from cenote.execution.backends.interface import JoinedWorkers
from cenote.execution.environments.current import CurrentEnvironment
from cenote.execution.environments.interface import Environment
from cenote.execution.launch import WORKER, Launch, LaunchingRun, Part, Sent, SentFile, words
from cenote.execution.runs.configured import CURRENT, completed
from cenote.execution.worker.process.lifetime import Lifetime
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.service.client.definitions import PoolDefinition
from cenote.service.protocol import DrainAgent, Shutdown
from cenote.service.server.hub import Hub

MODULE = "cenote.service.agent.main"
_PLACE = "$TMPDIR"
"""Where agents make their folders, where their pool does not say it."""


@dataclass(frozen=True)
class AgentDoor:
    """How agents find their service."""

    run: LaunchingRun
    hub: str
    """`HOST:PORT`."""
    orphan: float
    """Seconds that they wait for one that is gone."""


def environment_of(pool: PoolDefinition) -> Environment:
    """The software of a pool's workers. Raises what is wrong with it here and now."""
    if not pool.environment:
        return CurrentEnvironment()
    made: Environment = registry.make_typed(PluginKind.ENVIRONMENT, pool.environment)
    environment = made.beside(Path(pool.folder))
    with registry.blamed(PluginKind.ENVIRONMENT, _name(pool)):
        problems = [*environment.check()]
    if problems:
        raise errors.CenoteError(errors.unique(problems))
    return environment


def agent_launch(pool: PoolDefinition, door: AgentDoor, lifetime: Lifetime | None) -> Launch:
    """How agents of a pool are started, with nothing about the software there."""
    identity = SentFile(door.run.identity)
    options: Sequence[Part] = (
        *("--hub", door.hub, "--identity", Sent(identity.name)),
        *("--name", WORKER, f"--pool={pool.name}", "--slots", str(pool.slots)),
        *("--scratch", str(pool.config.get("scratch") or _PLACE), "--orphan", f"{door.orphan:g}"),
        *(("--walltime", str(lifetime.seconds)) if lifetime else ()),
    )
    return Launch(
        run=door.run,
        pool=pool.name,
        resources=pool.resources,
        module=MODULE,
        arguments=words(*options),
        files=(identity,),
        passed=pool.pass_variables,
    )


def with_software(launch: Launch, pool: PoolDefinition, environment: Environment) -> Launch:
    """The launch as the pool's environment completes it, as it does for workers of runs."""
    here = software.as_word(software.software_here(software.PACKAGES))
    return completed(launch, _name(pool), environment, software=here)


def _name(pool: PoolDefinition) -> str:
    return str(pool.environment.get("type", CURRENT))


# Show the agents of a service as workers that joined, so that strategies start and end them as those of runs.


class JoinedAgents(JoinedWorkers):
    """Agents join and leave; what they run goes past this, straight to the hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._news: list[AnyEvent] = []

    def tell(self, event: AnyEvent) -> None:
        """Something happened to an agent; it comes out of `events`."""
        self._news.append(event)

    def events(self, seconds: float) -> list[AnyEvent]:  # noqa: ARG002  # nobody waits: the service has its own loop
        news, self._news = self._news, []
        return news

    def retire(self, workers: Sequence[str]) -> None:
        for worker in workers:
            self._hub.send(worker, DrainAgent())

    def drop(self, workers: Sequence[str]) -> None:
        for worker in workers:
            self._hub.send(worker, Shutdown())

    def close(self) -> None:
        self.drop(self._hub.workers)
