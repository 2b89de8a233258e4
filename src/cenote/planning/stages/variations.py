"""Add to a workflow what its variations need: stages that a variation changes run again, all others are shared.

A variation goes along with the nominal events as far as it can. Columns that it changes are computed beside the nominal
ones, by stages that come before the one they are a variation of; histograms are filled once more. Only where it changes
which events there are does it get events of its own: from there on, stages are cloned.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field, replace

from cenote.analysis.expressions.functions import CONSTANTS
from cenote.analysis.expressions.parser import expression
from cenote.analysis.expressions.problems import BadExpressionError
from cenote.analysis.operations.interface import Scope
from cenote.analysis.operations.support.events import describes_dataset
from cenote.common import errors
from cenote.common.errors import Problem
from cenote.common.text import column_name, listed, plural
from cenote.common.values import dataclass
from cenote.language.systematics import NOMINAL, Fillings, Variation
from cenote.language.workflow import AppliesTo, Dataset, Stage, Workflow
from cenote.planning.stages.resolve import Resolved
from cenote.planning.stages.variation_walk import Additions, VariationWalk


@dataclass(frozen=True)
class Expanded:
    """A workflow with the stages of its variations."""

    workflow: Workflow
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


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
    understood = [variation for variation in workflow.systematics.variations if work.understands(variation)]
    for variation in understood:
        for number in range(len(resolved.flavours)):
            work.add(variation, number)
    work.check_names()
    warnings = [
        f"stage '{stage}' sees the nominal events at once: its product does not vary for {listed(names)}"
        for stage, names in work.added.kept_nominal.items()
    ]
    if idle := work.without_effect(understood):
        work.check_factors(idle)
        names = [variation.name for variation in idle]
        warnings.append(f"no histogram depends on {plural(len(names), 'variation')}: {listed(names)}{_why(idle)}")
    return Expanded(work.workflow_with_variations(), tuple(errors.unique(work.added.problems)), tuple(warnings))


@dataclass
class _Expansion:
    """Collects what variations add to the stages of a workflow."""

    workflow: Workflow
    resolved: Resolved
    added: Additions = field(default_factory=Additions)

    def __post_init__(self) -> None:
        self.by_name = {dataset.name: dataset for dataset in self.workflow.datasets}
        self.stages = {stage.id: stage for stage in self.resolved.stages}

    def understands(self, variation: Variation) -> bool:
        """Whether its expressions are some; what is wrong with them is noted."""
        before = len(self.added.problems)
        for text in variation.factors:
            try:
                _ = expression(text).tree
            except BadExpressionError as wrong:
                words = f"variation '{variation.name}': {wrong}"
                self.report(Problem(errors.BAD_EXPRESSION, words), variation, "weight", "multiply")
        return len(self.added.problems) == before

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

    def check_names(self) -> None:
        """What runs for a variation has an id of its own."""
        for added in (*self.added.beside.values(), *self.added.clones.values()):
            for stage in (one.stage for one in added.values() if one.stage.id in self.stages):
                varied = self.stages[stage.id].stage
                words = f"no stage can be called '{stage.id}': that is what a variation makes of another one"
                place, hint = self.workflow.place(*varied.path, "id"), "give the stage, or the variation, another name"
                self.added.problems.append(Problem(errors.DUPLICATE_ID, words, place=place, hint=hint))

    def check_factors(self, idle: Sequence[Variation]) -> None:
        """What multiplies no weight must still be there somewhere."""
        flavours = range(len(self.resolved.flavours))
        columns = [self.added.columns.anywhere(self.resolved, number) for number in flavours]
        there = {name: None for some in columns for name in some}
        constants = {*self.workflow.constants, *CONSTANTS}
        for variation in idle:
            for name in (name for text in variation.factors for name in expression(text).names):
                if column_name(name, there) not in there and name not in constants and not describes_dataset(name):
                    words = f"variation '{variation.name}' names '{name}', which no file and no stage provides"
                    problem = errors.unknown_name(errors.UNKNOWN_COLUMN, words, name, there, what="columns")
                    self.report(problem, variation, "weight", "multiply")

    def without_effect(self, variations: Sequence[Variation]) -> list[Variation]:
        """Those that nothing depends on. Nobody knows where no file could be looked at, or stages are left out."""
        known = not self.workflow.left_out and all(
            one is not None for flavour in self.resolved.flavours for one in flavour.columns.values()
        )
        if not known:
            return []
        changed = {name for found in self.added.changed.values() for name in found}
        clones = [one.stage for found in self.added.clones.values() for one in found.values()]
        changed |= {stage.varied.variation for stage in clones if stage.varied and stage.leaves_product}
        return [one for one in variations if one.name not in changed and not one.export]

    def add(self, variation: Variation, number: int) -> None:
        """What a variation does to the datasets of a flavour."""
        flavour = self.resolved.flavours[number]
        datasets = {name for name in flavour.datasets if name in self.by_name}
        self._note_replaced(variation, number, datasets)
        varied = {name for name in datasets if _is_varied(self.by_name[name], variation)}
        if varied and variation.changes_stages:
            VariationWalk(self.workflow, self.resolved, self.added, variation, number, varied).run()

    def _note_replaced(self, variation: Variation, number: int, datasets: Collection[str]) -> None:
        """Histograms of a dataset whose events come from another one differ."""
        replaced = {name for name, other in variation.datasets.items() if other in datasets}
        for stage in self.resolved.stages if replaced else ():
            if number in stage.applied and stage.operation.takes_variations:
                self.added.note(stage, variation, replaced)

    def report(self, problem: Problem, variation: Variation, *path: str) -> None:
        """Note a problem with a variation."""
        self.added.report(self.workflow, problem, variation, *path)

    # the whole

    def workflow_with_variations(self) -> Workflow:
        """The workflow with everything that was added."""
        stages: list[Stage] = []
        for stage in self.workflow.stages:
            if stage.id in self.stages and self.stages[stage.id].scope is not Scope.PARTITION:
                stages.append(self._without_stand_ins(stage))
                continue
            before = self._chained(stage)
            needs = self._after(before, stage)
            stages += [*before, replace(stage, needs=needs, fillings=self._fillings(stage)), *self._cloned(stage)]
        return replace(self.workflow, stages=_used(stages))

    def _after(self, chain: Sequence[Stage], stage: Stage) -> tuple[str, ...]:
        """What a stage needs that comes after others which take the same events."""
        if not chain:
            return stage.needs
        return (chain[-1].id, *(need for need in stage.needs if need not in self.stages[stage.id].inputs))

    def _without_stand_ins(self, stage: Stage) -> Stage:
        """What sees all data at once sees the nominal data. What sees one dataset sees the others too, for later stages
        to find its product of them; that is all that becomes of it."""
        if not any(dataset.stands_for for dataset in self.workflow.datasets):
            return stage
        if self.stages[stage.id].scope is Scope.DATASET and any(stage.id in one.needs for one in self.workflow.stages):
            return stage
        nominal = [one for one in self.workflow.datasets if not one.stands_for and stage.applies_to.includes(one)]
        return replace(stage, applies_to=AppliesTo(exactly=frozenset(one.name for one in nominal)))

    def _chained(self, stage: Stage) -> list[Stage]:
        """What runs beside a stage, each one after the other."""
        found: list[Stage] = []
        for added in self.added.beside.get(stage.id, {}).values():
            applies = AppliesTo(exactly=frozenset(added.datasets))
            found.append(replace(added.stage, needs=self._after(found, stage), applies_to=applies))
        return found

    def _cloned(self, stage: Stage) -> list[Stage]:
        return [
            replace(
                added.stage,
                applies_to=AppliesTo(exactly=frozenset(added.datasets)),
                fillings=added.stage.fillings and replace(added.stage.fillings, labels=self._labels(stage.id)),
            )
            for added in self.added.clones.get(stage.id, {}).values()
        ]

    def _labels(self, stage: str) -> tuple[str, ...]:
        """In the order of the workflow."""
        variations = self.workflow.systematics.variations if self.workflow.systematics else ()
        return (NOMINAL, *(one.name for one in variations if one.name in self.added.changed.get(stage, {})))

    def _fillings(self, stage: Stage) -> Fillings | None:
        labels = self._labels(stage.id)
        if len(labels) == 1:
            return None
        found = self.added.shifts.get(stage.id, {}).values()
        return Fillings(
            labels=labels,
            shifts=tuple(replace(shift, datasets=frozenset(datasets)) for shift, datasets in found),
            instead=self._instead(stage.id, labels),
            varied={label: frozenset(self.added.changed[stage.id][label]) for label in labels[1:]},
        )

    def _instead(self, stage: str, labels: Collection[str]) -> dict[str, tuple[str, ...]]:
        """What datasets that stand for others fill, unless a stage of the variation's own does."""
        variations = self.workflow.systematics.variations if self.workflow.systematics else ()
        elsewhere = {
            (added.stage.varied.variation, dataset)
            for added in self.added.clones.get(stage, {}).values()
            for dataset in added.datasets
            if added.stage.varied is not None
        }
        found: dict[str, tuple[str, ...]] = {}
        for dataset in (one.name for one in self.workflow.datasets if one.stands_for):
            own = [one.name for one in variations if one.name in labels and dataset in one.datasets.values()]
            found[dataset] = tuple(label for label in own if (label, dataset) not in elsewhere)
        return found


def _why(idle: Sequence[Variation]) -> str:
    """What would have to be for them to have an effect, in parentheses."""
    words = []
    if any(one.factors for one in idle):
        words.append("a weight is multiplied where a histogram has `weight_expr`")
    if any(one.replace for one in idle):
        words.append("a column is replaced in stages that read it once both columns are there")
    return f" ({'; '.join(words)})" if words else ""


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
