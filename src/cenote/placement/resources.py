"""Do the arithmetic of amounts: what holds what, and how many times."""

from __future__ import annotations

import math
from collections.abc import Iterable

from cenote.language.execution import AMOUNTS, Amounts

_ROUNDING = 1e-9
"""Three tenths of a cpu are not exactly 0.3."""


def amount(amounts: Amounts, kind: str) -> float | None:
    """One of the four numbers."""
    found: float | None = getattr(amounts, kind)
    return found


def share(worker: Amounts, slots: int) -> tuple[float, float, float, float]:
    """What one slot of a worker holds, in the order of `AMOUNTS`.

    What the worker leaves unstated counts as boundless for memory and disk (taken on trust), one cpu per slot, and
    no GPU.
    """
    return (
        1.0 if worker.cpus is None else worker.cpus / slots,
        math.inf if worker.memory is None else worker.memory / slots,
        (worker.gpus or 0) / slots,
        math.inf if worker.disk is None else worker.disk / slots,
    )


def lacking(held: tuple[float, float, float, float], asked: Amounts) -> list[str]:
    """The kinds of which a share is smaller than asked. Written out: it runs once per requirement and pool."""
    cpus, memory, gpus, disk = held
    kinds = []
    if asked.cpus is not None and asked.cpus > cpus + _ROUNDING:
        kinds.append("cpus")
    if asked.memory is not None and asked.memory > memory:
        kinds.append("memory")
    if asked.gpus is not None and asked.gpus > gpus + _ROUNDING:
        kinds.append("gpus")
    if asked.disk is not None and asked.disk > disk:
        kinds.append("disk")
    return kinds


def unstated(worker: Amounts, asked: Amounts) -> tuple[str, ...]:
    """The kinds that are asked for and cannot be compared, because the worker does not state them."""
    kinds = ("memory",) if asked.memory and worker.memory is None else ()
    return (*kinds, "disk") if asked.disk and worker.disk is None else kinds


def slots_for(worker: Amounts, asked: Iterable[Amounts]) -> int:
    """How many tasks at once, where the file does not say: as many as fit whichever of these stages they belong to.

    A stage that states no cpus takes one. A worker with GPUs has at most one slot per GPU, so that tasks do not
    fight for its memory. At least one slot.
    """
    most = largest(asked)
    limits = [] if worker.cpus is None else [worker.cpus / (most.cpus or 1)]
    if worker.gpus:
        limits.append(worker.gpus / (most.gpus or 1))
    for kind in ("memory", "disk"):
        held, wanted = amount(worker, kind), amount(most, kind)
        if held is not None and wanted:
            limits.append(held / wanted)
    return max(1, int(min(limits, default=1) + _ROUNDING))


def most_of_each(asked: Iterable[Amounts]) -> Amounts:
    """The largest amount of each kind; None where it is not stated."""
    rows = [[getattr(amounts, kind) for kind in AMOUNTS] for amounts in asked]
    stated = ([found for found in column if found is not None] for column in zip(*rows, strict=True))
    return Amounts(*(max(column, default=None) for column in stated))


def largest(asked: Iterable[Amounts]) -> Amounts:
    """The largest of each kind. Cpus count as one where a stage does not state them."""
    return most_of_each(amounts.over(Amounts(cpus=1)) for amounts in asked)
