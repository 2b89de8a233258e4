"""Make the backend, strategies, environments and credentials that a plan asks for, with their settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from cenote.common import errors, software
from cenote.common.credential_files.places import LEADING_THERE
from cenote.common.text import can_name_variables
from cenote.execution.backends.interface import Backend
from cenote.execution.environments.current import CurrentEnvironment
from cenote.execution.environments.interface import Environment
from cenote.execution.launch import Launch, LaunchingRun
from cenote.execution.packing.archive import Progress
from cenote.execution.runs.credentials import RunCredentials
from cenote.execution.strategies.interface import Strategy
from cenote.execution.worker.process.lifetime import Lifetime
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.plugins.registry import runs_here
from cenote.language.workflow import Workflow
from cenote.planning.placement.pools import PlacedPool
from cenote.planning.plan import Plan

CURRENT = "current"
"""The environment of workers where the workflow names none."""


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


class PoolEnvironments:
    """The environments of pools, made once: those that workers really get.

    A backend that runs everything here has one environment for all pools: the run's.
    """

    def __init__(self, workflow: Workflow, pools: Iterable[str]) -> None:
        self._workflow, self._execution, self._pools = workflow, workflow.execution, tuple(pools)
        self._one_for_all = runs_here(self._execution.backend)
        self._made: dict[str, Environment] = {}

    def environment(self, pool: str) -> Environment:
        """Of a pool; of the run where the name is empty."""
        _, environment = self._environment(pool)
        return environment

    def _environment(self, pool: str) -> tuple[str, Environment]:
        spec = self._execution.environment_of("" if self._one_for_all else pool)
        if registry.is_planned(PluginKind.ENVIRONMENT, spec["type"]):  # where that matters, the plan was refused
            return CURRENT, CurrentEnvironment()
        key = repr(sorted(spec.items()))
        if key not in self._made:
            made: Environment = registry.make_typed(PluginKind.ENVIRONMENT, spec)
            self._made[key] = made.beside(self._workflow.folder)
        return spec["type"], self._made[key]

    @property
    def needs_workers(self) -> bool:
        """Whether tasks of some pool need other software than that of the driver's own process."""
        return any(not self.environment(pool).is_current for pool in self._pools)

    def prepare(self, progress: Progress) -> None:
        """Make ready what the workers' environments need, each once."""
        prepared: list[Environment] = []
        for pool in self._pools:
            name, environment = self._environment(pool)
            if not any(environment is one for one in prepared):
                prepared.append(environment)
                with registry.blamed(PluginKind.ENVIRONMENT, name):
                    environment.prepare(_about(name, progress))

    def describe(self) -> dict[str, dict[str, Any]]:
        """The environment of each pool, for the record."""
        found = {}
        for pool in sorted(self._pools):
            name, environment = self._environment(pool)
            with registry.blamed(PluginKind.ENVIRONMENT, name):
                found[pool] = {"type": name, **_plain(environment.describe())}
        return found

    def environment_problems(self) -> list[errors.Problem]:
        """What is wrong with any of them."""
        problems: list[errors.Problem] = []
        for pool in self._pools:
            name, environment = self._environment(pool)
            with registry.blamed(PluginKind.ENVIRONMENT, name):
                problems += [self._placed(pool, problem) for problem in environment.check()]
        return list(errors.unique(problems))

    def _placed(self, pool: str, problem: errors.Problem) -> errors.Problem:
        """With where the workflow names the environment, if the problem is not in a file of its own."""
        own = ("execution", "pools", pool, "environment")
        is_own = own in self._workflow.origins and not self._one_for_all
        place = problem.place or self._workflow.place(*(own if is_own else ("execution", "environment")))
        return replace(problem, place=place)


class WorkerSetup(PoolEnvironments):
    """The environments and credentials of a plan's pools."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.workflow, [pool.name for pool in plan.placement.pools])
        self._plan = plan
        self.credentials = RunCredentials(plan.workflow)
        packages = (*software.PACKAGES, *registry.load(PluginKind.BACKEND, self._execution.backend).packages)
        self._software = software.as_word(software.software_here(packages))

    def complete(self, launch: Launch) -> Launch:
        """Add what the launch's pool asks for, its environment, and the driver's software for workers to compare."""
        name, environment = self._environment(launch.pool)
        return completed(replace(launch, passed=self._passed(launch.pool)), name, environment, software=self._software)

    def _passed(self, pool: str) -> tuple[str, ...]:
        """Variables of this process that workers of a pool get. Where everything runs here, tasks read credentials
        where the driver does, and find them as it does: those that the workflow names, or whatever is there."""
        if not self._one_for_all:
            return self._execution.pass_variables_of(pool)
        named = [name for one in self.credentials.of("") for name in one.variables()]
        found = named if self._execution.credentials else LEADING_THERE
        return (*self._execution.pass_variables, *filter(can_name_variables, found))

    def launch(self, pool: PlacedPool, run: LaunchingRun, *, lifetime: Lifetime | None) -> Launch | None:
        """How workers of a pool would be started; None where the backend starts them itself."""
        launch = backend_of(self._plan).launch(run, self._plan.placement.pools, pool, lifetime=lifetime)
        return None if launch is None else self.complete(launch)

    def check(self, now: float) -> None:
        """Raise what is wrong with any of them."""
        problems = [*self.environment_problems(), *self.credentials.problems(now)]
        if problems:
            raise errors.CenoteError(errors.unique(problems))


def completed(launch: Launch, name: str, environment: Environment, *, software: str) -> Launch:
    """A launch with what the environment of its pool adds, and the software that workers compare theirs with."""
    with registry.blamed(PluginKind.ENVIRONMENT, name):
        launch = _launch(environment.complete(launch))
    names = [file.name for file in launch.files]
    for one in names:
        if names.count(one) > 1:
            raise errors.error(
                errors.BAD_VALUE,
                f"two different files named '{one}' would be sent to the workers of pool '{launch.pool}'",
                hint="give one of them another name",
            )
    return replace(launch, software=software)


def _launch(made: object) -> Launch:
    if not isinstance(made, Launch):
        raise TypeError(f"`complete` must return a Launch, not {type(made).__name__}")
    return made


def _about(name: str, progress: Progress) -> Progress:
    """Says which environment is meant."""
    return lambda step: progress(replace(step, what=f"{name}: {step.what}"))


def _plain(described: Mapping[str, Any]) -> dict[str, Any]:
    """What a plugin says of itself, which must be plain data."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(dict(described)))
    return plain


def configured(factory: Any, config: Mapping[str, Any]) -> Any:
    """A backend or strategy with the settings that it knows: `config` holds those of others too."""
    return factory.model_validate({name: value for name, value in config.items() if name in factory.model_fields})
