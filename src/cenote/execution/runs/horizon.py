"""Compare when credentials end with when the work that needs them is predicted to end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from cenote.common.text import clock_time
from cenote.common.values import dataclass
from cenote.execution.credentials.interface import CredentialFacts
from cenote.execution.runs.configured import strategy_of
from cenote.execution.runs.credentials import RunCredentials
from cenote.execution.runs.view.view import RunView
from cenote.planning.forecast.task_history import Seen
from cenote.planning.forecast.time import predicted_ends
from cenote.planning.plan import Plan

_ENOUGH = 3
"""Tasks of a stage that must be done before its end is predicted."""


@dataclass(frozen=True)
class Horizon:
    """When the work ends, as far as that can be predicted; all times are in seconds since the epoch."""

    now: float
    stages: Mapping[str, float] = field(default_factory=dict)
    """Stage → its predicted end."""
    pools: Mapping[str, float] = field(default_factory=dict)
    """Pool → when a worker that starts now reaches its walltime: told where no stage is predicted."""

    @classmethod
    def of(cls, view: RunView) -> Horizon:
        """Of a run that is under way, by its pace so far."""
        left = {stage.id: stage.time_left for stage in view.stages if stage.done - stage.reused >= _ENOUGH}
        return cls(view.clock, {stage: view.clock + seconds for stage, seconds in left.items() if seconds})

    @classmethod
    def of_plan(cls, plan: Plan, history: Mapping[str, Sequence[Seen]], now: float) -> Horizon:
        """Of a run that begins now: by what tasks of earlier runs took, and the walltime of workers."""
        lifetimes = {pool.name: strategy_of(plan, pool).lifetime for pool in plan.placement.pools}
        return cls(
            now,
            {stage: now + seconds for stage, seconds in predicted_ends(plan, history).items()},
            {pool: now + lifetime.seconds for pool, lifetime in lifetimes.items() if lifetime is not None},
        )

    def warnings(self, credentials: RunCredentials) -> list[str]:
        """What to say of those that end too soon and are not renewed by themselves."""
        lasting = [(one, one.facts()) for one in credentials.all if not one.credential.renews]
        found = [self.too_soon(one.type, facts) for one, facts in lasting if facts is not None]
        return [words for words in found if words]

    def too_soon(self, credential: str, facts: CredentialFacts) -> str:
        """That a credential ends before the work does; empty where it does not, has ended, or that cannot be told."""
        if facts.ends is None or facts.ends <= self.now:
            return ""
        begins = f"the credential '{credential}' ends {clock_time(facts.ends, now=self.now)}"
        stage, ends = max(self.stages.items(), key=lambda one: one[1], default=("", 0.0))
        if ends > facts.ends:
            return f"{begins}, {stage} is predicted to end {clock_time(ends, now=self.now)}"
        pool, ends = max(self.pools.items(), key=lambda one: one[1], default=("", 0.0))
        if not self.stages and ends > facts.ends:
            return f"{begins}, workers of pool '{pool}' may run until {clock_time(ends, now=self.now)} (their walltime)"
        return ""
