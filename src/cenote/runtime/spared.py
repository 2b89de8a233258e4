"""Say which stages need not run, since an earlier run kept what they do to events."""

from __future__ import annotations

from collections import Counter

from cenote.plan.plan import Plan, columns_of, events_of
from cenote.runs.summary import KeptRecord, Summary
from cenote.runtime.demand import Demand
from cenote.values import dataclass


@dataclass(frozen=True)
class SparedStage:
    """What tasks read of a stage instead of running it."""

    stage: str
    what: str
    """`columns` or `events`."""
    tasks: int
    bytes: int = 0
    """Of all these tasks; 0 where the last run in the folder does not tell."""
    seconds: float = 0.0
    """What it took to compute it; the same."""


def spared_stages(plan: Plan, demand: Demand, earlier: Summary | None) -> tuple[SparedStage, ...]:
    """Every stage that some task would have to run, and need not; with what the last run knew of it."""
    counts = Counter(columns_of(stage) for stages in demand.given.values() for stage in stages)
    counts.update(events_of(stage) for stages in demand.held.values() for stage in stages)
    known = {
        f"{stage.id}:{one.what}": one
        for stage in (earlier.stages if earlier is not None else ())
        for one in stage.for_later
    }
    order = {
        name: at for at, stage in enumerate(plan.stages) for name in (columns_of(stage.stage), events_of(stage.stage))
    }
    return tuple(_spared(name, counts[name], known.get(name)) for name in sorted(counts, key=order.__getitem__))


def _spared(name: str, tasks: int, known: KeptRecord | None) -> SparedStage:
    stage, _, what = name.rpartition(":")
    if known is None:
        return SparedStage(stage, what, tasks)
    share = tasks / (known.kept + known.read)
    return SparedStage(stage, what, tasks, round(known.bytes * share), known.seconds * share)
