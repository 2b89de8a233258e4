"""Decide which columns are alive where, and which software operations need."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import field, replace

from cenote.analysis.operations.interface import Operation, Scope
from cenote.common import errors
from cenote.common.errors import Problem
from cenote.common.software import installed_packages
from cenote.common.values import dataclass
from cenote.language.workflow import Workflow
from cenote.planning.placement.pools import Placement
from cenote.planning.stages.resolve import SOURCE, Resolved, ResolvedStage, SchemaGroup


@dataclass(frozen=True)
class ColumnFlow:
    """What is alive, over all flavours."""

    live: Mapping[str, frozenset[str]]
    """Stage → columns that a stage reads after it."""
    needed: Mapping[tuple[int, str], frozenset[str]]
    """(flavour, stage) → columns that must come in: what it reads, and what others read after it."""
    inputs: Mapping[tuple[int, str], tuple[str, ...]]
    """(flavour, stage) → the stages its events really come from (`SOURCE` for the files): stages that do not
    apply, or that see all data at once, let events pass by."""
    problems: tuple[Problem, ...] = ()
    unused: frozenset[str] = frozenset()
    """Stages beside nominal ones whose columns nobody reads: no variation needs them."""


@dataclass
class _Walk:
    """The backward walk over the stages of one flavour."""

    workflow: Workflow
    resolved: Resolved
    number: int
    inputs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    read_after: dict[str, set[str]] = field(default_factory=dict)
    needed: dict[str, frozenset[str]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    @property
    def flavour(self) -> SchemaGroup:
        return self.resolved.flavours[self.number]

    def run(self) -> None:
        by_id = {stage.id: stage for stage in self.resolved.stages}
        for stage in self.resolved.stages:
            self.inputs[stage.id] = self._effective_inputs(stage, by_id)
            self.read_after[stage.id] = set()
        for stage in reversed(self.resolved.stages):
            if stage.id in self.flavour.applies:
                self._add(stage)

    def _effective_inputs(self, stage: ResolvedStage, by_id: Mapping[str, ResolvedStage]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for need in stage.inputs:
            carries = need in self.flavour.applies and need in by_id and by_id[need].scope is Scope.PARTITION
            found.update(dict.fromkeys((need,) if carries else self.inputs.get(need, (SOURCE,))))
        return tuple(found) or (SOURCE,)

    def _add(self, stage: ResolvedStage) -> None:
        applied = stage.applied[self.number]
        after = self.read_after[stage.id]
        after.update(*applied.writes)
        if is_beside(stage) and after.isdisjoint(applied.adds):
            applied = replace(applied, reads=(), adds=())
        else:
            self.used.add(stage.id)
        passing = set() if stage.scope is not Scope.PARTITION else after - set(applied.adds)
        copied = {column for name, column in applied.operation.copies().items() if name in after}
        needed = frozenset(passing.union(applied.reads, copied))
        self.needed[stage.id] = needed
        for name in self.inputs[stage.id]:
            if name != SOURCE:
                self.read_after[name].update(needed)
        if len(self.inputs[stage.id]) > 1 and applied.operation.whose_columns() == "error":
            self._check_clash(stage, needed)

    def _check_clash(self, stage: ResolvedStage, needed: frozenset[str]) -> None:
        definers: dict[str, set[str]] = {}
        for source in self.inputs[stage.id]:
            columns = self._columns_from(source, stage.root)
            for name in needed & columns.keys():
                definers.setdefault(name, set()).add(columns[name])
        for name, stages in definers.items():
            if len(stages) > 1:
                written = sorted(stage or "the files" for stage in stages)
                self.problems.append(
                    Problem(
                        errors.COLUMN_CLASH,
                        f"stage '{stage.id}' joins branches that hold different columns '{name}'",
                        place=self.workflow.place(*stage.stage.path, "needs"),
                        details=(f"defined by: {', '.join(written)}",),
                        hint="give one of them another name",
                    )
                )

    def _columns_from(self, source: str, root: str) -> Mapping[str, str]:
        """Column → the stage that defined it, for one input."""
        if source == SOURCE:
            return dict.fromkeys(self.flavour.columns.get(root) or (), SOURCE)
        return self.resolved.available.get((self.number, source)) or {}


def column_flow(workflow: Workflow, resolved: Resolved) -> ColumnFlow:
    """Walk the stages backwards, once per flavour."""
    live: dict[str, set[str]] = {stage.id: set() for stage in resolved.stages}
    needed: dict[tuple[int, str], frozenset[str]] = {}
    inputs: dict[tuple[int, str], tuple[str, ...]] = {}
    problems: list[Problem] = []
    used: set[str] = set()
    for number in range(len(resolved.flavours)):
        walk = _Walk(workflow, resolved, number)
        walk.run()
        for stage in resolved.stages:
            live[stage.id] |= walk.read_after[stage.id]
            inputs[number, stage.id] = walk.inputs[stage.id]
        needed.update({(number, stage): columns for stage, columns in walk.needed.items()})
        problems.extend(walk.problems)
        used |= walk.used
    return ColumnFlow(
        live={stage: frozenset(columns) for stage, columns in live.items()},
        needed=needed,
        inputs=inputs,
        problems=tuple(problems),
        unused=frozenset(stage.id for stage in resolved.stages if is_beside(stage) and stage.id not in used),
    )


def is_beside(stage: ResolvedStage) -> bool:
    """Whether a stage computes columns of a variation beside the nominal ones."""
    return stage.stage.varied is not None and stage.stage.varied.beside


# State the software that operations need: its versions, and what workers will lack, as far as it is known here.


_CURRENT = "current"
"""The environment in which workers run the software of this process; what others hold is not known here."""


def missing_software(workflow: Workflow, resolved: Resolved, placement: Placement) -> list[Problem]:
    """A problem for each stage that may run with the software of this process, and needs more."""
    return [problem for stage in resolved.stages for problem in _missing_packages(workflow, stage, placement)]


def versions_of(operation: Operation) -> Iterator[tuple[str, str]]:
    """What an operation needs beyond Cenote, with the versions here: another version may give other last bits. Of a
    module that several packages bring (`onnxruntime`, `onnxruntime-gpu`), all that are installed."""
    installed = installed_packages() if operation.software else {}
    for module in operation.software:
        yield from ((name, found) for name, found in installed.items() if f"{name}-".startswith(f"{module}-"))


def _missing_packages(workflow: Workflow, stage: ResolvedStage, placement: Placement) -> Iterator[Problem]:
    placed = placement.by_stage.get(stage.id)
    types = [workflow.execution.environment_of(pool)["type"] for pool in (placed.pools if placed else ())]
    for module, extra in stage.operation.software.items() if _CURRENT in types else ():
        if importlib.util.find_spec(module) is None:
            yield Problem(
                errors.ENVIRONMENT,
                f"stage '{stage.id}' needs {module}, which is not installed",
                place=workflow.place(*stage.stage.path, "op"),
                hint=f"pip install 'cenote[{extra}]'",
            )
