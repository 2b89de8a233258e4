"""Hold the choices that steer the engine: what to do about failures, how far ahead to send work."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineOptions:
    """How one run is to be steered."""

    keep_going: bool = False
    """Finish everything that a failed task does not spoil, instead of stopping at the first failure."""
    lost_limit: int = 3
    """How often a task moves on after its worker was lost; the next loss fails it."""
    crash_limit: int = 1
    """How often a task is tried again that crashed its worker; the next crash fails it: it kills its worker."""
    preempted_limit: int = 20
    """How often a task moves on after the batch system took its worker; the next time fails it."""
    walltime_limit: int = 4
    """How often a task moves on that was not through when its worker's walltime was over; the next time fails it."""
    window_per_slot: float = 2.0
    """Tasks sent to a pool for each of its slots, so that a worker finds its next task already there."""
    ahead_seconds: float = 0.0
    """Work for each slot, in seconds, that is sent where tasks are so short that the window would not last."""
    manages_workers: bool = False
    """Whether the engine asks for workers and ends them; False where they join by themselves (backend local)."""
    patience: int = 60
    """Seconds without a worker after which tasks with a fallback move on, where the pool has no `no_worker_for`."""
    most_splits: int = 16
    """Pieces that a partition is split into at the most, when it does not fit into memory."""
