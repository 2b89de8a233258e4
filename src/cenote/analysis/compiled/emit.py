"""Write a pass as one function of LLVM: a loop over events with everything that its stages do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cenote.analysis.compiled.emit_values import Parameter, ValueWriter
from cenote.analysis.compiled.ir import number_text, register
from cenote.analysis.compiled.passes import CompiledStage, Export, Pass
from cenote.analysis.compiled.stage import LANES, BinSearch, EventTally, HistogramFill
from cenote.analysis.compiled.values import BOOL, FLOAT64, INT64, Value, Values
from cenote.common.values import dataclass

NAME = "cenote_pass"
_DECLARED = "".join(
    f"declare {kind} @llvm.{function}.{suffix}({kind})\n"
    for function in ("sqrt", "fabs", "floor", "ceil")
    for kind, suffix in (("float", "f32"), ("double", "f64"))
) + "".join(f"declare {{i64, i1}} @llvm.s{name}.with.overflow.i64(i64, i64)\n" for name in ("add", "sub", "mul"))
_UPPER_BOUND = """
define internal i64 @upper_bound(ptr %edges, i64 %count, double %x) {
entry:
  br label %test
test:
  %low = phi i64 [0, %entry], [%low.next, %step]
  %high = phi i64 [%count, %entry], [%high.next, %step]
  %more = icmp slt i64 %low, %high
  br i1 %more, label %step, label %end
step:
  %sum = add i64 %low, %high
  %middle = lshr i64 %sum, 1
  %place = getelementptr inbounds double, ptr %edges, i64 %middle
  %edge = load double, ptr %place
  %below = fcmp olt double %x, %edge
  %after = add i64 %middle, 1
  %low.next = select i1 %below, i64 %low, i64 %after
  %high.next = select i1 %below, i64 %middle, i64 %high
  br label %test
end:
  ret i64 %low
}
"""
"""How many edges are not above x; a number that is none counts as above all."""


@dataclass(frozen=True)
class Code:
    """A pass as text: a function of the number of events, where they are, and what `parameters` say, in order."""

    text: str
    parameters: tuple[Parameter, ...]
    counters: tuple[Parameter, ...]
    """What the numbers are that it writes to the last of its parameters."""


def code_of(work: Pass, values: Values) -> Code:
    """The function of a pass. It returns 0, or 1 where the ordinary way has to say what is wrong."""
    return _PassWriter(work, values).code()


class _PassWriter(ValueWriter):
    def __init__(self, work: Pass, values: Values) -> None:
        super().__init__(work, values)
        self.counters: dict[Parameter, str] = {}
        self._computed_by: dict[str, dict[Any, str]] = {}
        """Stage → what it and those before it have computed."""
        self._conditions: dict[Any, str] = {}
        """Which events stages kept; false where a stage did not run."""

    def code(self) -> Code:
        with self.text.each("0", "%n") as number:
            self.text.do(f"%j = add i64 {number}, 0")
            self.text.do("%e = add i64 %j, 0" if self.work.root is None else self._position())
            for stage in self.work.stages:
                self._stage(stage)
            for export in self.work.exports:
                self._find(export.after)
                self._export(export)
        self._write_counters()
        code = self.text.let(f"load i64, ptr {self.error}")
        pointers = "".join(f", ptr noalias {name}" for name in self.parameters.values())
        zero = [f"  store i64 0, ptr {name}" for name in (self.error, *self.counters.values())]
        body = "\n".join([*self.text.variables, *zero, *self.text.lines])
        text = (
            f"define i64 @{NAME}(i64 %n, ptr noalias %positions{pointers}) {{\nentry:\n{body}\n  ret i64 {code}\n}}\n"
        )
        return Code(f"{_DECLARED}{_UPPER_BOUND}{text}", tuple(self.parameters), tuple(self.counters))

    def _position(self) -> str:
        place = self.text.let("getelementptr inbounds i64, ptr %positions, i64 %j")
        return f"%e = load i64, ptr {place}"

    def counter(self, *key: Any) -> str:
        """A number that the function reports."""
        if key not in self.counters:
            self.counters[key] = self.text.variable("i64")
        return self.counters[key]

    def _write_counters(self) -> None:
        result = self.parameter("counters")
        for place, variable in enumerate(self.counters.values()):
            self.text.store(self.text.let(f"load i64, ptr {variable}"), result, str(place), INT64)

    def _find(self, stages: Iterable[str]) -> None:
        """Let values be found that stages have computed, where all of these have run; conditions always can be."""
        self._kept = dict(self._conditions)
        for stage in stages:
            self._kept |= self._computed_by.get(stage, {})

    def _stage(self, stage: CompiledStage) -> None:
        outgoing, passed = stage.outgoing, ""
        self._kept = self._conditions
        incoming = "true" if stage.incoming is None else self.value(stage.incoming)
        self._find(stage.inputs)
        if outgoing is not None and outgoing not in (stage.incoming, self.work.root, *self._conditions):
            passed = self.text.variable("i1")
            self.text.do(f"store i1 false, ptr {passed}")
        with self.when(incoming):
            self.text.increased(self.counter("in", stage.stage))
            for value in stage.added:
                self.keep(value)
            for sink in stage.sinks:
                self._tally(sink) if isinstance(sink, EventTally) else self._fill(stage.stage, sink)
            if passed and outgoing is not None:
                self.text.do(f"store i1 {self.value(outgoing)}, ptr {passed}")
            self._counted("out", stage.stage, condition=outgoing)
        self._computed_by[stage.stage] = self._kept
        if passed:
            self._conditions[outgoing] = passed

    def _counted(self, *key: Any, condition: Value | None) -> str:
        one = "1" if condition is None else self.text.let(f"zext i1 {self.value(condition)} to i64")
        return self.text.increased(self.counter(*key), one)

    def _tally(self, tally: EventTally) -> None:
        before = self._counted("tally", tally, condition=tally.condition)
        if tally.weight is not None:  # written over by the next one where the condition does not hold
            self.text.store(self.value(tally.weight), self.parameter("weights", tally), before, FLOAT64)

    # what leaves the loop

    def _export(self, export: Export) -> None:
        whole = export.condition is self.work.root
        with self.when("true" if whole or export.condition is None else self.value(export.condition)):
            place = self.text.increased(self.counter("size", export))
            if not whole:
                self.text.store("%e", self.parameter("positions", export), place, INT64)
            self.prepare([value for value in export.values if value.space is not None])
            for value in export.values:
                self._write(export, value, place)

    def _write(self, export: Export, value: Value, place: str) -> None:
        column = self.parameter("exported", export, value)
        if value.space is None:
            self.text.store(self.value(value), column, place, value.dtype)
            return
        elements = self.counter("elements", export, value)
        with self.elements(value.space):
            self.text.store(self.value(value), column, self.text.increased(elements), value.dtype)
        after = self.text.let(f"add i64 {place}, 1")
        ends = self.parameter("exported lists", export, value)
        self.text.store(self.text.let(f"load i64, ptr {elements}"), ends, after, INT64)

    # histograms

    def _fill(self, stage: str, fill: HistogramFill) -> None:
        values = [*fill.values, *([fill.weight] if fill.weight is not None else [])]
        if fill.space is None:
            self._fill_one(stage, fill)
            return
        self.prepare(values)
        with self.elements(fill.space):
            self._fill_one(stage, fill)

    def _fill_one(self, stage: str, fill: HistogramFill) -> None:
        let = self.text.let
        place, stride, there, within = "0", 1, "true", "true"
        for number, (bins, value) in enumerate(zip(fill.bins, fill.values, strict=True)):
            index, inside = self._bin(bins, value, ("edges", fill, number))
            if bins.flow:
                index = let(f"add i64 {index}, 1")
            else:
                there = let(f"and i1 {there}, {inside}")
            within = let(f"and i1 {within}, {inside}")
            place = let(f"add i64 {place}, {let(f'mul i64 {index}, {stride}')}")
            stride *= bins.extent
        with self.when(there):
            self._add(self.parameter("histogram", stage, fill.histogram), place, fill)
            if fill.moments:
                self._add_moments(fill, within)

    def _add_moments(self, fill: HistogramFill, within: str) -> None:
        """What lies beyond the bins adds 0: the next lane is its own all the same."""
        let, sums = self.text.let, self.parameter("moments", fill)
        lane = let(f"and i64 {self.text.increased(self.counter('entries', fill))}, {LANES - 1}")
        one = number_text(1.0, FLOAT64) if fill.weight is None else self.value(fill.weight)
        known: dict[tuple[int, ...], str] = {(): let(f"select i1 {within}, double {one}, double 0.0")}
        numbers: dict[int, str] = {}
        for row, moment in enumerate(fill.moments):
            axis = moment[-1]
            if axis not in numbers:
                x = self._number_along(fill.bins[axis], fill.values[axis])
                numbers[axis] = let(f"select i1 {within}, double {x}, double 0.0")
            known[moment] = let(f"fmul double {known[moment[:-1]]}, {numbers[axis]}")
            at = let(f"add i64 {lane}, {row * LANES}")
            total = let(f"fadd double {self.text.load(sums, at, FLOAT64)}, {known[moment]}")
            self.text.store(total, sums, at, FLOAT64)

    def _number_along(self, bins: BinSearch, value: Value) -> str:
        name, dtype = self.value(value), value.dtype
        if bins.kind == "boolean":
            return self.converted(self.converted(name, dtype, BOOL), BOOL, FLOAT64)
        return self.converted(name, dtype, FLOAT64)

    def _add(self, histogram: str, place: str, fill: HistogramFill) -> None:
        if not fill.weighted:
            self.text.store(
                self.text.let(f"add i64 {self.text.load(histogram, place, INT64)}, 1"), histogram, place, INT64
            )
            return
        weight = number_text(1.0, FLOAT64) if fill.weight is None else self.value(fill.weight)
        square = self.text.let(f"fmul double {weight}, {weight}")
        first = self.text.let(f"shl i64 {place}, 1")
        for at, amount in ((first, weight), (self.text.let(f"or i64 {first}, 1"), square)):
            total = self.text.let(f"fadd double {self.text.load(histogram, at, FLOAT64)}, {amount}")
            self.text.store(total, histogram, at, FLOAT64)

    def _bin(self, bins: BinSearch, value: Value, edges: Parameter) -> tuple[str, str]:
        """The bin of a value along an axis, counted from the first within the limits, and whether it is within."""
        let = self.text.let
        if bins.kind == "fixed":
            return str(int(bins.low)), "true"
        if bins.kind == "boolean":
            return let(f"zext i1 {self.converted(self.value(value), value.dtype, BOOL)} to i64"), "true"
        if bins.kind == "integer":
            index = self._whole(bins, value)
        else:
            x = self.converted(self.value(value), value.dtype, FLOAT64)
            index = self._regular(bins, x, edges) if bins.kind == "regular" else self._variable(bins, x, edges)
            if not bins.flow:  # the upper edge then belongs to the last bin
                last = let(f"fcmp oeq double {x}, {number_text(float(bins.edges[-1]), FLOAT64)}")
                index = let(f"select i1 {last}, i64 {bins.count - 1}, i64 {index}")
        return index, let(f"icmp ult i64 {index}, {bins.count}")

    def _regular(self, bins: BinSearch, x: str, edges: Parameter) -> str:
        """A guess, which is off by one at most, corrected by the edges around it; NaN is below none of them."""
        let, table = self.text.let, self.parameter(*edges)
        low, scale, last = bins.low, bins.count / (bins.high - bins.low), float(bins.count - 1)
        start, factor, most = (number_text(number, FLOAT64) for number in (low, scale, last))
        z = let(f"fmul double {let(f'fsub double {x}, {start}')}, {factor}")
        below = let(f"select i1 {let(f'fcmp olt double {z}, {most}')}, double {z}, double {most}")
        within = let(f"select i1 {let(f'fcmp ogt double {below}, 0.0')}, double {below}, double 0.0")
        guess = let(f"fptosi double {within} to i64")
        begin = self.text.load(table, guess, FLOAT64)
        end = self.text.load(table, let(f"add i64 {guess}, 1"), FLOAT64)
        more = let(f"zext i1 {let(f'fcmp uge double {x}, {end}')} to i64")
        less = let(f"zext i1 {let(f'fcmp olt double {x}, {begin}')} to i64")
        return let(f"sub i64 {let(f'add i64 {guess}, {more}')}, {less}")

    def _variable(self, bins: BinSearch, x: str, edges: Parameter) -> str:
        let = self.text.let
        found = let(f"call i64 @upper_bound(ptr {self.parameter(*edges)}, i64 {bins.count + 1}, double {x})")
        return let(f"sub i64 {found}, 1")

    def _whole(self, bins: BinSearch, value: Value) -> str:
        """Fractions are rounded down; what is beyond the limits goes to the bins there, and so does what is none."""
        let, low, high = self.text.let, int(bins.low), int(bins.high)
        name, dtype = self.value(value), value.dtype
        if dtype.kind == "f":
            x = self.converted(name, dtype, FLOAT64)
            after = let(f"fcmp ult double {x}, {number_text(float(high), FLOAT64)}")
            missing = let(f"fcmp uno double {x}, {x}")
            before = let(f"fcmp olt double {x}, {number_text(float(low - 1), FLOAT64)}")
            down = let(f"fptosi double {let(f'call double @llvm.floor.f64(double {x})')} to i64")
            inside = let(f"select i1 {before}, i64 {low - 1}, i64 {down}")
            there = let(f"select i1 {after}, i64 {inside}, i64 {high}")
            number = let(f"select i1 {missing}, i64 {high}, i64 {there}")
        else:
            number = self.converted(name, dtype, INT64) if register(dtype) != "i64" else name
            for sign, limit in (("slt", low - 1), ("sgt", high)):
                number = let(f"select i1 {let(f'icmp {sign} i64 {number}, {limit}')}, i64 {limit}, i64 {number}")
        return let(f"sub i64 {number}, {low}")
