"""Decide what becomes of a task that ran out of memory: a larger pool, smaller pieces, or the end."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cenote.engine.task_classes import CandidatePools
from cenote.placement.pools import PlacedPool
from cenote.units import format_bytes
from cenote.values import dataclass


@dataclass(frozen=True)
class LargerPool:
    """Try it in a pool with more memory per task."""

    choice: int
    """Position among the choices that follow."""
    reason: str


@dataclass(frozen=True)
class MorePieces:
    """Try it in more pieces, one after the other."""

    pieces: int
    reason: str


@dataclass(frozen=True)
class TooLarge:
    """Nothing is left to try."""

    message: str


def after_out_of_memory(
    pool: PlacedPool,
    following: Sequence[tuple[CandidatePools, Sequence[PlacedPool]]],
    message: str,
    *,
    pieces: int,
    most_pieces: int,
) -> LargerPool | MorePieces | TooLarge:
    """A larger pool if one is allowed, each once; else twice as many pieces; else it failed, with the numbers.

    `following` are the choices that the task has not tried, each with those of its pools that can have workers. It was
    run in so many `pieces`; `most_pieces` is 1 for what cannot be taken in pieces: merges, and stages that need all
    data at once. `message` is the last that was reported.
    """
    held = pool.memory_per_slot
    memory = "memory per task not stated" if held == math.inf else f"{format_bytes(held)} per task"
    reason = f"out of memory in '{pool.name}' ({memory}): {message}"
    for position, (choice, pools) in enumerate(following):
        allowed = choice.own or pool.spec.fallback_when.oom
        if allowed and min((other.memory_per_slot for other in pools), default=0) > held:
            return LargerPool(position, reason)
    if 2 * pieces <= most_pieces:
        return MorePieces(2 * pieces, reason)
    tried = f"even in {pieces} pieces, " if pieces > 1 else ""
    smaller = "it cannot be split" if most_pieces == 1 else "smaller pieces are not tried"
    why = f"{tried}and no larger pool is allowed, and {smaller}"
    return TooLarge(f"out of memory in pool '{pool.name}' ({memory}), {why}: {message}")
