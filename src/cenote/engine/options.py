"""This file holds the choices that steer the engine: what to do about failures, how far ahead to send work."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineOptions:
    """How one run is to be steered."""

    keep_going: bool = False
    """Finish everything that a failed task does not spoil, instead of stopping at the first failure."""
    lost_limit: int = 3
    """How often a task moves on after its worker was lost; the next loss fails it: it kills its worker."""
    window_per_slot: float = 2.0
    """Tasks sent to a pool for each of its slots, so that a worker finds its next task already there."""
