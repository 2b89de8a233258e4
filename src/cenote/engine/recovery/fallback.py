"""Hold the rules by which tasks leave a pool that has no worker for them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cenote.engine.task_classes import CandidatePools
from cenote.engine.workers import PoolWorkers
from cenote.language.execution import FallbackWhen, PoolTerms, RunLimits
from cenote.placement.pools import PlacedPool
from cenote.units import format_seconds
from cenote.values import dataclass


@dataclass(frozen=True)
class LeavePool:
    """Tasks are not to wait here any longer."""

    reason: str
    waited: float = 0.0
    last_lines: str = ""
    """What a worker wrote that did not come, or did not stay."""
    refused: bool = False
    """Whether the batch system would not have any of the workers."""


def reason_to_leave(
    pools: Sequence[PoolWorkers], following: Sequence[CandidatePools], *, now: float, limits: RunLimits
) -> LeavePool | None:
    """Whether tasks that wait for these pools leave now: for the choices that follow, or, without any, for good.

    They leave only when every one of the pools gives a reason.
    """
    found = [_leave_one(pool, following, now=now, limits=limits) for pool in pools]
    reasons = [leave for leave in found if leave is not None]
    if not found or len(reasons) < len(found):
        return None
    return LeavePool(
        reason="; ".join(leave.reason for leave in reasons),
        waited=max(leave.waited for leave in reasons),
        last_lines="\n".join(leave.last_lines for leave in reasons if leave.last_lines),
        refused=all(leave.refused for leave in reasons),
    )


def time_to_leave(pool: PoolTerms, following: Sequence[CandidatePools], limits: RunLimits) -> tuple[float, str]:
    """Seconds without a worker after which tasks leave, and the setting that says so; infinite without one."""
    found: list[tuple[float, str]] = [(math.inf, "")]
    if pool.queue_timeout is not None:
        found.append((pool.queue_timeout, "queue_timeout"))
    if following:
        if (given := pool.fallback_when.no_worker_for) is not None:
            found.append((given, "no_worker_for"))
        elif any(choice.own for choice in following) or pool.fallback_when == FallbackWhen():
            found.append((limits.no_worker_for, "limits.no_worker_for"))
    return min(found)


def _leave_one(
    pool: PoolWorkers, following: Sequence[CandidatePools], *, now: float, limits: RunLimits
) -> LeavePool | None:
    name = pool.pool.name
    waited = 0.0 if pool.wanting_since is None else max(0.0, now - pool.wanting_since)
    if pool.failed is not None:
        return LeavePool(f"pool '{name}' failed: {pool.failed}", waited, pool.last_lines, pool.refused is not None)
    if pool.observed:
        return None
    if not pool.may_have_workers and (following or pool.pool.spec.queue_timeout is None):
        return LeavePool(f"pool '{name}' has no workers and cannot get any", waited)
    limit, setting = time_to_leave(pool.pool.spec, following, limits)
    if pool.wanting_since is None or waited < limit:
        return None
    report = f"; latest report: {pool.last_word}" if pool.last_word else ""
    rule = f"{setting}: {format_seconds(limit)}"
    return LeavePool(
        f"pool '{name}' had no worker for {format_seconds(waited)} ({rule}){report}", waited, pool.last_lines
    )


def leaves_after_preemptions(pool: PlacedPool, preemptions: int) -> bool:
    """Whether a task that was preempted so often in this pool goes elsewhere."""
    limit = pool.spec.fallback_when.preempted
    return limit is not None and preemptions >= limit
