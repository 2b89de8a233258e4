"""Turn steps into programs of typed values, one per kind of columns, and what these leave into events."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Self

from cenote.analysis.compiled.passes import CompiledStage
from cenote.analysis.compiled.run import Kind, Left, Program, flat, kind_of
from cenote.analysis.compiled.values import Base, Input, NotCompiledError, Opaque, Value, Values
from cenote.analysis.expressions.problems import EvaluationError
from cenote.analysis.operations.interface import Operation
from cenote.analysis.operations.support.events import Column, Events
from cenote.analysis.operations.support.stage_form import StageForm
from cenote.execution.worker.compiled_group import Group, Ran

_LOG = logging.getLogger(__name__)


class CompiledLoop(Operation):
    """Runs the program of a group: what is in the place of an operation for the modifiers around compiled stages."""

    _program: Program
    _usable: bool = True

    @classmethod
    def of(cls, program: Program) -> Self:
        """For columns of one kind."""
        made = cls()
        made._program = program
        return made

    @property
    def usable(self) -> bool:
        """Whether there is a compiler."""
        return self._usable

    def run(self, events: Events) -> Ran:
        """What the steps do."""
        program, nothing = self._program, replace(events, columns={}, size=0)
        try:
            found = program.run({name: flat(events.columns[name]) for name in program.columns}, events.size)
        except ImportError as problem:
            _LOG.warning("stages are not compiled: %s", problem)
            self._usable, found = False, None
        if found is None:
            return Ran(nothing)
        left = {stage: _events_of(program.stages[stage], one, events) for stage, one in found.left.items()}
        return Ran(nothing, None, found.events, found.products, left)


class CompiledPrograms:
    """The programs of a group."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._loops: dict[tuple[tuple[str, Kind | None], ...], CompiledLoop | None] = {}
        self._lock = threading.Lock()

    def loop(self, events: Events) -> CompiledLoop | None:
        """What runs the steps on columns of these kinds; None where they have to run the ordinary way."""
        kinds = tuple((name, kind_of(column)) for name, column in events.columns.items())
        with self._lock:
            if kinds not in self._loops:
                program = self._program(events, kinds)
                self._loops[kinds] = None if program is None else CompiledLoop.of(program)
            loop = self._loops[kinds]
        return loop if loop is not None and loop.usable else None

    def _program(self, events: Events, kinds: Sequence[tuple[str, Kind | None]]) -> Program | None:
        values = Values()
        columns = {name: Opaque(name) if kind is None else _input(name, kind, values) for name, kind in kinds}
        try:
            return Program(self._stages(replace(events, columns=columns), values), values)
        except (NotCompiledError, EvaluationError, RecursionError) as problem:
            stages = [step.stage for step in self._group.fused.steps]
            _LOG.info("%s: the ordinary way computes them: %s", stages, problem)
            return None

    def _stages(self, events: Events, values: Values) -> list[CompiledStage]:
        """Every step in typed values, on events whose columns are typed values."""
        found: dict[str, CompiledStage] = {}
        for step in self._group.fused.steps:
            names = self._group.inputs[step.stage]
            before = [] if names == self._group.fused.inputs else [found[name] for name in names]
            columns = (
                {name: value for one in before for name, value in one.columns.items()} if before else events.columns
            )
            incoming = reduce(values.both, (one.outgoing for one in before)) if before else None
            form = StageForm(values, replace(events, columns=columns))
            self._group.operations[step.stage].write_compiled(form)
            found[step.stage] = CompiledStage(
                stage=step.stage,
                inputs=names,
                incoming=incoming,
                outgoing=values.both(incoming, form.kept),
                columns={name: value for name, value in form.events.columns.items() if name in step.live},
                added=tuple(form.added.values()),
                sinks=tuple(form.sinks),
                histograms=tuple(form.histograms),
                product=form.product,
                leaves=step.stage in self._group.leaving,
            )
        return list(found.values())


def _input(column: str, kind: Kind, values: Values) -> Value:
    dtype, lists = kind
    return values.make(Input, column, dtype, values.make(Base, column) if lists else None)


def _events_of(stage: CompiledStage, left: Left, events: Events) -> Events:
    """The events of a stage, for who is outside."""
    positions = None if left.positions is None or len(left.positions) == events.size else left.positions
    columns: dict[str, Column] = {}
    for name, value in stage.columns.items():
        if isinstance(value, Opaque | Input):
            there = events.columns[value.column]
            columns[name] = there if positions is None else there[positions]
        else:
            columns[name] = left.new[value].column()
    if positions is None:
        return replace(events, columns=columns)
    index = positions if events.index is None else events.index[positions]
    return replace(events, columns=columns, size=len(positions), index=index)
