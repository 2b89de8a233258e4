"""Hold the options of the engine: what to do about failures, how far ahead to send work."""

from __future__ import annotations

from dataclasses import field

from cenote.language.execution import RunLimits
from cenote.values import dataclass


@dataclass(frozen=True)
class EngineOptions:
    """How the engine runs one plan."""

    keep_going: bool = False
    """Finish everything that a failed task does not spoil, instead of stopping at the first failure."""
    skips: frozenset[str] = frozenset()
    """Datasets that do without files which cannot be read: these do not end the run, whoever plans it again."""
    limits: RunLimits = field(default_factory=RunLimits)
    """As the workflow's `execution.limits` says."""
    window_per_slot: float = 2.0
    """Tasks sent to a pool for each of its slots, so that a worker finds its next task already there."""
    ahead_seconds: float = 0.0
    """Work for each slot, in seconds, that is sent where tasks are so short that the window would not last."""
    manages_workers: bool = False
    """Whether the engine asks for workers and ends them; False where they join by themselves (backend local)."""
