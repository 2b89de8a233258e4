"""Make the backend and the strategies that a plan asks for, with their settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cenote import errors
from cenote.backends.interface import Backend
from cenote.placement.pools import PlacedPool
from cenote.plan.plan import Plan
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind
from cenote.strategies.interface import Strategy


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


def configured(factory: Any, config: Mapping[str, Any]) -> Any:
    """A backend or strategy with the settings that it knows: `config` holds those of others too."""
    return factory.model_validate({name: value for name, value in config.items() if name in factory.model_fields})
