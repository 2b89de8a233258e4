"""Decide what becomes of a task that ran out of memory: a larger pool, smaller pieces, or the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cenote.engine.task_classes import CandidatePools
from cenote.placement.pools import PlacedPool
from cenote.units import format_bytes


@dataclass(frozen=True)
class Larger:
    """Try it in a pool with more memory per task."""

    choice: int
    """Position among the choices that follow."""
    reason: str


@dataclass(frozen=True)
class Smaller:
    """Try it in more pieces, one after the other."""

    pieces: int
    reason: str


@dataclass(frozen=True)
class TooLarge:
    """Nothing is left to try."""

    message: str


@dataclass(frozen=True)
class OutOfMemory:
    """A task that needed more memory than there was."""

    pool: PlacedPool
    following: Sequence[tuple[CandidatePools, Sequence[PlacedPool]]]
    """The choices that it has not tried, each with those of its pools that can have workers."""
    pieces: int
    """In how many it was run."""
    most_pieces: int
    """1 for what cannot be taken in pieces: merges, and stages that need all data at once."""
    message: str
    """The last that was reported."""


def after_out_of_memory(task: OutOfMemory) -> Larger | Smaller | TooLarge:
    """A larger pool if one is allowed, each once; else twice as many pieces; else it failed, with the numbers."""
    held = task.pool.memory_per_slot
    for position, (choice, pools) in enumerate(task.following):
        allowed = choice.own or task.pool.spec.fallback_when.oom
        offered = min((pool.memory_per_slot for pool in pools), default=0)
        if allowed and offered > held:
            return Larger(position, f"out of memory in '{task.pool.name}' ({_in_words(held)}): {task.message}")
    if 2 * task.pieces <= task.most_pieces:
        return Smaller(2 * task.pieces, f"out of memory in '{task.pool.name}' ({_in_words(held)}): {task.message}")
    return TooLarge(_the_end(task, held))


def _the_end(task: OutOfMemory, held: float) -> str:
    tried = f"even in {task.pieces} pieces, " if task.pieces > 1 else ""
    larger = "no larger pool is allowed"
    pieces = "it cannot be split" if task.most_pieces == 1 else "smaller pieces are not tried"
    why = f"{larger}, and {pieces}"
    return f"out of memory in pool '{task.pool.name}' ({_in_words(held)}), {tried}and {why}: {task.message}"


def _in_words(held: float) -> str:
    return "memory per task not stated" if held == math.inf else f"{format_bytes(held)} per task"
