"""Follow one variation through the stages of a workflow, and note what it adds to them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from itertools import chain, count
from typing import Any

from cenote.analysis.expressions.functions import CONSTANTS
from cenote.analysis.expressions.parser import expression
from cenote.analysis.operations.interface import Operation, Scope
from cenote.analysis.operations.support.events import describes_dataset
from cenote.common import errors
from cenote.common.errors import Problem
from cenote.common.text import column_name
from cenote.common.values import dataclass
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.systematics import Fillings, Shift, Variation, Varied, clone_id, twin_name
from cenote.language.workflow import Stage, Workflow
from cenote.planning.stages.resolve import Resolved, ResolvedStage


@dataclass(frozen=True)
class AddedStage:
    """A stage that runs for a variation, for some datasets."""

    stage: Stage
    datasets: set[str]


@dataclass
class KnownColumns:
    """The columns of the nominal analysis, looked up once for all variations."""

    _before: dict[tuple[int, str], Collection[str]] = field(default_factory=dict)
    _anywhere: dict[int, Collection[str]] = field(default_factory=dict)

    def before(self, resolved: Resolved, number: int, stage: ResolvedStage) -> Collection[str]:
        """Those that come in to a stage, for a flavour; empty where no file could be looked at."""
        key = number, stage.id
        if key not in self._before:
            columns: list[Iterable[str]] = [resolved.available.get((number, need)) or () for need in stage.inputs]
            if not columns:
                columns = [resolved.flavours[number].columns.get(stage.root) or ()]
            self._before[key] = dict.fromkeys(name for some in columns for name in some)
        return self._before[key]

    def anywhere(self, resolved: Resolved, number: int) -> Collection[str]:
        """Those that are there at some stage."""
        if number not in self._anywhere:
            before = [self.before(resolved, number, stage) for stage in resolved.stages]
            after = [resolved.available.get((number, stage.id)) or () for stage in resolved.stages]
            self._anywhere[number] = dict.fromkeys(name for some in (*before, *after) for name in some)
        return self._anywhere[number]


@dataclass
class Additions:
    """What variations add to the stages of a workflow, as it is found."""

    beside: dict[str, dict[Any, AddedStage]] = field(default_factory=dict)
    """Stage → what runs before it, in order. Any: what tells them apart."""
    clones: dict[str, dict[Any, AddedStage]] = field(default_factory=dict)
    """Stage → what runs like it, on events of a variation."""
    shifts: dict[str, dict[Any, tuple[Shift, set[str]]]] = field(default_factory=dict)
    """Stage with a histogram → how it is filled once more, and for which datasets."""
    changed: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    """Stage with a histogram → the variations that change it → for which datasets."""
    problems: list[Problem] = field(default_factory=list)
    kept_nominal: dict[str, set[str]] = field(default_factory=dict)
    """Stage that sees a whole dataset, or all → the variations in which its product would differ."""
    columns: KnownColumns = field(default_factory=KnownColumns)
    unknown: set[tuple[str, str]] = field(default_factory=set)
    """Names in weights and patches that mean nothing, by variation: said once."""
    ids: set[str] = field(default_factory=set)
    """Of all that was added: a stage may run beside the nominal events of one dataset and be cloned for another."""

    def free_id(self, stage: str, variation: str) -> str:
        """What one more stage is called that runs for a variation."""
        usual = clone_id(stage, variation)
        numbered = (f"{usual}~{number}" for number in count(2))
        free = next(name for name in chain((usual,), numbered) if name not in self.ids)
        self.ids.add(free)
        return free

    def note(self, stage: ResolvedStage, variation: Variation, datasets: Iterable[str]) -> None:
        """Note that a variation changes a histogram."""
        self.changed.setdefault(stage.id, {}).setdefault(variation.name, set()).update(datasets)

    def report(self, workflow: Workflow, problem: Problem, variation: Variation, *path: str) -> None:
        """Note a problem with a variation."""
        place = workflow.place(*variation.path, *path) if variation.path else variation.place
        self.problems.append(problem.at(place))


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


@dataclass
class VariationWalk:
    """Follows one variation through the stages, for the datasets of one flavour."""

    workflow: Workflow
    resolved: Resolved
    added: Additions
    variation: Variation
    number: int
    datasets: set[str]
    states: dict[str, _State] = field(default_factory=dict)

    def run(self) -> None:
        """Note what it adds."""
        for stage in self.resolved.stages:
            self.states[stage.id] = self._after(stage)
        self._check_names(self.added.columns.anywhere(self.resolved, self.number))

    def _check_names(self, there: Collection[str]) -> None:
        """Every column that the variation names must be there at some stage."""
        if not there:  # no file could be looked at
            return
        variation = self.variation
        named = [("requires", name) for name in variation.requires]
        named += [("replace", name) for pair in variation.replace.items() for name in pair]
        named += [("export", name) for name in variation.export.values()]
        for key, name in named:
            if column_name(name, there) not in there:
                words = f"variation '{variation.name}' names '{name}', which no file and no stage provides"
                datasets = f"datasets: {', '.join(sorted(self.datasets))}"
                problem = errors.unknown_name(
                    errors.UNKNOWN_COLUMN, words, name, [one for one in there if one != name], what="columns"
                )
                self.added.report(self.workflow, replace(problem, details=(*problem.details, datasets)), variation, key)

    def _factors(self, stage: ResolvedStage) -> tuple[str, ...]:
        """What multiplies the weight of a stage; names in it that mean nothing there are a problem."""
        there = self._columns_before(stage)
        constants = {*self.workflow.constants, *CONSTANTS}
        for text in self.variation.factors:
            for name in expression(text).names:
                known = column_name(name, there) in there or name in constants or describes_dataset(name)
                if there and not known and (self.variation.name, name) not in self.added.unknown:
                    self.added.unknown.add((self.variation.name, name))
                    own = self.variation.name
                    words = f"variation '{own}' reads '{name}', which is not there at stage '{stage.id}'"
                    problem = errors.unknown_name(errors.UNKNOWN_COLUMN, words, name, there, what="columns here")
                    hint = problem.hint or "say under `applies_to:` which datasets the variation is for"
                    self.added.report(self.workflow, replace(problem, hint=hint), self.variation, "weight", "multiply")
        return self.variation.factors

    def _check_patched(self, stage: ResolvedStage, operation: Operation) -> None:
        """What the stage reads in this variation alone must be there."""
        there = self._columns_before(stage)
        meant = {
            *stage.applied[self.number].operation.reads(),
            *operation.facts(),
            *self.workflow.constants,
            *CONSTANTS,
        }
        for name in operation.reads() if there else ():
            known = name in meant or column_name(name, there) in there
            if not known and (self.variation.name, name) not in self.added.unknown:
                self.added.unknown.add((self.variation.name, name))
                words = f"variation '{self.variation.name}' makes stage '{stage.id}' read '{name}', which is not there"
                problem = errors.unknown_name(errors.UNKNOWN_COLUMN, words, name, there, what="columns here")
                self.added.report(self.workflow, problem, self.variation, "patch")

    def _columns_before(self, stage: ResolvedStage) -> Collection[str]:
        return self.added.columns.before(self.resolved, self.number, stage)

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
        if not over and self.variation.replace:
            there = self._columns_before(stage)
            for name, other in self.variation.replace.items():
                known, instead = column_name(name, there), column_name(other, there)
                if known in there and instead in there and known not in active:
                    columns[known] = instead
                    active.add(known)
        return _State(tuple(streams) if own else None, columns, frozenset(active), over)

    def _after(self, stage: ResolvedStage) -> _State:
        """What the variation makes of a stage."""
        before = self._before(stage)
        if stage.id in self.variation.stop_before:
            self._export(stage, before)
            return _State(over=True)
        if before.over or self.number not in stage.applied:
            return before
        if stage.scope is not Scope.PARTITION:
            self._note_nominal(stage, before)
            return before
        operation = self._operation(stage)
        if self.variation.anchor == stage.id:
            self._check_patched(stage, operation)
        if operation.takes_variations:
            self._fill(stage, operation, before)
            return before
        if operation.product is not None and operation.keeps_every_event() and not operation.adds():
            return before  # what it makes is the nominal one's alone
        if before.streams is not None:
            return self._cloned(stage, before)
        patched, adds = self.variation.anchor == stage.id, operation.adds()
        lost = set(before.columns.values()).intersection(adds) or (before.columns and operation.keeps() is not None)
        if not (patched or lost or self._read(operation, before)):
            return replace(before, columns=_without(before.columns, adds))
        if not lost and operation.keeps_every_event():
            return self._beside(stage, operation, before)
        return self._cloned(stage, before)

    def _note_nominal(self, stage: ResolvedStage, before: _State) -> None:
        """What is made of a whole dataset, or of all data, is nominal: note where it would differ."""
        if self.variation.anchor == stage.id:
            scope = f"which has scope '{stage.scope.value}'"
            words = f"variation '{self.variation.name}' cannot change stage '{stage.id}', {scope}"
            hint = "a variation can change the stage that uses its product"
            self.added.report(self.workflow, Problem(errors.BAD_VALUE, words, hint=hint), self.variation, "anchor")
        used = any(stage.id in one.stage.needs for one in self.resolved.stages)
        if used and (before.streams is not None or self._read(stage.applied[self.number].operation, before)):
            self.added.kept_nominal.setdefault(stage.id, set()).add(self.variation.name)

    def _operation(self, stage: ResolvedStage) -> Operation:
        """What the stage does in this variation."""
        usual = stage.applied[self.number].operation
        if self.variation.anchor != stage.id:
            return usual
        try:
            made: Operation = registry.make(PluginKind.OPERATION, stage.stage.op, self.variation.params)
        except registry.BadSettingsError:
            return usual  # the language's check has reported it, with its place
        return made.for_stage(stage.id).resolve(list(self._columns_before(stage)))

    def _read(self, operation: Operation, before: _State) -> dict[str, str]:
        """Those of the columns that differ which an operation reads."""
        read = (column_name(name, before.columns) for name in (*operation.reads(), *operation.copies().values()))
        return {name: before.columns[name] for name in dict.fromkeys(read) if name in before.columns}

    def _export(self, stage: ResolvedStage, before: _State) -> None:
        """Leave columns of the variation under names of their own, for the stages where it ends."""
        exported = self.variation.export
        if before.over or not exported or self.number not in stage.applied:
            return
        if before.streams is not None:
            words = (
                f"variation '{self.variation.name}' has other events than stage '{stage.id}': it can export no columns"
            )
            hint = "histograms carry variations by themselves, without `export` and `stop_before`"
            self.added.report(self.workflow, Problem(errors.BAD_VALUE, words, hint=hint), self.variation, "export")
            return
        columns = {name: before.columns[name] for name in exported.values() if name in before.columns}
        same = {name: name for name in exported}
        varied = Varied(self.variation.name, stage.id, columns, beside=True, names=same)
        clone = replace(self._clone(stage), op="define", params=dict(exported), varied=varied, leaves_product=False)
        self._keep(self.added.beside, stage, clone)

    def _params(self, stage: ResolvedStage) -> Mapping[str, Any]:
        return self.variation.params if self.variation.anchor == stage.id else stage.stage.params

    def _beside(self, stage: ResolvedStage, operation: Operation, before: _State) -> _State:
        columns = self._read(operation, before)
        varied = Varied(self.variation.name, stage.id, columns, beside=True)
        self._keep(self.added.beside, stage, replace(self._clone(stage), varied=varied, leaves_product=False))
        own = {name: twin_name(name, self.variation.name) for name in operation.adds()}
        return replace(before, columns={**_without(before.columns, operation.adds()), **own})

    def _cloned(self, stage: ResolvedStage, before: _State) -> _State:
        systematics = self.workflow.systematics
        varied = Varied(self.variation.name, stage.id, before.columns)
        clone = replace(
            self._clone(stage),
            needs=self._needs(stage, before),
            varied=varied,
            leaves_product=bool(systematics and systematics.cutflows) and stage.operation.product == "cutflow",
        )
        return _State(streams=(self._keep(self.added.clones, stage, clone),), active=before.active)

    def _needs(self, stage: ResolvedStage, before: _State) -> tuple[str, ...]:
        others = (need for need in stage.stage.needs if need not in stage.inputs)
        return (*(stage.inputs if before.streams is None else before.streams), *others)

    def _clone(self, stage: ResolvedStage) -> Stage:
        """The stage as written, without what it leaves."""
        return replace(stage.stage, params=self._params(stage), write=(), render=())

    def _keep(self, kept: dict[str, dict[Any, AddedStage]], stage: ResolvedStage, clone: Stage) -> str:
        """Note a stage, once for all datasets for which it is the same; gives its id."""
        found = kept.setdefault(stage.id, {})
        varied = clone.varied
        key = (self.variation.name, clone.needs, tuple(sorted(varied.columns.items())) if varied else ())
        if key not in found:
            found[key] = AddedStage(replace(clone, id=self.added.free_id(stage.id, self.variation.name)), set())
        found[key].datasets.update(self.datasets)
        return found[key].stage.id

    def _has_other_axes(self, stage: ResolvedStage, operation: Operation) -> bool:
        if _axes(operation) == _axes(stage.applied[self.number].operation):
            return False
        words = f"variation '{self.variation.name}' gives the histogram of stage '{stage.id}' other axes"
        hint = "a variation can change what fills an axis (`source`) and `weight_expr`, not the bins"
        self.added.report(self.workflow, Problem(errors.BAD_VALUE, words, hint=hint), self.variation, "patch")
        return True

    def _fill(self, stage: ResolvedStage, operation: Operation, before: _State) -> None:
        """Fill a histogram once more: from the nominal events, or from those of the variation."""
        variation, patched = self.variation, self.variation.anchor == stage.id
        factors = self._factors(stage) if getattr(operation, "weighted", False) else ()
        columns = self._read(operation, before)
        if before.streams is None and not (columns or factors or patched):
            return
        if patched and self._has_other_axes(stage, operation):
            return
        if variation.name in getattr(operation, "own_labels", ()):
            words = f"variation '{variation.name}' is called like a weight of stage '{stage.id}', in the same histogram"
            hint = "give one of them another name"
            self.added.report(self.workflow, Problem(errors.DUPLICATE_ID, words, hint=hint), variation, "name")
            return
        self.added.note(stage, variation, self.datasets)
        if before.streams is None:
            shift = Shift(variation.name, columns, factors, variation.params if patched else None)
            key = (variation.name, tuple(sorted(columns.items())))
            kept = self.added.shifts.setdefault(stage.id, {}).setdefault(key, (shift, set()))
            kept[1].update(self.datasets)
            return
        clone = replace(
            self._clone(stage),
            needs=self._needs(stage, before),
            varied=Varied(variation.name, stage.id, before.columns),
            fillings=Fillings((), variation.name, factors),
        )
        self._keep(self.added.clones, stage, clone)


def _axes(operation: Operation) -> list[Any]:
    """What must not differ between fillings of one histogram. Any: whatever settings hold."""
    params = operation.as_params()
    axes = [{**axis, "source": "", "label": ""} for axis in params.get("axes", ())]
    return [axes, params.get("dataset_axis"), params.get("storage"), params.get("variations")]


def _without(columns: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {name: other for name, other in columns.items() if name not in names}
