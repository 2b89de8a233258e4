"""Turn stages into resolved stages: their operation made concrete, their columns known and checked.

Datasets whose files hold the same columns and to which the same stages apply are treated once, as a flavour.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import product
from typing import Any

from cenote.analysis.expressions.functions import CONSTANTS
from cenote.analysis.operations.interface import Operation, Scope
from cenote.analysis.operations.support.events import DATASET, DatasetInfo
from cenote.analysis.operations.support.varied import VariedOperation, as_varied
from cenote.analysis.sources.interface import flat_name, path_name
from cenote.common import errors
from cenote.common.errors import CenoteError, Place, Problem
from cenote.common.text import column_name, did_you_mean, listed, meant_as_truth, nearest
from cenote.common.values import dataclass
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.plugins.resources import ResourceFile
from cenote.language.systematics import is_twin
from cenote.language.workflow import AppliesTo, Dataset, Stage, Workflow, Write
from cenote.planning.stages.depends_on import Available, files_of, products_lacking, texts_in

_QUANTITY = re.compile(r"(?P<number>[-+]?[\d.,]*\d(e[-+]?\d+)?)\s*(?P<unit>(1?/)?[munpfa]b(\^?-1)?)?", re.IGNORECASE)
"""A number that is text: a cross-section or luminosity with its unit, or with a comma."""

SOURCE = ""
"""Stands for the source where an input is named."""


@dataclass(frozen=True)
class SchemaGroup:
    """Datasets that are alike to the plan."""

    datasets: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...] | None]
    """Source → columns in the files, aliases included; None when no file could be looked at."""
    applies: frozenset[str]
    """Ids of the stages that run on them."""


@dataclass(frozen=True)
class Applied:
    """A stage as it is for the datasets of one flavour: as if they were the only ones."""

    operation: Operation
    reads: tuple[str, ...]
    """Columns, by the name they have in the events."""
    adds: tuple[str, ...] = ()
    writes: tuple[tuple[str, ...], ...] = ()
    """The columns of each skim, in the order of `write`."""

    def params(self) -> dict[str, Any]:
        """The settings as plain data: what travels to the workers."""
        return self.operation.as_params()


@dataclass(frozen=True)
class ResolvedStage:
    """A stage whose operation is concrete."""

    stage: Stage
    operation: Operation
    """As it is for the first flavour that it applies to; what it makes is the same for all of them."""
    scope: Scope
    root: str
    """The source its events began at."""
    inputs: tuple[str, ...]
    """Those of its needs whose events come in; empty: the source."""
    applied: Mapping[int, Applied]
    """Flavour → what it is there; without the flavours that it does not apply to."""
    datasets: frozenset[str] | None
    """Where it applies; None for everywhere."""
    files: tuple[ResourceFile, ...] = ()
    """What it names under `depends_on`, and what its operation knows of."""

    @property
    def id(self) -> str:
        """The stage's id."""
        return self.stage.id

    @property
    def product(self) -> str | None:
        """The kind of product that it leaves, if it leaves one."""
        return self.operation.product if self.stage.leaves_product else None

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that it reads in any dataset."""
        return tuple(dict.fromkeys(name for applied in self.applied.values() for name in applied.reads))

    @property
    def adds(self) -> tuple[str, ...]:
        """The columns that it adds or replaces in any dataset."""
        return tuple(dict.fromkeys(name for applied in self.applied.values() for name in applied.adds))


@dataclass(frozen=True)
class Resolved:
    """All stages in an order in which needs come first, and what was found on the way."""

    stages: tuple[ResolvedStage, ...]
    flavours: tuple[SchemaGroup, ...]
    available: Mapping[tuple[int, str], Available | None]
    """(flavour, stage) → the columns after it."""
    unknown: frozenset[str] = frozenset()
    """Names of columns that stages ask for, and that nothing provides."""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


def in_order(stages: Sequence[Stage]) -> list[Stage]:
    """Needs first; otherwise as written. Cycles were refused by the language."""
    by_id = {stage.id: stage for stage in stages}
    placed: dict[str, Stage] = {}
    for first in stages:
        pending = [(first, iter(first.needs))]
        while pending:
            stage, needs = pending[-1]
            need = next((n for n in needs if n in by_id and n not in placed), None)
            if need is None:
                placed.setdefault(stage.id, stage)
                pending.pop()
            else:
                pending.append((by_id[need], iter(by_id[need].needs)))
    return list(placed.values())


def dataset_infos(workflow: Workflow) -> tuple[DatasetInfo, ...]:
    """What operations may know of the datasets."""
    known = {dataset.name: dataset for dataset in workflow.datasets}
    return tuple(
        DatasetInfo(
            dataset.stands_for or dataset.name,
            eventtype=dataset.eventtype,
            group=known[dataset.stands_for or dataset.name].group,
            nevents=dataset.nevents,
            metadata=dataset.metadata,
            stands_in=dataset.name if dataset.stands_for else None,
        )
        for dataset in workflow.datasets
    )


def flavours_of(workflow: Workflow, columns: Mapping[tuple[str, str], Collection[str]]) -> tuple[SchemaGroup, ...]:
    """Group the datasets; `columns` has what the files of each (dataset, source) hold, where that is known."""
    groups: dict[tuple[frozenset[str], tuple[tuple[str, ...] | None, ...]], list[str]] = {}
    everywhere = frozenset(stage.id for stage in workflow.stages)
    limited = [stage for stage in workflow.stages if stage.applies_to != AppliesTo()]
    sources = [source.id for source in workflow.sources]
    for dataset in workflow.datasets or (Dataset(name="", files=()),):
        applies = everywhere - {stage.id for stage in limited if not stage.applies_to.includes(dataset)}
        known = [columns.get((dataset.name, source)) for source in sources]
        found = tuple(None if names is None else tuple(names) for names in known)
        groups.setdefault((applies, found), []).append(dataset.name)
    return tuple(
        SchemaGroup(tuple(names), dict(zip(sources, found, strict=True)), applies)
        for (applies, found), names in groups.items()
    )


def resolve_stages(
    workflow: Workflow, flavours: Sequence[SchemaGroup], refused: Mapping[str, Problem] | None = None
) -> Resolved:
    """Make every operation concrete and follow the columns through the stages.

    `refused` has the columns that files have and that cannot be used, with the reason.
    """
    work = _Resolving(workflow, flavours, refused or {})
    for stage in in_order(workflow.stages):
        work.add(stage)
    return Resolved(
        stages=tuple(work.stages),
        flavours=tuple(flavours),
        available=work.available,
        unknown=frozenset(work.unknown),
        problems=tuple(work.problems),
        warnings=tuple(work.warnings),
    )


@dataclass
class _Resolving:
    """The forward walk over the stages."""

    workflow: Workflow
    flavours: Sequence[SchemaGroup]
    refused: Mapping[str, Problem]
    stages: list[ResolvedStage] = field(default_factory=list)
    available: dict[tuple[int, str], Available | None] = field(default_factory=dict)
    roots: dict[str, str] = field(default_factory=dict)
    scopes: dict[str, Scope] = field(default_factory=dict)
    makers: dict[str, str | None] = field(default_factory=dict)
    """Stage → the kind of product that later stages get from it; None where they get none."""
    unknown: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @cached_property
    def infos(self) -> dict[str, DatasetInfo]:
        """Dataset → what operations may know of it."""
        unnamed = {name: DatasetInfo(name) for flavour in self.flavours for name in flavour.datasets}
        return unnamed | {info.own_name: info for info in dataset_infos(self.workflow)}

    @cached_property
    def facts(self) -> dict[str, dict[str, Any]]:
        """Dataset → what expressions may ask of it."""
        return {info.own_name: info.facts() for info in dataset_infos(self.workflow)}

    def add(self, stage: Stage) -> None:
        inputs = {number: self._input(number, stage) for number in range(len(self.flavours))}
        self.roots[stage.id] = self._root(stage)
        operations = self._operations(stage, inputs)
        if operations is None:
            for number in inputs:
                self.available[number, stage.id] = None
            return
        operation = next(iter(operations.values()))
        scope = Scope(stage.scope) if stage.scope else operation.scope
        self.scopes[stage.id] = scope
        self._check_scope(stage, operation, scope)
        files, missing = files_of(stage, operation, self.workflow)
        self.problems += missing
        self.makers[stage.id] = None if scope is Scope.PARTITION else operation.product
        self.problems += products_lacking(stage, operation, self.makers, self.workflow)
        reads: dict[int, tuple[str, ...]] = {}
        lacking: dict[str, list[str]] = {}
        for number, flavour in enumerate(self.flavours):
            here = inputs[number]
            applies = stage.id in flavour.applies
            self.available[number, stage.id] = _after(stage.id, operations[number], here) if applies else here
            if applies:
                reads[number] = self._columns_read(operations[number], flavour, here, lacking)
        self.unknown.update(lacking)
        for name, datasets in lacking.items():
            unknown = self._unknown_fact if name in operation.facts() else self._unknown_column
            self.problems.append(unknown(stage, name, datasets, inputs))
        self.problems += self._quantities(stage, operation)
        written = [self._written(stage, entry) for entry in stage.write]
        self.stages.append(
            ResolvedStage(
                stage=stage,
                operation=operation,
                scope=scope,
                root=self.roots[stage.id],
                inputs=self._carrying(stage),
                applied={
                    number: Applied(
                        operation=operations[number],
                        reads=columns_read,
                        adds=tuple(operations[number].adds()),
                        writes=tuple(columns[number] for columns in written),
                    )
                    for number, columns_read in reads.items()
                },
                datasets=self._datasets(stage),
                files=files,
            )
        )

    def _datasets(self, stage: Stage) -> frozenset[str] | None:
        if all(stage.id in flavour.applies for flavour in self.flavours):
            return None
        return frozenset(name for flavour in self.flavours if stage.id in flavour.applies for name in flavour.datasets)

    def _carrying(self, stage: Stage) -> tuple[str, ...]:
        """The needs whose events come in: one that sees all data at once gives its product alone, beside others.

        Where there is no other, events pass it by.
        """
        scopes = {need: self.scopes.get(need, Scope.PARTITION) for need in stage.needs}
        found = tuple(need for need in stage.needs if scopes[need] is Scope.PARTITION) or stage.needs
        return found[::-1] if len(found) > 1 and _first_wins(stage) else found

    def _root(self, stage: Stage) -> str:
        sources = [source.id for source in self.workflow.sources]
        if not stage.needs:
            return stage.source or (sources[0] if sources else "events")
        roots = list(dict.fromkeys(self.roots[need] for need in self._carrying(stage) if need in self.roots))
        if len(roots) > 1:
            self.problems.append(
                Problem(
                    errors.COLUMN_CLASH,
                    f"stage '{stage.id}' needs events that began at different sources: {', '.join(roots)}",
                    place=self.workflow.place(*stage.path, "needs"),
                    hint="put the sources side by side under `joins:`",
                )
            )
        return roots[0] if roots else (sources[0] if sources else "events")

    def _input(self, number: int, stage: Stage) -> Available | None:
        if not stage.needs:
            there = self.flavours[number].columns.get(self._root(stage))
            return None if there is None else Available.of(there, SOURCE)
        joined: Available | None = None
        for need in self._carrying(stage):
            columns = self.available.get((number, need))
            if columns is None:
                return None
            joined = columns if joined is None else joined.joined(columns)
        return joined

    def _operations(self, stage: Stage, inputs: Mapping[int, Available | None]) -> dict[int, Operation] | None:
        """Flavour → the operation for its columns, at least one; None where that cannot be had.

        What a stage makes of all datasets is merged, so what makes a product decides from the columns they share.
        """
        applying = [number for number, flavour in enumerate(self.flavours) if stage.id in flavour.applies]
        try:
            with registry.blamed(PluginKind.OPERATION, stage.op):
                known_as = stage.varied.stage if stage.varied else stage.id
                made: Operation = registry.make(PluginKind.OPERATION, stage.op, stage.params).for_stage(known_as)
                operation = as_varied(made, stage.varied, stage.fillings)
                resolved = {n: _resolved(operation, inputs[n]) for n in applying} or {-1: operation}
                first = next(iter(resolved.values()))
                if operation.product is not None and not all(same_settings(first, one) for one in resolved.values()):
                    alike = operation.resolve(_shared(inputs[number] for number in applying))
                    resolved = {n: _resolved(alike, inputs[n]) for n in applying}
                for one in resolved.values():  # own code: what it raises is its own
                    one.reads(), one.adds(), one.keeps()
        except registry.BadSettingsError:
            return None  # the language's check has reported it, with its place
        except CenoteError as problem:
            self.problems.extend(p.at(self.workflow.place(*stage.path, "op")) for p in problem.problems)
            return None
        note = getattr(next(iter(resolved.values())), "inferred_axis_note", None)
        if callable(note) and (words := note()):
            self.warnings.append(f"stage '{stage.id}': {words}")
        return resolved

    def _check_scope(self, stage: Stage, operation: Operation, scope: Scope) -> None:
        if scope is Scope.PARTITION or not operation.adds():
            return
        self.problems.append(
            Problem(
                errors.BAD_VALUE,
                f"stage '{stage.id}' has scope '{scope.value}' and adds columns ({', '.join(operation.adds())}): "
                "only stages of scope 'partition' can add columns",
                place=self.workflow.place(*stage.path, "scope"),
                hint="return a product, and add the columns in a later stage that uses it",
            )
        )

    def _columns_read(
        self, operation: Operation, flavour: SchemaGroup, columns: Available | None, lacking: dict[str, list[str]]
    ) -> tuple[str, ...]:
        """The columns that an operation reads of these datasets; names that mean nothing there go to `lacking`."""
        reads: dict[str, None] = {}
        for name in dict.fromkeys(operation.reads_for([self.infos[dataset] for dataset in flavour.datasets])):
            known = self._column(name, operation, columns)
            if known is not None:
                reads[known] = None
            elif without := self._without(name, operation, flavour):
                lacking.setdefault(name, []).extend(without)
        return tuple(reads)

    def _column(self, name: str, operation: Operation, columns: Available | None) -> str | None:
        """The column that a name means; None where it means something else, or nothing."""
        if columns is None:  # no file could be looked at
            return None if name in operation.facts() else name
        known = column_name(name, columns)
        return known if known in columns else None

    def _without(self, name: str, operation: Operation, flavour: SchemaGroup) -> Iterable[str]:
        """The datasets for which a name that is not a column means nothing at all."""
        if name in self.workflow.constants or name in CONSTANTS:
            return ()
        if name not in operation.facts():
            return flavour.datasets
        return [one for one in flavour.datasets if one in self.facts and self.facts[one].get(name) is None]

    def _written(self, stage: Stage, entry: Write) -> dict[int, tuple[str, ...]]:
        """Flavour → the columns of a skim: names, and what patterns match after this stage."""
        after = {
            n: self.available[n, stage.id] for n, flavour in enumerate(self.flavours) if stage.id in flavour.applies
        }
        if entry.keep is None:
            return {number: tuple(columns.without_twins() if columns else ()) for number, columns in after.items()}
        found = {
            number: {wanted: _matching(wanted, columns) for wanted in entry.keep} for number, columns in after.items()
        }
        if all(columns is not None for columns in after.values()):
            lost = [wanted for wanted in entry.keep if not any(names[wanted] for names in found.values())]
            self.unknown.update(lost)
            self.problems.extend(
                self._nothing_to_write(stage, entry, wanted, after.values()) for wanted in lost if after
            )
        return {
            number: tuple(dict.fromkeys(name for matching in names.values() for name in matching))
            for number, names in found.items()
        }

    def _nothing_to_write(self, stage: Stage, entry: Write, wanted: str, after: Iterable[Available | None]) -> Problem:
        there = dict.fromkeys(name for columns in after for name in columns or ())
        message = f"stage '{stage.id}' writes '{wanted}', which does not exist after it"
        place = self.workflow.place(*entry.path, "keep")
        return errors.unknown_name(errors.UNKNOWN_COLUMN, message, wanted, there, what="columns here", place=place)

    def _unknown_column(
        self, stage: Stage, name: str, datasets: Sequence[str], inputs: Mapping[int, Available | None]
    ) -> Problem:
        place = self._mentioned(stage, name, {column for here in inputs.values() for column in here or ()})
        meant = next((field for field in self.workflow.fields if field.alias == name), None)
        if refusal := self.refused.get(flat_name(path_name(meant.branch if meant else name))):
            return replace(refusal, message=f"stage '{stage.id}' reads '{name}': {refusal.message}", place=place)
        elsewhere = [
            dataset
            for number, other in enumerate(self.flavours)
            if name in (inputs[number] or ())
            for dataset in other.datasets
        ]
        if elsewhere:
            message = f"stage '{stage.id}' reads '{name}', which {_do_not_have(datasets)}"
            details = f"datasets that have it: {listed(elsewhere)}"
            hint: str | None = "say under `applies_to:` which datasets the stage is for"
        elif meant is not None:
            place = self.workflow.place(*meant.path) or place
            there = self._at_the_source(stage, datasets[0])
            message = f"stage '{stage.id}' reads '{name}', which maps to the branch '{meant.branch}': no file has it"
            details = f"columns here: {listed(there)}"
            hint = did_you_mean(meant.branch, there)
        else:
            number = next(n for n, flavour in enumerate(self.flavours) if datasets[0] in flavour.datasets)
            columns = inputs[number] or ()
            message = f"stage '{stage.id}' reads '{name}', which no file and no earlier stage provides"
            details = f"columns here: {listed(columns)}"
            hint = meant_as_truth(name) or did_you_mean(name, [*columns, *self.workflow.constants])
        return Problem(errors.UNKNOWN_COLUMN, message, place=place, details=(details,), hint=hint)

    def _at_the_source(self, stage: Stage, dataset: str) -> tuple[str, ...]:
        """What the files of a dataset hold."""
        flavour = next(flavour for flavour in self.flavours if dataset in flavour.datasets)
        return flavour.columns.get(self.roots[stage.id]) or ()

    def _unknown_fact(
        self, stage: Stage, name: str, datasets: Sequence[str], _inputs: Mapping[int, Available | None]
    ) -> Problem:
        """For an expression that asks for `dataset_xsec` where a dataset says nothing of the kind."""
        key = name.removeprefix(DATASET)
        known = [fact for fact, value in self.facts[datasets[0]].items() if value is not None]
        meant = nearest(key, [fact.removeprefix(DATASET) for fact in known])
        return Problem(
            errors.UNKNOWN_COLUMN,
            f"stage '{stage.id}' reads '{name}', but {_do_not_have(datasets)} '{key}'",
            place=self._mentioned(stage, name),
            details=(f"facts of dataset '{datasets[0]}': {listed(known)}",),
            hint=f"did you mean '{DATASET}{meant}'?"
            if meant
            else f"write `{key}:` beside `files:` of the dataset, or under `data.defaults`",
        )

    def _quantities(self, stage: Stage, operation: Operation) -> Iterator[Problem]:
        """For an expression that asks for `dataset_xsec` where a dataset says `830 pb` or `"0,8"`, which is text."""
        applied = [name for flavour in self.flavours if stage.id in flavour.applies for name in flavour.datasets]
        for dataset, name in product(applied, operation.facts()):
            said = self.facts.get(dataset, {}).get(name)
            found = _QUANTITY.fullmatch(said.strip()) if isinstance(said, str) else None
            if found and (found["unit"] or "," in found["number"]):
                key = name.removeprefix(DATASET)
                yield Problem(
                    errors.BAD_VALUE,
                    f"stage '{stage.id}' reads '{name}', but '{said}' of dataset '{dataset}' is text, not a number",
                    place=self._mentioned(stage, name),
                    hint=f"write `{key}: {_with_point(found['number'])}`",
                )

    def _mentioned(self, stage: Stage, name: str, columns: Collection[str] = ()) -> Place | None:
        """Where the settings name a column, or a part of its name: `collection: Muon`, `keep: [mass]`."""
        params = (*stage.path, "params")
        texts = list(texts_in(stage.params, params))
        whole = next((path for path, text in texts if name in text), None)
        return self.workflow.place(*(whole or _half_named(name, texts, columns) or params))


def _with_point(number: str) -> str:
    """`0,8` → `0.8`; `61,526.7` and `1,234,567` have commas for the eye alone."""
    alone = number.count(",") == 1 and "." not in number
    return number.replace(",", "." if alone else "")


def _shared(inputs: Iterable[Available | None]) -> list[str]:
    """The columns that all have, in the order of the first; none where one is not known."""
    first, *others = [*inputs] or [None]
    shared = () if first is None else first.without_twins()
    return [name for name in shared if all(other and name in other for other in others)]


def same_settings(one: Operation, other: Operation) -> bool:
    """Whether both have the same settings, whatever columns they were resolved for."""
    if isinstance(one, VariedOperation) and isinstance(other, VariedOperation):
        return bool(one.how == other.how) and same_settings(one.inner, other.inner)
    return one.__dict__ == other.__dict__


def _first_wins(stage: Stage) -> bool:
    """Whether the first of its inputs has the last word on columns that several hold: then it comes last."""
    try:
        operation: Operation = registry.make(PluginKind.OPERATION, stage.op, stage.params)
    except CenoteError:
        return False  # the language's check has said so
    return operation.whose_columns() == "first"


def _resolved(operation: Operation, columns: Available | None) -> Operation:
    if columns is None:
        return operation
    return operation.resolve(columns.without_twins())


def _matching(wanted: str, columns: Collection[str] | None) -> list[str]:
    """What a name or pattern under `keep` means here; as written where the columns are not known."""
    if columns is None:
        return [wanted]
    plain = column_name(wanted, columns)
    return [plain] if plain in columns else [name for name in fnmatch.filter(columns, wanted) if not is_twin(name)]


def _after(stage: str, operation: Operation, columns: Available | None) -> Available | None:
    if columns is None:
        return None
    keeps = operation.keeps()
    kept = columns if keeps is None else columns.only(set(keeps))
    return kept.with_added(tuple(operation.adds()), stage)


def _do_not_have(datasets: Sequence[str]) -> str:
    if len(datasets) == 1:
        return f"dataset '{datasets[0]}' does not have"
    return f"the datasets {listed(datasets)} do not have"


def _half_named(
    name: str, texts: Sequence[tuple[tuple[str | int, ...], str]], columns: Collection[str]
) -> tuple[str | int, ...] | None:
    """The setting with the wrong half of `<collection>_<field>`: the collection where there is none of the name."""
    for path, text in texts:
        if name.startswith(f"{text}_") and not any(column.startswith(f"{text}_") for column in columns):
            return path
    return next((path for path, text in texts if name.endswith(f"_{text}")), None)
