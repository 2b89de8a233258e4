"""Define the rules by which the pools of a service are shared: turns, limits, budgets and hours."""

from __future__ import annotations

from typing import Literal

import msgspec

Scheduling = Literal["priority", "fair_share"]
"""`priority`: higher ones first, and equal ones by fair share. `fair_share`: users by what they have, whatever the
priority; it only orders the tasks of one user."""
BudgetSpan = Literal["day", "week", "month", "total"]
OTHERS = ""
"""In place of a name: for everyone who is not named."""


KEEP_OUTPUT = 30 * 24 * 3600
"""Seconds, where the file of a service says nothing."""


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What may be spent, in the unit of `cost`."""

    amount: float
    per: BudgetSpan = "total"


class ScalingPeriod(msgspec.Struct, frozen=True, kw_only=True):
    """Hours of the week in which an elastic pool has other limits."""

    days: tuple[int, ...]
    """From 0 for Monday to 6 for Sunday: those on which it begins."""
    begins: int
    """Minutes after midnight, as clocks show them."""
    ends: int
    """The same; on the next day where it is not later."""
    min: int
    max: int


class PoolRules(msgspec.Struct, frozen=True, kw_only=True):
    """Rules of one pool, or of every pool that is made from one profile."""

    scheduling: Scheduling = "priority"
    preemption: bool = True
    """Whether instances that may be stopped are, for a higher priority."""
    most_slots: dict[str, int] = {}
    """User → slots that they may have of this pool at once; `OTHERS` for the others."""
    budget: Budget | None = None
    """For its workers. That of a profile is for all pools together that are made from it."""
    periods: tuple[ScalingPeriod, ...] = ()
    """The first that holds counts; outside of all, the pool's own limits."""


class ShareRules(msgspec.Struct, frozen=True, kw_only=True):
    """Who gets how much of a pool that several want, and how long what tasks leave is kept."""

    weights: dict[str, float] = {}
    """User → weight; 1 for those who are not here."""
    group_weights: dict[str, float] = {}
    """The same for groups."""
    most_slots: dict[str, int] = {}
    """User → slots that they may have at once, in all pools together; `OTHERS` for the others."""
    budgets: dict[str, Budget] = {}
    """User → what the slots that they use may cost; `OTHERS` for each of the others."""
    most_pools: dict[str, int] = {}
    """User → open pools of their own; `OTHERS` for each of the others. Like what follows, not for owner and admins."""
    most_workers: dict[str, int] = {}
    """User → workers that these pools may have together."""
    highest_priority: dict[str, int] = {}
    """User → the highest priority that they may give their tasks."""
    strategies: tuple[str, ...] = ("local",)
    """Those that pools may be made of without a profile."""
    pools: dict[str, PoolRules] = {}
    """Pool, or pool profile → its rules."""
    timezone: str = "UTC"
    """Whose clocks and days periods and budgets mean."""
    keep_output: int = KEEP_OUTPUT
    """Seconds that output and results of a task are kept after its end."""
