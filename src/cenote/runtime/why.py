"""Say what of the stages of a plan has to run, and why, before it does."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from cenote.engine.messages import WhyRow
from cenote.names import listed
from cenote.plan.plan import MERGE, Plan, maker_of
from cenote.plan.stages.selection import followers_of
from cenote.runs.ingredients import Ingredients, why_rows
from cenote.runtime.demand import Demand, SegmentParts, positions_of
from cenote.values import dataclass

_FORCED = "asked for"
_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RunningStages:
    """The stages that tasks run: of tasks that run a part of their segment, those of that part."""

    tasks: Mapping[str, int]
    """Stage → how many tasks run it."""
    makes: Collection[str]
    """Those whose own results are made."""
    wanted: Mapping[str, Collection[str]]
    """Stage → other stages for whose results it runs."""


@dataclass(frozen=True)
class _Part:
    """What tasks of one segment do that do the same, for one dataset."""

    segment: int
    dataset: str
    made: frozenset[str]
    leaving: frozenset[str]
    given: frozenset[str]


def why(
    plan: Plan, running: RunningStages, before: Ingredients | None, after: Ingredients, forced: Collection[str] = ()
) -> tuple[WhyRow, ...]:
    """A row for each stage that runs; none without an earlier run in the folder."""
    if before is None:
        return ()
    tasks = running.tasks
    counts = {one.stage: (tasks[one.stage], one.tasks - tasks[one.stage]) for one in plan.stages if one.stage in tasks}
    for_others = {stage: (f"for {listed(names)}",) for stage, names in running.wanted.items() if names}
    otherwise = {stage: words for stage, words in for_others.items() if stage not in running.makes}
    otherwise.update(dict.fromkeys(followers_of(plan.workflow, forced), (_FORCED,)))
    return why_rows(counts, before, after, otherwise=otherwise)


def running_stages(plan: Plan, demand: Demand) -> RunningStages:
    """All that demand makes run."""
    parts = SegmentParts()
    tasks: dict[str, int] = {}
    makes: set[str] = set()
    wanted: dict[str, set[str]] = {}
    reading: dict[tuple[int, str], set[str]] = {}
    """(segment, stage whose events leave it) → the stages for whose results they are read."""
    for one, count in _parts(plan, demand):
        part = parts.of(plan.segments[one.segment], one.dataset, one.made, one.leaving, one.given)
        own = {maker_of(name) for name in one.made}
        makes |= own
        goals = own.union(*(reading.get((one.segment, stage), ()) for stage in one.leaving))
        for stage in parts.running(part, one.dataset):
            tasks[stage] = tasks.get(stage, 0) + count
            wanted.setdefault(stage, set()).update(goals - {stage})
        flavour = plan.layout.flavour_of[one.dataset]
        for name in part.imports_for(one.dataset):
            for crossing in plan.layout.crossings[flavour, name]:
                reading.setdefault((crossing.segment, crossing.stage), set()).update(goals)
    return RunningStages(tasks, makes, wanted)


def _parts(plan: Plan, demand: Demand) -> Iterator[tuple[_Part, int]]:
    """With the number of tasks; who reads events comes before who hands them over."""
    found: dict[_Part, int] = {}
    for task, made in demand.made.items():
        if plan.tasks.kind[task] == MERGE:
            continue
        segment = plan.segments[int(plan.tasks.segment[task])]
        leaving, given = demand.leaving.get(task, _NOTHING), demand.given.get(task, _NOTHING)
        if positions := positions_of(plan, segment, int(plan.tasks.partition[task]))[:1]:
            dataset = plan.partitions[positions[0]].dataset
            part = _Part(segment.index, dataset, made, leaving, given)
            found[part] = found.get(part, 0) + 1
    yield from sorted(found.items(), key=lambda item: -item[0].segment)
