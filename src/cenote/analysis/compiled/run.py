"""Run compiled stages on the columns of one partition: hand buffers over, call the passes, collect what they left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property, reduce
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cenote.analysis.compiled.emit import NAME, Code, code_of
from cenote.analysis.compiled.emit_values import Parameter
from cenote.analysis.compiled.machine_code import COMPILER
from cenote.analysis.compiled.passes import CompiledStage, Export, LaterPass, Pass, passes
from cenote.analysis.compiled.stage import LANES, Counted, EventTally, Filled, HistogramFill, StageResults, lanes_added
from cenote.analysis.compiled.values import (
    TYPES,
    Base,
    Combined,
    DType,
    Joined,
    Numpy,
    Space,
    Value,
    Values,
    parents_of,
)
from cenote.analysis.expressions.arrays import Column
from cenote.analysis.expressions.problems import EvaluationError
from cenote.common.arrays import ak, is_awkward
from cenote.common.values import dataclass

_READ = ("column", "lists")
"""Parameters that are columns."""
Array = NDArray[Any]
Offsets = NDArray[np.int64]


@dataclass(frozen=True)
class Flat:
    """A column as plain buffers: one value per event, or the elements of all events and where each event's begin."""

    data: Array
    offsets: Offsets | None = None

    def column(self) -> Column:
        """As a column again."""
        if self.offsets is None:
            return self.data
        content = ak.contents.NumpyArray(self.data)
        return ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(self.offsets), content))


Kind = tuple[DType, bool]
"""The type of a column's values, and whether it has lists of them."""


def kind_of(column: Column) -> Kind | None:
    """What a column holds; None where compiled stages cannot read it."""
    if not is_awkward(column):
        return (column.dtype, False) if _is_plain(column) else None
    layout = column.layout
    lists = isinstance(layout, ak.contents.ListOffsetArray | ak.contents.ListArray)
    inner = layout.content if lists else layout
    named = any(one.parameter("__array__") for one in (layout, inner))
    plain = not named and isinstance(inner, ak.contents.NumpyArray) and _is_plain(inner.data)
    return (inner.data.dtype, lists) if plain else None


def _is_plain(array: Column) -> bool:
    """Whether it is one number after the other, of a type that can be computed with."""
    return isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype in TYPES and array.dtype.isnative


def flat(column: Column) -> Flat:
    """The buffers of a column that has a kind; nothing is copied if it was read in one piece."""
    if not is_awkward(column):
        return Flat(np.ascontiguousarray(column))
    layout = column.layout
    if isinstance(layout, ak.contents.NumpyArray):
        return Flat(np.ascontiguousarray(layout.data))
    if isinstance(layout, ak.contents.ListArray):
        layout = layout.to_ListOffsetArray64(True)
    offsets = np.ascontiguousarray(layout.offsets.data, dtype=np.int64)
    content = np.ascontiguousarray(layout.content.data[offsets[0] : offsets[-1]])
    return Flat(content, offsets if offsets[0] == 0 else offsets - offsets[0])


@dataclass(frozen=True)
class Left:
    """The events of a stage, for whoever is outside."""

    positions: Offsets | None
    """Where they are among those that came in; None: all of them are there."""
    new: Mapping[Value, Flat]


@dataclass
class StageFindings:
    """What compiled stages found for a partition."""

    events: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Stage → events that came in, events that went on."""
    products: dict[str, Any] = field(default_factory=dict)
    left: dict[str, Left] = field(default_factory=dict)


class Program:
    """Compiled stages for columns of certain types."""

    def __init__(self, stages: Sequence[CompiledStage], values: Values) -> None:
        self.stages = {stage.stage: stage for stage in stages}
        self.values = values
        self.first = passes(stages)
        self.codes: dict[Pass, Code] = {}
        self._write(self.first)

    def _write(self, work: Pass) -> None:
        self.codes[work] = code_of(work, self.values)
        for other in (*work.beside, *(later.then for later in work.following)):
            self._write(other)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Those that it reads."""
        read = [of[0].column for code in self.codes.values() for kind, *of in code.parameters if kind in _READ]
        return tuple(dict.fromkeys([*read, *(name for pair in self.values.united for name in pair)]))

    @property
    def texts(self) -> list[str]:
        """The functions of all passes."""
        return [code.text for code in self.codes.values()]

    def run(self, columns: Mapping[str, Flat], size: int) -> StageFindings | None:
        """What the stages find; None where the ordinary way has to say what is wrong with these columns."""
        for one, other in self.values.united:
            first, second = columns[one].offsets, columns[other].offsets
            if first is not second and not np.array_equal(first, second):  # type: ignore[arg-type]  # both are lists
                return None
        call = _Call(self, columns)
        try:
            return call.found if call.run(self.first, None, size, {}) else None
        except EvaluationError:  # numpy refuses values: whole numbers to negative powers
            return None


class _Call:
    """One partition on its way through the passes."""

    def __init__(self, program: Program, columns: Mapping[str, Flat]) -> None:
        self.program, self.columns = program, columns
        self.found = StageFindings()

    def run(self, work: Pass, positions: Offsets | None, size: int, given: Mapping[Value, Flat]) -> bool:
        """Whether a pass and all that follow it went well."""
        code = self.program.codes[work]
        buffers = _Buffers(self, work, size, given)
        arrays = [buffers.array(parameter) for parameter in code.parameters]
        function = COMPILER.function(code.text, NAME, 1 + len(arrays))
        where = None if positions is None else _address(positions)
        if function(size, where, *map(_address, arrays)) != 0:
            return False
        buffers.count(code.counters)
        for stage in work.stages:
            self.found.events[stage.stage] = buffers.numbers["in", stage.stage], buffers.numbers["out", stage.stage]
            if stage.product is not None:
                self.found.products[stage.stage] = stage.product(buffers.results(stage))
        for name, export in work.leaving.items():
            self.found.left[name] = Left(buffers.positions(export, positions), buffers.exported(export))
        beside = all(self.run(other, positions, size, given) for other in work.beside)
        return beside and all(self._follow(later, buffers, positions) for later in work.following)

    def _follow(self, later: LaterPass, buffers: _Buffers, positions: Offsets | None) -> bool:
        export = later.export
        known: dict[Value, Flat] = buffers.exported(export)
        for call in later.calls:
            known[call] = _computed(call, known)
        where = buffers.positions(export, positions)
        return self.run(later.then, where, buffers.numbers["size", export], known)


class _Buffers:
    """The memory that one pass reads and writes."""

    def __init__(self, call: _Call, work: Pass, size: int, given: Mapping[Value, Flat]) -> None:
        self._call, self._work, self._size, self._given = call, work, size, given
        self._arrays: dict[Parameter, Array] = {}
        self._histograms: dict[tuple[str, int], Any] = {}  # Any: hist publishes no types
        self.numbers: dict[Parameter, int] = {}

    def array(self, parameter: Parameter) -> Array:
        """What a parameter of the function points to."""
        if parameter not in self._arrays:
            self._arrays[parameter] = self._made(*parameter)
        return self._arrays[parameter]

    def _made(self, kind: str, *of: Any) -> Array:  # Any: see Parameter
        columns, size = self._call.columns, self._size
        match kind:
            case "column":
                return columns[of[0].column].data
            case "lists":
                return _lists(columns[of[0].column])
            case "given":
                return self._given[of[0]].data
            case "given lists":
                return _lists(self._given[of[0]])
            case "picked" | "keys":
                longest = int(np.diff(_lists(columns[of[0].parent.column])).max(initial=0))
                return np.empty(longest + 1, dtype=np.int64 if kind == "picked" else of[0].key.dtype)
            case "gathered":
                longest = int(_most_elements(of[0].space, columns).max(initial=0))
                return np.empty(longest + 1, dtype=of[0].dtype)
            case "weights":
                return np.empty(size + 1)
            case "edges":
                return of[0].bins[of[1]].edges  # type: ignore[no-any-return]  # see Parameter
            case "histogram":
                stage, number = of
                self._histograms[stage, number] = made = self._call.program.stages[stage].histograms[number]()
                return made.view(flow=True).view(np.ndarray)  # type: ignore[no-any-return]  # hist publishes no types
            case "moments":
                return np.zeros((len(of[0].moments), LANES))
            case "positions":
                return np.empty(size, dtype=np.int64)
            case "exported":
                value = of[1]
                length = size if value.space is None else int(_most_elements(value.space, columns).sum())
                return np.empty(length, dtype=value.dtype)
            case "exported lists":
                return np.zeros(size + 1, dtype=np.int64)
            case "counters":
                return np.zeros(len(self._call.program.codes[self._work].counters), dtype=np.int64)
        raise AssertionError(f"a parameter for {kind}")

    def count(self, counters: Sequence[Parameter]) -> None:
        """Read the numbers that the function wrote."""
        self.numbers = dict(zip(counters, self.array(("counters",)).tolist(), strict=True))

    def results(self, stage: CompiledStage) -> StageResults:
        """What is for the product of a stage."""
        tallies = {sink: self._counted(sink) for sink in stage.sinks if isinstance(sink, EventTally)}
        for number in range(len(stage.histograms)):
            self.array(("histogram", stage.stage, number))  # one that nothing filled
        found = [self._histograms[stage.stage, number] for number in range(len(stage.histograms))]
        fills = {sink: self._filled(sink) for sink in stage.sinks if isinstance(sink, HistogramFill) and sink.moments}
        return StageResults(found, tallies, fills)

    def _filled(self, fill: HistogramFill) -> Filled:
        return Filled(self.numbers["entries", fill], lanes_added(self.array(("moments", fill))))

    def _counted(self, tally: EventTally) -> Counted:
        number = self.numbers["tally", tally]
        return Counted(number, None if tally.weight is None else self.array(("weights", tally))[:number])

    def positions(self, export: Export, before: Offsets | None) -> Offsets | None:
        """Where the events of an export are."""
        if export.condition is self._work.root:
            return before
        return self.array(("positions", export))[: self.numbers["size", export]]

    def exported(self, export: Export) -> dict[Value, Flat]:
        """The values of an export."""
        size = self.numbers["size", export]
        found: dict[Value, Flat] = {}
        for value in export.values:
            data = self.array(("exported", export, value))
            if value.space is None:
                found[value] = Flat(data[:size])
            else:
                offsets = self.array(("exported lists", export, value))[: size + 1]
                found[value] = Flat(data[: self.numbers["elements", export, value]], offsets)
        return found


def _most_elements(space: Space, columns: Mapping[str, Flat]) -> NDArray[np.int64]:
    """How many elements of a space each event may have."""
    if isinstance(space, Base):
        return np.diff(_lists(columns[space.column]))
    counts = [_most_elements(parent, columns) for parent in parents_of(space)]
    if isinstance(space, Combined):
        table = [comb(number, space.size) for number in range(int(counts[0].max(initial=0)) + 1)]
        chosen: NDArray[np.int64] = np.array(table)[counts[0]]
        return chosen
    return reduce(np.add if isinstance(space, Joined) else np.multiply, counts)


def _lists(column: Flat) -> Offsets:
    assert column.offsets is not None, "a column of lists"
    return column.offsets


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _computed(call: Numpy, known: Mapping[Value, Flat]) -> Flat:
    """What numpy gives for the values of its arguments; one per event is repeated for each element."""
    arguments = [known[argument] if isinstance(argument, Value) else argument for argument in call.arguments]
    offsets = next((one.offsets for one in arguments if isinstance(one, Flat) and one.offsets is not None), None)
    counts = None if offsets is None else np.diff(offsets)
    plain = [_repeated(one, counts) if isinstance(one, Flat) else one for one in arguments]
    return Flat(np.ascontiguousarray(call.apply(*plain), dtype=call.dtype), offsets)


def _repeated(flat: Flat, counts: NDArray[np.int64] | None) -> Array:
    return flat.data if counts is None or flat.offsets is not None else np.repeat(flat.data, counts)
