"""Say how the agents of a pool are started: what they are told, and which software they run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cenote import errors, software
from cenote.client.definitions import PoolDefinition
from cenote.environments.current import CurrentEnvironment
from cenote.environments.interface import Environment
from cenote.launch import WORKER, Launch, LaunchingRun, Part, Sent, SentFile, words
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind
from cenote.runs.configured import CURRENT, completed
from cenote.values import dataclass
from cenote.worker.process.lifetime import Lifetime

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
