"""Make the backend, strategies, environments and credentials that a plan asks for, with their settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cenote import errors
from cenote.backends.interface import Backend
from cenote.credentials.interface import Credential
from cenote.environments.current import CurrentEnvironment
from cenote.environments.interface import Environment
from cenote.launch import Launch, LaunchingRun
from cenote.placement.pools import PlacedPool
from cenote.plan.plan import Plan
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind
from cenote.strategies.interface import Strategy
from cenote.worker.process.lifetime import Lifetime


def backend_of(plan: Plan) -> Backend:
    """What runs the tasks."""
    execution = plan.workflow.execution
    factory = registry.load(PluginKind.BACKEND, execution.backend)
    if (package := factory.missing_package()) is not None:
        raise errors.error(
            errors.ENVIRONMENT,
            f"the backend '{execution.backend}' needs a package that is not installed: {package}",
            hint=f"install cenote[{execution.backend}]",
        )
    made: Backend = configured(factory, execution.config)
    return made


def strategy_of(plan: Plan, pool: PlacedPool) -> Strategy:
    """What starts the workers of a pool."""
    factory = registry.load(PluginKind.STRATEGY, pool.strategy)
    made: Strategy = configured(factory, plan.workflow.execution.config_of(pool.name))
    return made


class Software:
    """The environments and credentials of a plan's pools, made once."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._execution = plan, plan.workflow.execution
        self._made: dict[str, Any] = {}

    def environment(self, pool: str) -> Environment:
        """Of a pool; of the run where the name is empty."""
        made: list[Environment] = self._make(PluginKind.ENVIRONMENT, [self._execution.environment_of(pool)])
        return made[0] if made else CurrentEnvironment()

    def credentials(self, pool: str) -> list[Credential]:
        """The same."""
        return self._make(PluginKind.CREDENTIAL, self._execution.credentials_of(pool))

    def _make(self, kind: PluginKind, specs: Iterable[Mapping[str, Any]]) -> list[Any]:  # Any: of the kind's own type
        """One of each; what is only planned is left out: where that matters, the plan was refused."""
        found = []
        for spec in [spec for spec in specs if not registry.is_planned(kind, spec["type"])]:
            key = f"{kind} {sorted(spec.items())}"
            if key not in self._made:
                settings = {name: value for name, value in spec.items() if name != "type"}
                self._made[key] = registry.make(kind, spec["type"], settings)
            found.append(self._made[key])
        return found

    @property
    def all_credentials(self) -> list[Credential]:
        """Of all pools, each once."""
        return [one for one in self._made.values() if isinstance(one, Credential)]

    @property
    def is_current(self) -> bool:
        """Whether all pools run the software of the driver."""
        return all(self.environment(pool.name).is_current for pool in self._plan.placement.pools)

    def describe(self) -> dict[str, dict[str, Any]]:
        """The environment of each pool, for the record."""
        execution, pools = self._execution, [pool.name for pool in self._plan.placement.pools]
        return {pool: {**execution.environment_of(pool), **self.environment(pool).describe()} for pool in sorted(pools)}

    def complete(self, launch: Launch) -> Launch:
        """Add what the launch's pool asks for: its environment, then its credentials."""
        launch = self.environment(launch.pool).complete(launch)
        for credential in self.credentials(launch.pool):
            launch = credential.complete(launch)
        return launch

    def launch(self, pool: PlacedPool, run: LaunchingRun, *, lifetime: Lifetime | None) -> Launch | None:
        """How workers of a pool would be started; None where the backend starts them itself."""
        launch = backend_of(self._plan).launch(run, self._plan.placement.pools, pool, lifetime=lifetime)
        return None if launch is None else self.complete(launch)

    def check(self, now: float) -> None:
        """Raise what is wrong with any of them."""
        problems: list[errors.Problem] = []
        for pool in self._plan.placement.pools:
            problems += self.environment(pool.name).check()
            problems += [problem for one in self.credentials(pool.name) for problem in one.check(now)]
        if problems:
            raise errors.CenoteError(errors.unique(problems))


def configured(factory: Any, config: Mapping[str, Any]) -> Any:
    """A backend or strategy with the settings that it knows: `config` holds those of others too."""
    return factory.model_validate({name: value for name, value in config.items() if name in factory.model_fields})
