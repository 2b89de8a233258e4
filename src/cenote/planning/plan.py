"""Define Plan: what will be done, before anything is done."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cenote.analysis.modifiers.support.measures import Measure
from cenote.analysis.operations.support.events import DatasetInfo
from cenote.common.text import plural
from cenote.common.values import dataclass
from cenote.language.execution import Amounts, RunLimits
from cenote.language.plugins.resources import ResourceFile
from cenote.language.systematics import Fillings, Varied
from cenote.language.workflow import Render, Workflow
from cenote.planning.placement.pools import Placement
from cenote.planning.probes.result import Probed

ScopeName = Literal["partition", "dataset", "run"]

_SKIMS, _END, _COLUMNS, _EVENTS = ":files", ":end", ":columns", ":events"
_MARKS = frozenset({_SKIMS, _END, _COLUMNS, _EVENTS})


def skims_of(stage: str) -> str:
    """The name of the product that lists the files which a stage writes."""
    return f"{stage}{_SKIMS}"


def end_of(stage: str) -> str:
    """The name under which it is noted that a stage ran which makes nothing, and whose events nobody takes."""
    return f"{stage}{_END}"


def columns_of(stage: str) -> str:
    """The name of the columns that a stage adds, with the events that leave it, where they are kept for later runs."""
    return f"{stage}{_COLUMNS}"


def events_of(stage: str) -> str:
    """The name of the events of a stage that leave its segment, where they are kept for later runs."""
    return f"{stage}{_EVENTS}"


def is_for_later(product: str) -> bool:
    """Whether only tasks of later runs read it, instead of running its stage: no product of the run is made of it."""
    return product.endswith((_COLUMNS, _EVENTS))


def maker_of(product: str) -> str:
    """The stage that makes a product: its own product has its name, the list of its files another."""
    stage, mark, kind = product.rpartition(":")
    return stage if f"{mark}{kind}" in _MARKS else product


def is_skim(product: str) -> bool:
    """Whether a product lists files that lie in the folder of the run."""
    return product.endswith(_SKIMS)


UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Partition:
    """A range of events of one file."""

    dataset: str
    source: str
    url: str
    start: int
    stop: int
    stamp: str = ""
    """Of the file that the plan was made from; `UNREADABLE` for one that could not be looked at."""
    lacks: tuple[str, ...] = ()
    """Columns (as files name them) that are read, and that this file does not have: they are filled."""
    content: str = ""
    """What is in the file, the same for all its copies; empty: unknown, then `url` and `stamp` say which file it is."""

    @property
    def events(self) -> int:
        """How many events it holds."""
        return self.stop - self.start


@dataclass(frozen=True)
class SkippedFile:
    """A file that cannot be read, and that its dataset does without."""

    dataset: str
    file: str
    reason: str
    events: int | None = None
    """How many are missing; None where nobody knows: it was never read."""


@dataclass(frozen=True)
class WriteStep:
    """A skim within a segment."""

    kind: str
    settings: Mapping[str, Any]
    path_template: str
    keep: tuple[str, ...]
    per_dataset: bool = False
    """Whether the parts become one file per dataset when the run ends."""
    per_run: bool = False
    """Whether the parts of all datasets become one file when the run ends."""


@dataclass(frozen=True)
class PlannedModifier:
    """A modifier of a stage."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    effect: str = ""
    """`observes`; `executes`, where the last bits of results may be its own; or `changes`."""
    measures: Mapping[str, Measure] = field(default_factory=dict)
    """What it measures, and how that is added up."""
    limits_time: bool = False
    """Whether it may stop its stage."""
    keeps_output: bool = False
    """Whether what leaves its stage is kept for later runs, whatever that costs."""
    shares_process: bool = False
    """Whether tasks of compiled stages may run in threads of one process with it."""


@dataclass(frozen=True)
class Step:
    """One stage within a segment, ready to run: plain data, so that it travels to any worker."""

    stage: str
    op: str
    params: Mapping[str, Any]
    inputs: tuple[str, ...]
    """Stages whose events come in (of this segment or an earlier one); empty: the source."""
    live: tuple[str, ...]
    """Columns that a stage still reads after this stage; the others are dropped."""
    reads: tuple[str, ...] = ()
    adds: tuple[str, ...] = ()
    product: str | None = None
    """The kind of product, if it makes one."""
    varied: Varied | None = None
    """How it runs for a variation."""
    fillings: Fillings | None = None
    """How its histogram is filled for variations."""
    datasets: frozenset[str] | None = None
    """The datasets it applies to; None for all."""
    own_params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Dataset → its settings, where its columns make them others than `params`."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Column it adds → the column whose values it has, read only where something reads the new one."""
    passes_events: bool = False
    """Whether the events that come in leave it, all of them, with columns added at the most."""
    needs_products: tuple[str, ...] = ()
    """Run-scope or dataset-scope stages whose product it may use."""
    modifiers: tuple[PlannedModifier, ...] = ()
    """Around it, the first one outermost."""
    writes: tuple[WriteStep, ...] = ()
    timeout: int | None = None
    retries: int = 0
    not_compiled: str = "its operation has no compiled form"
    """Why it runs the ordinary way, in words; empty where it is compiled together with its neighbours."""
    for_later: tuple[str, ...] | None = None
    """The columns by which later runs can do without it, together with the entry numbers of the events that leave it;
    None where that is not all that it does to events, or where it is compiled, and so cheap."""
    given: bool = False
    """Whether it does not run: what it adds, and which events leave it, an earlier run has kept."""
    begins: bool = False
    """Whether it is given so much that no events need come in."""

    @property
    def product_name(self) -> str:
        """What its product is called: that of a variation belongs to the histogram of the nominal stage."""
        return self.varied.stage if self.varied and self.fillings else self.stage

    @property
    def compiled(self) -> bool:
        """Whether it is compiled."""
        return not self.not_compiled

    def applies(self, dataset: str) -> bool:
        """Whether it runs on this dataset."""
        return self.datasets is None or dataset in self.datasets

    @property
    def may_be_stopped(self) -> bool:
        """Whether it has a limit of time."""
        return self.timeout is not None or any(modifier.limits_time for modifier in self.modifiers)


@dataclass(frozen=True)
class Fill:
    """What stands in for a column where a file lacks it."""

    like: str
    """A file that has it."""
    type: str
    """As that file words it."""
    value: Any = None
    """For every event; None: false, 0, NaN, or an empty list, whatever the type has."""

    @property
    def shown(self) -> str:
        """As a message says it."""
        return "the default of its type" if self.value is None else str(self.value)


@dataclass(frozen=True)
class SourceStep:
    """How a segment reads its partition."""

    id: str
    """Of the entry under `sources`."""
    kind: str
    settings: Mapping[str, Any]
    columns: Mapping[str, tuple[str, ...]]
    """Dataset → the columns to read, as stages name them; nothing else is read. A dataset that is not here
    comes in from earlier segments."""
    renames: Mapping[str, str] = field(default_factory=dict)
    """Column as stages name it → its name in the file, where they differ (`fields`)."""
    fills: Mapping[str, Fill] = field(default_factory=dict)
    """Column (as files name it) → what stands in for it where a file lacks it."""


@dataclass(frozen=True)
class FusedSteps:
    """Steps of a segment that are compiled together."""

    inputs: tuple[str, ...]
    """Where the events come from that the first of them take: stages, or `""` for the source."""
    steps: tuple[Step, ...]

    @property
    def modifiers(self) -> tuple[PlannedModifier, ...]:
        """Around all of them together."""
        return self.steps[0].modifiers


@dataclass(frozen=True)
class Segment:
    """Stages that run together, in one task per partition (or dataset, or run)."""

    index: int
    name: str
    """For people: `SelectMuons … MuonPt`."""
    steps: tuple[Step, ...]
    scope: ScopeName
    pools: tuple[str, ...]
    shared: bool
    """Whether the pools share its tasks."""
    source: SourceStep | None
    """None when all its events come from earlier segments."""
    root: str
    """The source its events began at; its tasks run over the partitions of that source."""
    imports: tuple[str, ...]
    """Stages of earlier segments whose events come in."""
    exports: Mapping[str, tuple[str, ...]]
    """Stages whose events go to later segments → the columns that cross."""
    digest: str = ""
    """Of everything that decides its results, except the data."""
    amounts: Amounts = Amounts()
    """What one of its tasks needs: the most that any of its stages asks for."""
    room: Amounts = Amounts()
    """What a slot holds where its tasks fit: the same, and a cpu for a stage that states none."""
    kept: bool = False
    """Whether the events that leave it are stored for later runs."""
    part: str = ""
    """Tells apart what `only` leaves of it; empty for all of it."""

    @property
    def products(self) -> dict[str, str]:
        """What its tasks produce: name (see `maker_of`) → kind of product."""
        return {name: kind for name, (_, kind) in self.makers.items()}

    @property
    def makers(self) -> dict[str, tuple[Step, str]]:
        """Product → the step that makes it, the nominal one if it is here; and of what kind it is."""
        found: dict[str, tuple[Step, str]] = {}
        for step in self.steps:
            if step.product is not None and (step.product_name == step.stage or step.product_name not in found):
                found[step.product_name] = (step, step.product)
            if step.writes:
                found[skims_of(step.stage)] = (step, "files")
        return found

    @property
    def merged(self) -> dict[str, str]:
        """Those of its products that its merges make whole; what it fills for variations of a stage that runs in
        another segment is merged there."""
        return {name: kind for name, (step, kind) in self.makers.items() if maker_of(name) == step.stage}

    def inputs_for(self, dataset: str) -> dict[str, tuple[str, ...]]:
        """Each stage that runs on a dataset → where its events come from: stages that do not apply are passed by.

        That is a stage of this segment, one of its `imports`, or `""` for the source.
        """
        found: dict[str, tuple[str, ...]] = {}
        passed: dict[str, tuple[str, ...]] = {}
        for step in self.steps:
            needs = () if step.begins else step.inputs or ("",)
            inputs = dict.fromkeys(name for need in needs for name in passed.get(need, (need,)))
            (found if step.applies(dataset) else passed)[step.stage] = tuple(inputs)
        return found

    def ends_for(self, dataset: str) -> tuple[str, ...]:
        """Stages that make nothing, and whose events nobody takes: they run for what their code does."""
        inputs = self.inputs_for(dataset)
        taken = {name for names in inputs.values() for name in names}.union(self.exports)
        steps = [step for step in self.steps if step.stage in inputs and step.product is None and not step.writes]
        return tuple(step.stage for step in steps if step.stage not in taken)

    def only(
        self, dataset: str, products: Collection[str], leaving: Collection[str], given: Collection[str] = ()
    ) -> Segment:
        """What of it leads to these products, and to the events of these stages that leave it, for a dataset.

        Stages in between whose columns nobody needs let the events pass by. Those that are `given` do not run, unless
        for their products: where nothing else is read after one, nothing runs before it either.
        """
        inputs = self.inputs_for(dataset)
        read: dict[str, set[str]] = {name: set(self.exports[name]) for name in leaving}
        """Stage, or the source → the columns of its events that are read after it. Who is not here is not needed."""
        steps: list[Step] = []
        for step in reversed(self.steps):
            makes = not _made_by(step).isdisjoint(products)
            wanted = makes or step.stage in leaving
            after = read.get(step.stage)
            if step.stage not in inputs or (after is None and not wanted):
                steps.append(replace(step, datasets=frozenset()))
                continue
            after = after or set()
            if not wanted and step.passes_events and after.isdisjoint(step.adds):
                needed = after
                steps.append(replace(step, datasets=frozenset()))
            elif step.stage in given and not makes:
                needed = after.difference(step.adds)
                steps.append(replace(step, given=True, begins=not needed, product=None, writes=()))
                if not needed:
                    continue
            else:
                writes = step.writes if skims_of(step.stage) in products else ()
                kept = after.union(*(write.keep for write in writes))
                copied = {column for name, column in step.copies.items() if name in kept}
                needed = kept.difference(step.adds).union(step.reads, copied)
                steps.append(replace(step, writes=writes))
            for name in inputs[step.stage]:
                read.setdefault(name, set()).update(needed)
        part = "\n".join([dataset, *sorted(products), "", *sorted(leaving), "", *sorted(given)])
        return replace(self, steps=tuple(reversed(steps)), source=self._reading(dataset, read), part=part)

    def _reading(self, dataset: str, read: Mapping[str, Collection[str]]) -> SourceStep | None:
        """Its source with the columns that are read from it, where nothing comes in from earlier segments."""
        if self.source is None or dataset not in self.source.columns or not read.keys().isdisjoint(self.imports):
            return self.source
        columns = {name: columns for name, columns in self.source.columns.items() if name != dataset}
        if "" in read:
            columns[dataset] = tuple(name for name in self.source.columns[dataset] if name in read[""])
        return replace(self.source, columns=columns)

    def imports_for(self, dataset: str) -> tuple[str, ...]:
        """Those of its `imports` that a dataset needs."""
        used = {name for inputs in self.inputs_for(dataset).values() for name in inputs}
        return tuple(stage for stage in self.imports if stage in used)

    @property
    def fused(self) -> list[FusedSteps]:
        """Neighbours that are compiled together, for datasets that all stages apply to."""
        return self._fused({step.stage: step.inputs or ("",) for step in self.steps})

    def fused_for(self, dataset: str) -> list[FusedSteps]:
        """Neighbours that are compiled together for a dataset."""
        return self._fused(self.inputs_for(dataset))

    def _fused(self, inputs: Mapping[str, tuple[str, ...]]) -> list[FusedSteps]:
        """Each takes its events from another one of its group, or from where the whole group begins; and the same
        modifiers are around all of a group, since they observe it as one."""
        found: dict[tuple[tuple[str, ...], int], list[Step]] = {}
        group_of: dict[str, tuple[tuple[str, ...], int]] = {}
        observers: list[tuple[PlannedModifier, ...]] = []
        for step in self.steps:
            if not step.compiled or step.stage not in inputs or self.scope != "partition":
                continue
            if step.modifiers not in observers:
                observers.append(step.modifiers)
            names, around = inputs[step.stage], observers.index(step.modifiers)
            before = {group_of.get(name) for name in names}
            group = before.pop() if len(before) == 1 else None
            group_of[step.stage] = group if group is not None and group[1] == around else (names, around)
            found.setdefault(group_of[step.stage], []).append(step)
        return [FusedSteps(start, tuple(steps)) for (start, _), steps in found.items()]

    @property
    def given(self) -> frozenset[str]:
        """Its stages that do not run, since what they do to events is there."""
        return frozenset(step.stage for step in self.steps if step.given)

    @property
    def stages(self) -> tuple[str, ...]:
        """The ids of its stages, in order."""
        return tuple(step.stage for step in self.steps)


def _made_by(step: Step) -> set[str]:
    """Every name under which a step may leave something."""
    product = {step.product_name} if step.product is not None else {end_of(step.stage)}
    return product | ({skims_of(step.stage)} if step.writes else set())


RUN, MERGE = 0, 1


@dataclass(frozen=True)
class TaskTable:
    """All tasks as columns, so that a million of them fit. Numbers are in a valid order: needs come before."""

    kind: NDArray[np.uint8]
    segment: NDArray[np.int32]
    partition: NDArray[np.int32]
    needs_start: NDArray[np.int64]
    needs: NDArray[np.int32]
    users_start: NDArray[np.int64]
    users: NDArray[np.int32]
    keys: bytes
    """16 bytes per task: the content hash."""

    def __len__(self) -> int:
        return len(self.kind)

    def key(self, number: int) -> str:
        """The content hash of the task, in hexadecimal."""
        return self.keys[16 * number : 16 * number + 16].hex()

    def needs_of(self, number: int) -> list[int]:
        """The tasks whose results this one reads."""
        found: list[int] = self.needs[self.needs_start[number] : self.needs_start[number + 1]].tolist()
        return found

    def users_of(self, number: int) -> list[int]:
        """The tasks that read this one's result."""
        found: list[int] = self.users[self.users_start[number] : self.users_start[number + 1]].tolist()
        return found


@dataclass(frozen=True)
class ResultIds:
    """By what the results of tasks are known, in whichever run: see `identity.py`."""

    names: tuple[tuple[str, ...], ...] = ()
    """Per segment: what its tasks may make, and what its merges do."""
    merged: tuple[tuple[str, ...], ...] = ()
    of_task: tuple[bytes, ...] = ()
    """Per task: 16 bytes for each of these names; zeros for what it does not make."""
    leaving: tuple[bytes, ...] = ()
    """Per task: 16 bytes for each stage whose events leave its segment; zeros where they do not."""

    def of(self, table: TaskTable, task: int) -> dict[str, bytes]:
        """Product → what it is known by."""
        segment = int(table.segment[task])
        names = (self.merged if table.kind[task] == MERGE else self.names)[segment]
        return _present(names, self.of_task[task])

    def leaving_of(self, segment: Segment, task: int) -> dict[str, bytes]:
        """Stage → what its events are known by that leave this task."""
        return _present(segment.exports, self.leaving[task])


def _present(names: Iterable[str], joined: bytes) -> dict[str, bytes]:
    parts = (joined[at : at + 16] for at in range(0, len(joined), 16))
    return {name: part for name, part in zip(names, parts, strict=False) if any(part)}


@dataclass(frozen=True)
class Crossing:
    """Where the events of an imported stage really come from."""

    segment: int
    """-1: straight from the source."""
    stage: str


@dataclass(frozen=True)
class TaskLayout:
    """How to find one's way in the table."""

    runs: tuple[Mapping[int, int], ...]
    """Per segment: partition (dataset number, or -1 for the run) → its task."""
    flavour_of: Mapping[str, int]
    """Dataset → flavour."""
    crossings: Mapping[tuple[int, str], tuple[Crossing, ...]]
    """(flavour, imported stage) → where its events really come from."""
    product_tasks: Mapping[str, Mapping[int, int]]
    """Stage of scope dataset or run → dataset number (-1: run) → its task."""


@dataclass(frozen=True)
class ProductPlan:
    """A product that the run will leave."""

    name: str
    stage: str
    kind: str
    task: int
    """The task whose result holds it, whole."""
    renders: tuple[Render, ...] = ()


@dataclass(frozen=True)
class StageSummary:
    """A row of the plan's table."""

    stage: str
    op: str
    segment: int | None
    tasks: int
    reads: tuple[str, ...]
    adds: tuple[str, ...]
    modifiers: tuple[PlannedModifier, ...] = ()
    not_compiled: str = ""
    """Why it runs the ordinary way; empty where it is compiled."""
    variation_of: str = ""
    """The stage that it is a variation of; empty for a stage of the file."""
    variation: str = ""
    """The variation that it runs for."""


@dataclass(frozen=True)
class MadeOf:
    """What the results of a stage are made of, so that it can be said what changed."""

    op: str
    settings: Any
    """In normal form, without what is only shown."""
    code: tuple[tuple[str, ...], ...]
    sees: Mapping[str, Any]
    """Dataset → the facts of it and the constants that it may look at."""
    needs: tuple[str, ...]
    """Stages whose filters, columns or products it takes."""
    source: str
    lineage: Mapping[str, str]
    """Dataset → the digest of all that."""


@dataclass(frozen=True)
class ColumnSnapshot:
    """The columns at one place of the workflow, as a file will have them."""

    name: str
    """Below `products/`, without its ending."""
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Learned:
    """What earlier runs say of the largest task of a segment."""

    segment: int
    stages: tuple[str, ...]
    events: int
    peak_memory: int
    """Bytes that it will take."""
    tasks: int
    """From how many tasks that is known."""
    pool: str
    """Where it runs first."""
    memory: int | None
    """Bytes that a task has there."""


@dataclass(frozen=True, repr=False)
class Plan:
    """What will be done: enough to run it, to show it and to say why."""

    workflow: Workflow
    placement: Placement
    datasets: tuple[DatasetInfo, ...]
    partitions: tuple[Partition, ...]
    segments: tuple[Segment, ...]
    tasks: TaskTable
    layout: TaskLayout
    products: tuple[ProductPlan, ...]
    stages: tuple[StageSummary, ...]
    limits: RunLimits = RunLimits()
    warnings: tuple[str, ...] = ()
    digest: str = ""
    ids: ResultIds = ResultIds()
    made_of: Mapping[str, MadeOf] = field(default_factory=dict)
    """Stage → what its results are made of."""
    resources: tuple[ResourceFile, ...] = ()
    """Files that own code or operations read, or that stages name under `depends_on`."""
    snapshots: tuple[ColumnSnapshot, ...] = ()
    """What observers ask for."""
    skipped: tuple[SkippedFile, ...] = ()
    """Files that are not read, because they cannot be."""
    learned: tuple[Learned, ...] = ()
    """From earlier runs; it decides nothing."""
    probes: Mapping[str, Probed] = field(default_factory=dict)
    """Pool → what its last probe found; it decides nothing either."""

    @property
    def events(self) -> int:
        """Events to read, all datasets together."""
        return sum(partition.events for partition in self.partitions)

    def __repr__(self) -> str:
        stages = f"{plural(len(self.stages), 'stage')} in {plural(len(self.segments), 'segment')}"
        data = f"{plural(self.events, 'event')} in {plural(len(self.partitions), 'partition')}"
        return f"Plan({stages}, {data}, {plural(len(self.tasks), 'task')})"

    def _repr_html_(self) -> str:
        from cenote.planning.picture.draw import plan_as_html  # notebooks only, and it draws plans

        return plan_as_html(self)

    def result_tasks(self) -> NDArray[np.bool_]:
        """Whether the run is for a task's sake: it holds a whole product, or no task uses it."""
        results: NDArray[np.bool_] = np.diff(self.tasks.users_start) == 0
        results[[product.task for product in self.products]] = True
        return results

    def writes_of(self, stage: str) -> tuple[WriteStep, ...]:
        """The skims of a stage."""
        return next((step.writes for segment in self.segments for step in segment.steps if step.stage == stage), ())

    def stages_of(self, task: int) -> Sequence[str]:
        """The stages that a task runs (for a merge: those whose products it merges)."""
        segment = self.segments[int(self.tasks.segment[task])]
        if self.tasks.kind[task] == MERGE:
            return [step.stage for step in segment.steps if step.product is not None or step.writes]
        return segment.stages
