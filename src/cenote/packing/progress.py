"""Say how far the preparation of an environment is."""

from __future__ import annotations

from collections.abc import Callable

from cenote.values import dataclass


@dataclass(frozen=True)
class PackingStep:
    """How far the preparation of an environment is."""

    what: str
    """`installing 83 packages`, `compressing`."""
    done: int = 0
    total: int | None = None
    """Bytes; None where nobody knows how much there is to do."""


Progress = Callable[[PackingStep], None]
"""Hears of the steps, often."""


def unheard(step: PackingStep) -> None:
    """Where nobody waits for the preparation."""
    del step
