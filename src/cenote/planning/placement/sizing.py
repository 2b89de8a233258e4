"""Make pools concrete: the shape of a worker, its slots, and what of it this machine can give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cenote.common.errors import NEVER_FITS, Problem
from cenote.common.machine import Machine
from cenote.common.text import format_amount
from cenote.common.values import dataclass
from cenote.language.execution import Amounts, Elastic, Pool, PoolSize
from cenote.language.plugins.registry import runs_here
from cenote.language.workflow import Execution, Stage, Workflow
from cenote.planning.placement.pools import PlacedPool, amount, lacking, largest, share, slots_for
from cenote.planning.placement.routes import Labels, states_nothing

_PROCESSES_PER_CPU, _FEWEST_PROCESSES = 4, 8
"""Dask workers on one machine: pools keep their sizes while that is bearable, since tasks also wait and sleep."""


@dataclass(frozen=True)
class Sized:
    """A pool whose worker and slots are decided, wherever it runs."""

    pool: Pool
    worker: Amounts
    slots: int
    share: tuple[float, float, float, float]
    """What one slot holds."""
    asked: Amounts
    """The largest amounts of the stages that may come here and fit."""

    @property
    def largest_share(self) -> tuple[float, float, float, float]:
        """What one slot could hold: the whole worker, where the number of slots is ours to choose."""
        return share(self.worker, self.pool.slots or 1)

    @property
    def empty(self) -> bool:
        """Whether it will never have a worker."""
        most = self.pool.elastic.max if self.pool.elastic else self.pool.workers
        return most == 0

    @property
    def starts_empty(self) -> bool:
        """Whether it has no worker when the run begins."""
        fewest = self.pool.elastic.min if self.pool.elastic else self.pool.workers
        return fewest == 0

    @property
    def says_how_to_wait(self) -> bool:
        """Whether the author said what happens to work that waits for a worker in vain."""
        return self.pool.queue_timeout is not None or bool(self.pool.fallback)


def sized(pool: Pool, asked: Sequence[Amounts]) -> Sized:
    """The worker and the slots of a pool to which stages with these amounts may come.

    Where `slots` is not written it is derived (see `slots_for`) from the stages that a whole worker could hold, so
    a derived number of slots never turns a stage away.
    """
    worker = largest(asked) if states_nothing(pool) else pool.resources
    whole = share(worker, pool.slots or 1)
    able = [amounts for amounts in asked if not lacking(whole, amounts)]
    slots = pool.slots or slots_for(worker, able)
    filled = worker.over(Amounts(cpus=float(slots), gpus=0))
    return Sized(pool=pool, worker=filled, slots=slots, share=share(filled, slots), asked=largest(able))


def placed(size: Sized, execution: Execution, labels: Labels, machine: Machine | None) -> PlacedPool:
    """The pool with nothing left open; `machine` is given when its workers start there."""
    pool = size.pool
    as_written = PlacedPool(
        spec=pool,
        strategy=pool.strategy or execution.strategy,
        workers=None if pool.elastic else 1 if pool.workers is None else pool.workers,
        elastic=pool.elastic,
        slots=size.slots,
        resources=size.worker,
        granted=size.worker,
        starts_here=machine is not None,
        fallback=tuple(dict.fromkeys(name for label in pool.fallback for name in labels.named(label))),
    )
    return as_written if machine is None else _scaled_down(as_written, size, execution.backend, machine)


def _scaled_down(pool: PlacedPool, size: Sized, backend: str, machine: Machine) -> PlacedPool:
    """The same pool with no more workers and slots than make sense on this machine."""
    tasks = _tasks_at_once(size, backend, machine)
    slots = min(pool.slots, tasks)
    most = max(1, tasks // slots)
    if machine.gpus and size.worker.gpus:
        most = min(most, max(1, machine.gpus // size.worker.gpus))
    if size.pool.workers is None and size.pool.elastic is None:
        workers: int | None = most
    else:
        workers = None if pool.workers is None else min(pool.workers, most)
    elastic = _shrunk(pool.elastic, most) if pool.elastic else None
    stated = workers if size.pool.workers is None else pool.workers
    before, after = PoolSize(stated, pool.elastic, pool.slots), PoolSize(workers, elastic, slots)
    scaled_from = before if before != after else None
    shrunk = replace(pool, slots=slots, workers=workers, elastic=elastic, scaled_from=scaled_from)
    return replace(shrunk, granted=_granted(size.worker, shrunk.most_workers, machine))


def _tasks_at_once(size: Sized, backend: str, machine: Machine) -> int:
    """How many of the pool's tasks this machine runs at once without starving one of them."""
    cpus = machine.cpus if runs_here(backend) else max(_FEWEST_PROCESSES, _PROCESSES_PER_CPU * machine.cpus)
    limits = [cpus / max(size.asked.cpus or 1, 1)]
    if size.asked.memory and machine.memory:
        limits.append(machine.memory / size.asked.memory)
    if size.asked.gpus and machine.gpus:
        limits.append(machine.gpus / size.asked.gpus)
    return max(1, int(min(limits)))


def _shrunk(elastic: Elastic, most: int) -> Elastic:
    return replace(elastic, min=min(elastic.min, most), max=min(elastic.max, most))


def _granted(worker: Amounts, workers: int, machine: Machine) -> Amounts:
    """What one worker gets when `workers` of them share the machine."""
    sharing = max(1, workers)
    share = machine.memory // sharing
    return Amounts(
        cpus=min(worker.cpus or 1, machine.cpus),
        memory=min(worker.memory or share, share) if machine.memory else worker.memory,
        gpus=min(worker.gpus or 0, machine.gpus),
        disk=min(worker.disk, machine.disk) if worker.disk and machine.disk else worker.disk,
    )


def missing_here(size: Sized, machine: Machine, workflow: Workflow) -> tuple[Problem, str] | None:
    """What the pool lacks on this machine: the problem of a run that must have it, and the warning of one that does
    without; None if nothing."""
    asks, has, effects = [], [], []
    stage = None
    for kind, effect in (("gpus", "its stages run on the CPU"), ("memory", _LESS), ("disk", _LESS)):
        wanted = max(amount(size.worker, kind) or 0, amount(size.asked, kind) or 0)
        here = amount(Amounts(machine.cpus, machine.memory, machine.gpus, machine.disk), kind) or 0
        known = kind == "gpus" or here
        if known and wanted > here:
            asks.append(format_amount(wanted, kind))
            has.append(format_amount(here, kind).removesuffix(f" of {kind}") if here else "none")
            effects.append(effect if not here else _LESS)
            stage = stage or _asking(wanted, kind, size.pool, workflow)
    if not asks:
        return None
    who = f"stage '{stage.id}' asks for" if stage else f"pool '{size.pool.name}' asks for"
    whom = "" if stage else " per worker"
    refusal = Problem(
        kind=NEVER_FITS,
        message=f"{who} {' and '.join(asks)}{whom}; this machine has {' and '.join(has)}",
        place=workflow.place(*(stage.requirement.path if stage else size.pool.path), "resources"),
        hint="run it on a larger machine, or without --strict: its tasks will then use what is available",
    )
    where = f"{refusal.place}: " if stage and refusal.place else ""
    return refusal, f"{where}{refusal.message}: {', and '.join(dict.fromkeys(effects))}"


def _asking(wanted: float, kind: str, pool: Pool, workflow: Workflow) -> Stage | None:
    """The stage that asks for so much of a kind where the pool itself does not."""
    if (amount(pool.resources, kind) or 0) >= wanted:
        return None
    return next((stage for stage in workflow.stages if amount(stage.requirement.amounts, kind) == wanted), None)


_LESS = "its tasks will use what is available"
