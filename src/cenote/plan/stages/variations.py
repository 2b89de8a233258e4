"""Add to a workflow what its variations need: stages that a variation changes run again, all others are shared.

A variation goes along with the nominal events as far as it can. Columns that it changes are computed beside the nominal
ones, by stages that come before the one they are a variation of; histograms are filled once more. Only where it changes
which events there are does it get events of its own: from there on, stages are cloned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from cenote import errors
from cenote.errors import Problem
from cenote.expressions.expression import expression
from cenote.expressions.functions import CONSTANTS
from cenote.expressions.problems import BadExpressionError
from cenote.language.systematics import NOMINAL, Fillings, Shift, Variation, Varied, clone_id, twin_name
from cenote.language.workflow import AppliesTo, Dataset, Stage, Workflow
from cenote.names import column_name
from cenote.operations.interface import Operation, Scope
from cenote.operations.support.events import describes_dataset
from cenote.plan.stages.resolve import Applied, Resolved, ResolvedStage
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind
from cenote.values import dataclass


@dataclass(frozen=True)
class Expanded:
    """A workflow with the stages of its variations."""

    workflow: Workflow
    problems: tuple[Problem, ...] = ()


def with_replaced_datasets(workflow: Workflow) -> Workflow:
    """The same workflow; datasets that take the place of others know it."""
    variations = workflow.systematics.variations if workflow.systematics else ()
    stands_for = {other: name for variation in variations for name, other in variation.datasets.items()}
    if not stands_for:
        return workflow
    datasets = tuple(replace(one, stands_for=stands_for.get(one.name)) for one in workflow.datasets)
    return replace(workflow, datasets=datasets)


def without_stages(workflow: Workflow, names: Collection[str]) -> Workflow:
    """Without stages beside nominal ones: who needed one of them needs what that needed."""
    instead: dict[str, tuple[str, ...]] = {}
    kept: list[Stage] = []
    for stage in workflow.stages:
        needs = tuple(dict.fromkeys(name for need in stage.needs for name in instead.get(need, (need,))))
        if stage.id in names:
            instead[stage.id] = needs
        else:
            kept.append(replace(stage, needs=needs))
    return replace(workflow, stages=tuple(kept))


def expand(workflow: Workflow, resolved: Resolved) -> Expanded:
    """The workflow with what all of its variations add; `resolved` has its stages as they are without them."""
    if workflow.systematics is None:
        return Expanded(workflow)
    work = _Expansion(workflow, resolved)
    work.check_datasets()
    for variation in workflow.systematics.variations:
        if work.understands(variation):
            for number in range(len(resolved.flavours)):
                work.add(variation, number)
    return Expanded(work.workflow_with_variations(), tuple(errors.unique(work.problems)))


@dataclass(frozen=True)
class _State:
    """What a variation has made of the events after a stage."""

    streams: tuple[str, ...] | None = None
    """The stages that its own events come from; None: they are the nominal ones."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column → where the variation's values of it are."""
    active: frozenset[str] = frozenset()
    """Columns whose replacement has begun: what stages make of them later counts."""
    over: bool = False
    """Whether the variation ended before."""


@dataclass(frozen=True)
class _Added:
    """A stage that runs for a variation, for some datasets."""

    stage: Stage
    datasets: set[str]


@dataclass
class _Expansion:
    """Collects what variations add to the stages of a workflow."""

    workflow: Workflow
    resolved: Resolved
    beside: dict[str, dict[Any, _Added]] = field(default_factory=dict)
    """Stage → what runs before it, in order. Any: what tells them apart."""
    clones: dict[str, dict[Any, _Added]] = field(default_factory=dict)
    shifts: dict[str, dict[Any, tuple[Shift, set[str]]]] = field(default_factory=dict)
    changed: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    """Stage with a histogram → the variations that change it → for which datasets."""
    problems: list[Problem] = field(default_factory=list)
    unknown: set[tuple[str, str]] = field(default_factory=set)
    """Names in weights that mean nothing, by variation: said once."""

    def __post_init__(self) -> None:
        self.by_name = {dataset.name: dataset for dataset in self.workflow.datasets}

    def understands(self, variation: Variation) -> bool:
        """Whether its expressions are some; what is wrong with them is noted."""
        before = len(self.problems)
        for text in variation.factors:
            try:
                _ = expression(text).tree
            except BadExpressionError as wrong:
                words = f"variation '{variation.name}': {wrong}"
                self.report(Problem(errors.BAD_EXPRESSION, words), variation, "weight", "multiply")
        return len(self.problems) == before

    def check_datasets(self) -> None:
        """A dataset takes the place of one other, which has a place of its own."""
        systematics = self.workflow.systematics
        first: dict[str, str] = {}
        for variation in systematics.variations if systematics else ():
            for name, other in variation.datasets.items():
                if first.setdefault(other, name) != name:
                    words = f"dataset '{other}' takes the place of both '{first[other]}' and '{name}'"
                    hint = "list its files under two names"
                elif name == other or name in first:
                    words = f"dataset '{name}' is replaced, and takes the place of another one itself"
                    hint = "a dataset that replaces another one is read for its variations only"
                else:
                    continue
                self.report(Problem(errors.BAD_VALUE, words, hint=hint), variation, "datasets", "replace", name)

    def add(self, variation: Variation, number: int) -> None:
        """What a variation does to the datasets of a flavour."""
        flavour = self.resolved.flavours[number]
        datasets = {name for name in flavour.datasets if name in self.by_name}
        self._note_replaced(variation, number, datasets)
        varied = {name for name in datasets if _is_varied(self.by_name[name], variation)}
        if varied and variation.changes_stages:
            _Walk(self, variation, number, varied).run()

    def _note_replaced(self, variation: Variation, number: int, datasets: Collection[str]) -> None:
        """Histograms of a dataset whose events come from another one differ."""
        replaced = {name for name, other in variation.datasets.items() if other in datasets}
        for stage in self.resolved.stages if replaced else ():
            if number in stage.applied and stage.operation.takes_variations:
                self.note(stage, variation, replaced)

    def note(self, stage: ResolvedStage, variation: Variation, datasets: Iterable[str]) -> None:
        """Note that a variation changes a histogram."""
        self.changed.setdefault(stage.id, {}).setdefault(variation.name, set()).update(datasets)

    def report(self, problem: Problem, variation: Variation, *path: str) -> None:
        """Note a problem with a variation."""
        self.problems.append(problem.at(self.workflow.place(*variation.path, *path)))

    # the whole

    def workflow_with_variations(self) -> Workflow:
        """The workflow with everything that was added."""
        stages: list[Stage] = []
        scopes = {stage.id: stage.scope for stage in self.resolved.stages}
        for stage in self.workflow.stages:
            if scopes.get(stage.id, Scope.PARTITION) is not Scope.PARTITION:
                stages.append(self._without_stand_ins(stage))
                continue
            before = self._chained(stage)
            inputs = self._carrying(stage)
            others = tuple(need for need in stage.needs if need not in inputs)
            needs = (before[-1].id, *others) if before else stage.needs
            stages += [*before, replace(stage, needs=needs, fillings=self._fillings(stage)), *self._cloned(stage)]
        return replace(self.workflow, stages=_used(stages))

    def _carrying(self, stage: Stage) -> tuple[str, ...]:
        found = next((one for one in self.resolved.stages if one.id == stage.id), None)
        return stage.needs if found is None else found.inputs

    def _without_stand_ins(self, stage: Stage) -> Stage:
        """What sees all data at once sees the nominal data."""
        if not any(dataset.stands_for for dataset in self.workflow.datasets):
            return stage
        nominal = [one for one in self.workflow.datasets if not one.stands_for and stage.applies_to.includes(one)]
        return replace(stage, applies_to=AppliesTo(exactly=frozenset(one.name for one in nominal)))

    def _chained(self, stage: Stage) -> list[Stage]:
        """What runs beside a stage, each one after the other."""
        inputs = self._carrying(stage)
        others = tuple(need for need in stage.needs if need not in inputs)
        found: list[Stage] = []
        for added in self.beside.get(stage.id, {}).values():
            needs = (found[-1].id, *others) if found else stage.needs
            found.append(replace(added.stage, needs=needs, applies_to=AppliesTo(exactly=frozenset(added.datasets))))
        return found

    def _cloned(self, stage: Stage) -> list[Stage]:
        return [
            replace(
                added.stage,
                applies_to=AppliesTo(exactly=frozenset(added.datasets)),
                fillings=added.stage.fillings and replace(added.stage.fillings, labels=self._labels(stage.id)),
            )
            for added in self.clones.get(stage.id, {}).values()
        ]

    def _labels(self, stage: str) -> tuple[str, ...]:
        """In the order of the workflow."""
        variations = self.workflow.systematics.variations if self.workflow.systematics else ()
        return (NOMINAL, *(one.name for one in variations if one.name in self.changed.get(stage, {})))

    def _fillings(self, stage: Stage) -> Fillings | None:
        labels = self._labels(stage.id)
        if len(labels) == 1:
            return None
        found = self.shifts.get(stage.id, {}).values()
        return Fillings(
            labels=labels,
            shifts=tuple(replace(shift, datasets=frozenset(datasets)) for shift, datasets in found),
            instead=self._instead(labels),
            varied={label: frozenset(self.changed[stage.id][label]) for label in labels[1:]},
        )

    def _instead(self, labels: Collection[str]) -> dict[str, tuple[str, ...]]:
        variations = self.workflow.systematics.variations if self.workflow.systematics else ()
        return {
            dataset.name: tuple(
                one.name for one in variations if one.name in labels and dataset.name in one.datasets.values()
            )
            for dataset in self.workflow.datasets
            if dataset.stands_for
        }


def _is_varied(dataset: Dataset, variation: Variation) -> bool:
    """Whether stages differ for a dataset in a variation: one that is replaced leaves that to the other."""
    if dataset.stands_for and dataset.name not in variation.datasets.values():
        return False
    if dataset.name in variation.datasets:
        return False
    wanted = AppliesTo(variation.applies_to.eventtypes, variation.applies_to.datasets)
    return wanted.includes(dataset)


def _used(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Without clones that nothing follows and that leave nothing."""
    needed: set[str] = set()
    kept: list[Stage] = []
    for stage in reversed(stages):
        own_events = stage.varied is not None and not stage.varied.beside
        if not own_events or stage.id in needed or stage.leaves_product:
            kept.append(stage)
            needed.update(stage.needs)
    return tuple(reversed(kept))


@dataclass
class _Walk:
    """Follows one variation through the stages, for the datasets of one flavour."""

    work: _Expansion
    variation: Variation
    number: int
    datasets: set[str]
    states: dict[str, _State] = field(default_factory=dict)

    def run(self) -> None:
        seen: set[str] = set()
        for stage in self.work.resolved.stages:
            seen.update(self._columns_before(stage))
            self.states[stage.id] = self._after(stage)
            seen.update(self.work.resolved.available.get((self.number, stage.id)) or ())
        self._check_names(seen)

    def _check_names(self, there: Collection[str]) -> None:
        """Every column that the variation names must be there at some stage."""
        if not there:  # no file could be looked at
            return
        variation = self.variation
        named = [("requires", name) for name in variation.requires]
        named += [("replace", name) for pair in variation.replace.items() for name in pair]
        for key, name in named:
            if column_name(name, there) not in there:
                words = f"variation '{variation.name}' names '{name}', which no file and no stage provides"
                datasets = f"datasets: {', '.join(sorted(self.datasets))}"
                problem = errors.unknown_name(
                    errors.UNKNOWN_COLUMN, words, name, [one for one in there if one != name], what="columns"
                )
                self.work.report(replace(problem, details=(*problem.details, datasets)), variation, key)

    def _factors(self, stage: ResolvedStage) -> tuple[str, ...]:
        """What multiplies the weight of a stage; names in it that mean nothing there are a problem."""
        there = set(self._columns_before(stage))
        constants = {*self.work.workflow.constants, *CONSTANTS}
        for text in self.variation.factors:
            for name in expression(text).names:
                known = column_name(name, there) in there or name in constants or describes_dataset(name)
                if there and not known and (self.variation.name, name) not in self.work.unknown:
                    self.work.unknown.add((self.variation.name, name))
                    own = self.variation.name
                    words = f"variation '{own}' reads '{name}', which is not there at stage '{stage.id}'"
                    problem = errors.unknown_name(errors.UNKNOWN_COLUMN, words, name, there, what="columns here")
                    hint = problem.hint or "say under `applies_to:` which datasets the variation is for"
                    self.work.report(replace(problem, hint=hint), self.variation, "weight", "multiply")
        return self.variation.factors

    def _columns_before(self, stage: ResolvedStage) -> Iterable[str]:
        resolved = self.work.resolved
        if not stage.inputs:
            return resolved.flavours[self.number].columns.get(stage.root) or ()
        return {name for need in stage.inputs for name in resolved.available.get((self.number, need)) or ()}

    def _before(self, stage: ResolvedStage) -> _State:
        """What came in."""
        states = {need: self.states.get(need, _State()) for need in stage.inputs}
        columns: dict[str, str] = {}
        active: set[str] = set()
        streams: dict[str, None] = {}
        own = any(state.streams is not None for state in states.values())
        for need, state in states.items():
            columns.update(state.columns)
            active |= state.active
            streams.update(dict.fromkeys((need,) if state.streams is None else state.streams))
        over = any(state.over for state in states.values())
        if not over:
            there = set(self._columns_before(stage))
            for name, other in self.variation.replace.items():
                known, instead = column_name(name, there), column_name(other, there)
                if known in there and instead in there and known not in active:
                    columns[known] = instead
                    active.add(known)
        return _State(tuple(streams) if own else None, columns, frozenset(active), over)

    def _after(self, stage: ResolvedStage) -> _State:
        """What the variation makes of a stage."""
        if stage.id in self.variation.stop_before:
            return _State(over=True)
        before = self._before(stage)
        applied = stage.applied.get(self.number)
        if before.over or applied is None or stage.scope is not Scope.PARTITION:
            return before
        if applied.operation.takes_variations:
            self._fill(stage, applied, before)
            return before
        if applied.operation.product is not None and applied.operation.keeps_every_event():
            return before  # what it makes is the nominal one's alone
        if before.streams is not None:
            return self._cloned(stage, before)
        patched = self.variation.anchor == stage.id
        lost = set(before.columns.values()).intersection(applied.adds) or (
            before.columns and applied.operation.keeps() is not None
        )
        if not (patched or lost or self._read(applied, before)):
            return replace(before, columns=_without(before.columns, applied.adds))
        if not lost and applied.operation.keeps_every_event():
            return self._beside(stage, applied, before)
        return self._cloned(stage, before)

    def _read(self, applied: Applied, before: _State) -> dict[str, str]:
        """Those of the columns that differ which a stage reads."""
        read = [*applied.reads, *applied.operation.copies().values()]
        return {name: before.columns[name] for name in dict.fromkeys(read) if name in before.columns}

    def _params(self, stage: ResolvedStage) -> Mapping[str, Any]:
        return self.variation.params if self.variation.anchor == stage.id else stage.stage.params

    def _beside(self, stage: ResolvedStage, applied: Applied, before: _State) -> _State:
        columns = self._read(applied, before)
        varied = Varied(self.variation.name, stage.id, columns, beside=True)
        self._keep(self.work.beside, stage, replace(self._clone(stage), varied=varied, leaves_product=False))
        own = {name: twin_name(name, self.variation.name) for name in applied.adds}
        return replace(before, columns={**_without(before.columns, applied.adds), **own})

    def _cloned(self, stage: ResolvedStage, before: _State) -> _State:
        systematics = self.work.workflow.systematics
        varied = Varied(self.variation.name, stage.id, before.columns)
        clone = replace(
            self._clone(stage),
            needs=self._needs(stage, before),
            varied=varied,
            leaves_product=bool(systematics and systematics.cutflows) and stage.operation.product == "cutflow",
        )
        return _State(streams=(self._keep(self.work.clones, stage, clone),), active=before.active)

    def _needs(self, stage: ResolvedStage, before: _State) -> tuple[str, ...]:
        others = (need for need in stage.stage.needs if need not in stage.inputs)
        return (*(stage.inputs if before.streams is None else before.streams), *others)

    def _clone(self, stage: ResolvedStage) -> Stage:
        """The stage as written, without what it leaves."""
        return replace(stage.stage, params=self._params(stage), write=(), render=())

    def _keep(self, kept: dict[str, dict[Any, _Added]], stage: ResolvedStage, clone: Stage) -> str:
        """Note a stage, once for all datasets for which it is the same; gives its id."""
        found = kept.setdefault(stage.id, {})
        varied = clone.varied
        key = (self.variation.name, clone.needs, tuple(sorted(varied.columns.items())) if varied else ())
        if key not in found:
            same = sum(1 for name, *_ in found if name == self.variation.name)
            name = clone_id(stage.id, self.variation.name) + (f"~{same + 1}" if same else "")
            found[key] = _Added(replace(clone, id=name), set())
        found[key].datasets.update(self.datasets)
        return found[key].stage.id

    def _has_other_axes(self, stage: ResolvedStage, applied: Applied) -> bool:
        made: Operation = registry.make(PluginKind.OPERATION, stage.stage.op, self.variation.params)
        if _axes(made) == _axes(applied.operation):
            return False
        words = f"variation '{self.variation.name}' gives the histogram of stage '{stage.id}' other axes"
        hint = "a variation can change what fills an axis (`source`) and `weight_expr`, not the bins"
        self.work.report(Problem(errors.BAD_VALUE, words, hint=hint), self.variation, "patch")
        return True

    def _fill(self, stage: ResolvedStage, applied: Applied, before: _State) -> None:
        """Fill a histogram once more: from the nominal events, or from those of the variation."""
        variation, patched = self.variation, self.variation.anchor == stage.id
        factors = self._factors(stage) if getattr(applied.operation, "weighted", False) else ()
        columns = self._read(applied, before)
        if before.streams is None and not (columns or factors or patched):
            return
        if patched and self._has_other_axes(stage, applied):
            return
        self.work.note(stage, variation, self.datasets)
        if before.streams is None:
            shift = Shift(variation.name, columns, factors, variation.params if patched else None)
            key = (variation.name, tuple(sorted(columns.items())))
            kept = self.work.shifts.setdefault(stage.id, {}).setdefault(key, (shift, set()))
            kept[1].update(self.datasets)
            return
        clone = replace(
            self._clone(stage),
            needs=self._needs(stage, before),
            varied=Varied(variation.name, stage.id, before.columns),
            fillings=Fillings((), variation.name, factors),
        )
        self._keep(self.work.clones, stage, clone)


def _axes(operation: Operation) -> list[Any]:
    """What must not differ between fillings of one histogram. Any: whatever settings hold."""
    params = operation.as_params()
    axes = [{**axis, "source": "", "label": ""} for axis in params.get("axes", ())]
    return [axes, params.get("dataset_axis"), params.get("storage"), params.get("variations")]


def _without(columns: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {name: other for name, other in columns.items() if name not in names}
