"""Decide what of a plan has to be done, what earlier runs spare, and why the rest runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field

from cenote.common.text import listed
from cenote.common.values import dataclass
from cenote.engine.messages import WhyRow
from cenote.execution.runs.changed.ingredients import Ingredients, why_rows
from cenote.execution.runs.summary import KeptRecord, Summary
from cenote.planning.plan import MERGE, RUN, Plan, Segment, columns_of, end_of, events_of, is_for_later, maker_of
from cenote.planning.stages.selection import followers_of

IsThere = Callable[[int, Mapping[str, bytes]], Collection[str]]
"""Asked for a task and products of it that are wanted, with what they are known by: which of them are there."""


@dataclass(frozen=True)
class Demand:
    """What of each task is wanted. A task that is nowhere here need not run, and nobody reads it."""

    made: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Tasks that run → the products that they make."""
    leaving: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Of these, the ones that hand events over → the stages whose events."""
    found: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Task → its products that are there already, and that are read or published."""
    held: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Task → stages whose events are there already, and are read."""
    given: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Tasks that run → those of their stages that do not, since what they do to events is there."""

    def runs(self, task: int) -> bool:
        """Whether it has anything to do."""
        return task in self.made

    def reads(self, task: int) -> bool:
        """Whether something of it is there already, and is read or published."""
        return task in self.found or task in self.held


def everything(plan: Plan) -> Demand:
    """All that there is to make."""
    return demand_of(plan, lambda _task, _ids: ())


class _Wanted:
    """What is wanted of each task so far."""

    def __init__(self, plan: Plan) -> None:
        self.products: dict[int, set[str]] = {}
        self.leaving: dict[int, set[str]] = {}
        for product in plan.products:
            self.product(product.task, product.name)

    def product(self, task: int, name: str) -> None:
        self.products.setdefault(task, set()).add(name)

    def events(self, task: int, stage: str) -> None:
        self.leaving.setdefault(task, set()).add(stage)


class SegmentParts:
    """The parts of segments that tasks run, each found out once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str, frozenset[str], frozenset[str], frozenset[str]], Segment] = {}
        self._running: dict[tuple[int, str, str], frozenset[str]] = {}

    def of(
        self,
        segment: Segment,
        dataset: str,
        made: frozenset[str],
        leaving: frozenset[str],
        given: frozenset[str] = frozenset(),
    ) -> Segment:
        """What of a segment makes this, for a dataset."""
        if segment.scope != "partition":
            return segment
        key = (segment.index, dataset, made, leaving, given)
        if key not in self._known:
            self._known[key] = segment.only(dataset, made, leaving, given)
        return self._known[key]

    def of_task(self, plan: Plan, task: int, demand: Demand, dataset: str) -> Segment:
        """What of its segment a task runs that has to, for a dataset."""
        nothing = frozenset[str]()
        asked = (demand.leaving.get(task, nothing), demand.given.get(task, nothing))
        return self.of(plan.segments[int(plan.tasks.segment[task])], dataset, demand.made[task], *asked)

    def running(self, part: Segment, dataset: str) -> frozenset[str]:
        """The stages of a part that run on a dataset."""
        key = (part.index, part.part, dataset)
        if key not in self._running:
            self._running[key] = frozenset(part.inputs_for(dataset)) - part.given
        return self._running[key]


def demand_of(plan: Plan, is_there: IsThere, are_held: IsThere = lambda _task, _ids: ()) -> Demand:
    """Walk the tasks backwards: what is wanted of one and not there makes it want something of others.

    `are_held` is asked about events that leave a task, by stage.
    """
    wanted, parts = _Wanted(plan), SegmentParts()
    made: dict[int, frozenset[str]] = {}
    leaving: dict[int, frozenset[str]] = {}
    found: dict[int, frozenset[str]] = {}
    held: dict[int, frozenset[str]] = {}
    given: dict[int, frozenset[str]] = {}
    demand = Demand(made, leaving, found, held, given)
    for task in reversed(range(len(plan.tasks))):
        ids = plan.ids.of(plan.tasks, task)
        names = wanted.products.get(task, ())
        known = {name: known_by for name, known_by in ids.items() if name in names or name.endswith(end_of(""))}
        there = frozenset(is_there(task, known)) if known else frozenset[str]()
        missing = frozenset(known).difference(there)
        if there:
            found[task] = there
        if plan.tasks.kind[task] == MERGE:
            if missing:
                made[task] = missing
                for need in plan.tasks.needs_of(task):
                    for name in missing.intersection(plan.ids.of(plan.tasks, need)):
                        wanted.product(need, name)
            continue
        segment = plan.segments[int(plan.tasks.segment[task])]
        going = plan.ids.leaving_of(segment, task)
        asked = {stage: going[stage] for stage in wanted.leaving.get(task, ()) if stage in going}
        here = frozenset(are_held(task, asked)) if asked else frozenset[str]()
        if here:
            held[task] = here
        out = frozenset(asked).difference(here)
        if not missing and not out:
            continue
        made[task] = missing
        if out:
            leaving[task] = out
        if spared := _spared(plan, parts, task, demand, ids, is_there):
            given[task] = spared
        for need, stage, is_product in _needs(plan, segment, parts, task, demand):
            (wanted.product if is_product else wanted.events)(need, stage)
    return demand


def _spared(
    plan: Plan, parts: SegmentParts, task: int, demand: Demand, ids: Mapping[str, bytes], is_there: IsThere
) -> frozenset[str]:
    """Stages that this task would run, and need not."""
    kept = {name: known_by for name, known_by in ids.items() if name.endswith(columns_of(""))}
    if not kept:
        return frozenset()
    dataset = plan.partitions[int(plan.tasks.partition[task])].dataset
    runs = parts.running(parts.of_task(plan, task, demand, dataset), dataset)
    asked = {name: known_by for name, known_by in kept.items() if maker_of(name) in runs}
    there = frozenset(map(maker_of, is_there(task, asked))) if asked else frozenset[str]()
    segment = plan.segments[int(plan.tasks.segment[task])]
    leaving = demand.leaving.get(task, frozenset[str]())
    return parts.of(segment, dataset, demand.made[task], leaving, there).given


def _needs(
    plan: Plan, segment: Segment, parts: SegmentParts, task: int, demand: Demand
) -> Iterator[tuple[int, str, bool]]:
    """(task, stage, whether its product or its events) for all that a task reads to make this."""
    for position in positions_of(plan, segment, int(plan.tasks.partition[task])):
        dataset = plan.partitions[position].dataset
        part = parts.of_task(plan, task, demand, dataset)
        flavour = plan.layout.flavour_of[dataset]
        for name in part.imports_for(dataset):
            for crossing in plan.layout.crossings[flavour, name]:
                if crossing.segment >= 0:
                    yield plan.layout.runs[crossing.segment][position], crossing.stage, False
    for need in plan.tasks.needs_of(task):
        of = plan.segments[int(plan.tasks.segment[need])]
        if of.scope != "partition":
            yield from ((need, step.stage, True) for step in of.steps)


def positions_of(plan: Plan, segment: Segment, number: int) -> list[int]:
    """The partitions that a task reads: its own, those of its dataset, or all."""
    if segment.scope == "partition":
        return [number]
    wanted = plan.datasets[number].own_name if segment.scope == "dataset" else None
    applying = {info.own_name for info in plan.datasets if any(step.applies(info.own_name) for step in segment.steps)}
    return [
        position
        for position, partition in enumerate(plan.partitions)
        if partition.source == segment.root
        and (wanted is None or partition.dataset == wanted)
        and partition.dataset in applying
    ]


def made_in_full(plan: Plan, task: int, demand: Demand) -> bool:
    """Whether a task that runs makes all that it can make."""
    segment = plan.segments[int(plan.tasks.segment[task])]
    if plan.tasks.kind[task] != RUN or segment.scope != "partition":
        return True
    can = [name for name in plan.ids.of(plan.tasks, task) if not is_for_later(name)]
    whole = demand.made[task].issuperset(can) and task not in demand.given
    return whole and demand.leaving.get(task, frozenset()).issuperset(plan.ids.leaving_of(segment, task))


# Say which stages need not run, since an earlier run kept what they do to events.


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
    return tuple(_spared_stage(name, counts[name], known.get(name)) for name in sorted(counts, key=order.__getitem__))


def _spared_stage(name: str, tasks: int, known: KeptRecord | None) -> SparedStage:
    stage, _, what = name.rpartition(":")
    if known is None:
        return SparedStage(stage, what, tasks)
    share = tasks / (known.kept + known.read)
    return SparedStage(stage, what, tasks, round(known.bytes * share), known.seconds * share)


# Say what of the stages of a plan has to run, and why, before it does.


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
