"""Describe `service`, the rules in the file of a service, and the file of one task for its queue."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import Field

from cenote.common.values import dataclass
from cenote.language.execution import Amounts
from cenote.language.plugins.quantities import Converted, Seconds
from cenote.language.schema.forms import WRITTEN, Amount, Count, Factor, OneOrMany, OrNothing, PlainNames, Positive

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)")


def _days(value: Any) -> tuple[int, ...]:  # Any: whatever the YAML holds
    """`mon-fri`, `sat`, `daily`, or a list of these → numbers of days."""
    found: set[int] = set()
    for word in value if isinstance(value, list) else [value]:
        first, dash, last = ("mon-sun" if word == "daily" else str(word).lower()).partition("-")
        if first not in DAYS or (dash and last not in DAYS):
            raise ValueError(f"should be days such as mon-fri, sat or daily, not {word!r}")
        begin, end = DAYS.index(first), DAYS.index(last if dash else first)
        found |= {day % 7 for day in range(begin, end + 1 if end >= begin else end + 8)}
    return tuple(sorted(found))


def _minutes(value: Any) -> int:  # Any: whatever the YAML holds
    """`08:30` → minutes after midnight."""
    match = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    minutes = int(match[1]) * 60 + int(match[2]) if match else 24 * 60 + 1
    if minutes > 24 * 60:
        raise ValueError(f"should be a time from 00:00 to 24:00, not {value!r}")
    return minutes


Clock = Annotated[int, Converted(_minutes, "clock", lambda _: {"type": "string"})]
Days = Annotated[tuple[int, ...], Converted(_days, "days", lambda _: {"type": ["string", "array"]})]


BudgetSpan = Literal["day", "week", "month", "total"]
OTHERS = "others"
"""In place of a user: everyone who is not named."""


@dataclass(frozen=True)
class Budget:
    """What may be spent, in the unit of `cost`."""

    __pydantic_config__ = WRITTEN

    amount: Factor
    """How much."""
    per: BudgetSpan = "total"
    """In which time; days and weeks begin at midnight, weeks on Monday."""


@dataclass(frozen=True)
class ScalingPeriod:
    """Hours of the week in which an elastic pool has other limits."""

    __pydantic_config__ = WRITTEN

    begins: Annotated[Clock, Field(alias="from")]
    """`08:00`, as clocks of `timezone` show it."""
    ends: Annotated[Clock, Field(alias="to")]
    """`18:00`; a time that is not later than `from` is on the next day."""
    max: Positive
    """Largest number of workers."""
    min: Count = 0
    """Smallest number of workers."""
    days: Days = (0, 1, 2, 3, 4, 5, 6)
    """Those on which it begins: `mon-fri`, `[sat, sun]`, `daily`."""

    def __post_init__(self) -> None:
        if self.min > self.max:
            raise ValueError(f"min ({self.min}) should not be more than max ({self.max})")


@dataclass(frozen=True)
class PoolRules:
    """Rules of a pool, or of every pool that is made from a profile."""

    __pydantic_config__ = WRITTEN

    scheduling: Literal["priority", "fair_share"] = "priority"
    """`priority`: higher ones first, equal ones by fair share. `fair_share`: users by what they have."""
    preemption: bool | None = None
    """Whether instances that are `preemptible` are stopped for a higher priority; by default they are."""
    most_slots: Annotated[Mapping[str, Count], OrNothing()] = field(default_factory=dict)
    """User → slots of this pool at once; `others` for everyone else."""
    budget: Budget | None = None
    """For its workers. That of a profile is for all pools together that are made from it."""
    periods: Annotated[tuple[ScalingPeriod, ...], OneOrMany()] = ()
    """Hours with other limits; the first that holds counts."""

    def __post_init__(self) -> None:
        if self.scheduling == "fair_share" and self.preemption:
            raise ValueError("`preemption` is for `scheduling: priority`")

    @property
    def preempts(self) -> bool:
        """Whether instances are stopped for a higher priority."""
        return self.scheduling == "priority" and self.preemption is not False


@dataclass(frozen=True)
class Shares:
    """Weights of fair share; 1 for those who are not named."""

    __pydantic_config__ = WRITTEN

    users: Annotated[Mapping[str, Amount], OrNothing()] = field(default_factory=dict)
    """User → weight."""
    groups: Annotated[Mapping[str, Amount], OrNothing()] = field(default_factory=dict)
    """Group → weight: groups share first, then the users of each."""


@dataclass(frozen=True)
class ShareRules:
    """How the pools of a service are shared. Every rule is a field of these classes: the file, the log and what
    obeys it have the same value."""

    __pydantic_config__ = WRITTEN

    timezone: str = "UTC"
    """Whose clocks periods and budgets mean: `Europe/Zurich`."""
    keep_output: Seconds = 30 * 24 * 3600
    """How long output and results of a task are kept after its end: `7d`. By default 30 days."""
    shares: Annotated[Shares, OrNothing()] = field(default_factory=Shares)
    """Weights of fair share."""
    most_slots: Annotated[Mapping[str, Count], OrNothing()] = field(default_factory=dict)
    """User → slots at once in all pools together; `others` for everyone else."""
    budgets: Annotated[Mapping[str, Budget], OrNothing()] = field(default_factory=dict)
    """User → what the slots that they use may cost; `others` for each of the others."""
    most_pools: Annotated[Mapping[str, Count], OrNothing()] = field(default_factory=dict)
    """User with a token → open pools of their own; `others` for each of the others."""
    most_workers: Annotated[Mapping[str, Count], OrNothing()] = field(default_factory=dict)
    """User with a token → workers that these pools may have together; `others` for each of the others."""
    highest_priority: Annotated[Mapping[str, Count], OrNothing()] = field(default_factory=dict)
    """User with a token → the highest priority of their tasks; `others` for each of the others."""
    strategies: PlainNames = ("local",)
    """Strategies of which users with a token may make pools without a profile; `[]` for none."""
    pools: Annotated[Mapping[str, PoolRules], OrNothing()] = field(default_factory=dict)
    """Pool, or pool profile → its rules."""


@dataclass(frozen=True)
class TaskFileResources(Amounts):
    """What one instance needs, and where it waits."""

    resource_pool: str | None = None
    """The pool; without it, the default pool for CPU or GPU work."""
    slots: Count | None = None
    """Another spelling of `gpus`, for those who come from Determined."""

    def __post_init__(self) -> None:
        if self.slots is not None and self.gpus is not None and self.slots != self.gpus:
            raise ValueError("`slots` and `gpus` mean the same here: write one of them")


def _constants(value: Any) -> Any:  # Any: whatever the YAML holds
    if not isinstance(value, dict):
        return value
    for name, one in value.items():
        if not isinstance(one, str | int | float) or isinstance(one, bool):
            raise ValueError(f"constant '{name}' should be text or a number")
    return {name: str(one) for name, one in value.items()}


@dataclass(frozen=True, kw_only=True)
class TaskFileTerms:
    """What the file of a task says in the words of the queue: fields of the same name are in `TaskTerms`."""

    name: str
    """Its name."""
    command: str
    """What `/bin/sh` runs."""
    instances: Positive = 1
    """How often."""
    constants: Annotated[dict[str, str], Converted(_constants, "constants")] = field(default_factory=dict)
    """Environment variables of every instance."""
    results_period: Seconds | None = None
    """Time between two collections while it runs."""
    priority: int = 0
    """Higher ones come first."""
    preemptible: bool = False
    """Whether its instances may be stopped for a higher priority."""
    retries: Count = 0
    """How often an instance is tried again that failed by itself."""
    timeout: Seconds | None = None
    """How long an instance may take."""
    queue_timeout: Seconds | None = None
    """How long it may wait without any slot."""
    group: str = ""
    """Whose share it uses."""


@dataclass(frozen=True, kw_only=True)
class TaskFileModel(TaskFileTerms):
    """One task for the queue of a service."""

    __pydantic_config__ = WRITTEN

    resources: Annotated[TaskFileResources, OrNothing()] = field(default_factory=TaskFileResources)
    """What one instance needs, and where it waits."""
    files: PlainNames = ()
    """Files that every instance finds in its folder."""
    results: PlainNames = ()
    """Patterns of files that are collected from there."""
    after: PlainNames = ()
    """Ids, or names, of tasks that must succeed first."""
