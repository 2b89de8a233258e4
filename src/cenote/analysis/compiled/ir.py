"""Write LLVM's language as text: numbered values, loops, branches, and the instructions of each operator."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field

import numpy as np

from cenote.analysis.compiled.values import BOOL, Constant, DType, Instruction, Value
from cenote.common.values import dataclass

REGISTERS = {
    "b1": "i1", "i1": "i8", "u1": "i8", "i2": "i16", "u2": "i16", "i4": "i32", "u4": "i32", "i8": "i64",
    "f4": "float", "f8": "double",
}  # fmt: skip


def register(dtype: DType) -> str:
    """LLVM's name for a value of a type."""
    return REGISTERS[dtype.str[1:]]


def stored(dtype: DType) -> str:
    """LLVM's name for how memory holds it."""
    return "i8" if dtype == BOOL else register(dtype)


@dataclass
class FunctionText:
    """The body of a function in the making. Variables live on the stack: LLVM turns them into registers."""

    variables: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    _last: int = 0

    def fresh(self, letter: str = "t") -> str:
        """A name that is not used yet."""
        self._last += 1
        return f"{letter}{self._last}"

    def let(self, text: str) -> str:
        """A new value."""
        name = f"%{self.fresh()}"
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """An instruction without a value."""
        self.lines.append(f"  {text}")

    def variable(self, kind: str) -> str:
        """A place on the stack."""
        name = f"%{self.fresh('v')}"
        self.variables.append(f"  {name} = alloca {kind}")
        return name

    def label(self, name: str) -> None:
        """Begin a block."""
        self.lines.append(f"{name}:")

    def load(self, pointer: str, index: str, dtype: DType) -> str:
        """An element of an array."""
        kind = stored(dtype)
        place = self.let(f"getelementptr inbounds {kind}, ptr {pointer}, i64 {index}")
        value = self.let(f"load {kind}, ptr {place}")
        return self.let(f"icmp ne i8 {value}, 0") if dtype == BOOL else value

    def store(self, value: str, pointer: str, index: str, dtype: DType) -> None:
        """Write an element of an array."""
        if dtype == BOOL:
            value = self.let(f"zext i1 {value} to i8")
        place = self.let(f"getelementptr inbounds {stored(dtype)}, ptr {pointer}, i64 {index}")
        self.do(f"store {stored(dtype)} {value}, ptr {place}")

    def increased(self, variable: str, by: str = "1") -> str:
        """Add to a variable of 64 bits; what it was before."""
        before = self.let(f"load i64, ptr {variable}")
        after = self.let(f"add i64 {before}, {by}")
        self.do(f"store i64 {after}, ptr {variable}")
        return before

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """What is written inside is done where a condition holds."""
        name = self.fresh("b")
        self.do(f"br i1 {condition}, label %{name}.yes, label %{name}.on")
        self.label(f"{name}.yes")
        yield
        self.do(f"br label %{name}.on")
        self.label(f"{name}.on")

    @contextmanager
    def each(self, start: str, stop: str) -> Iterator[str]:
        """What is written inside is done for every number from `start` up to `stop`."""
        name, counter = self.fresh("l"), self.variable("i64")
        self.do(f"store i64 {start}, ptr {counter}")
        self.do(f"br label %{name}.test")
        self.label(f"{name}.test")
        number = self.let(f"load i64, ptr {counter}")
        more = self.let(f"icmp slt i64 {number}, {stop}")
        self.do(f"br i1 {more}, label %{name}.body, label %{name}.end")
        self.label(f"{name}.body")
        yield number
        self.do(f"store i64 {self.let(f'add nsw i64 {number}, 1')}, ptr {counter}")
        self.do(f"br label %{name}.test")
        self.label(f"{name}.end")

    def repeat_while(self, test: Callable[[], str], body: Callable[[], None]) -> None:
        """`body` as long as `test` holds."""
        name = self.fresh("w")
        self.do(f"br label %{name}.test")
        self.label(f"{name}.test")
        self.do(f"br i1 {test()}, label %{name}.body, label %{name}.end")
        self.label(f"{name}.body")
        body()
        self.do(f"br label %{name}.test")
        self.label(f"{name}.end")


# Write what the processor does with single values: arithmetic, comparisons, conversions.


_FRACTIONS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_WHOLE = {"+": "add", "-": "sub", "*": "mul"}
_COMPARED = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_FUNCTIONS = {"sqrt": "sqrt", "abs": "fabs", "floor": "floor", "ceil": "ceil"}
_INFINITY = "0x7FF0000000000000"


def number_text(number: float, dtype: DType) -> str:
    """A constant; fractions by their bits."""
    if dtype == BOOL:
        return "true" if number else "false"
    return f"0x{struct.pack('>d', number).hex().upper()}" if dtype.kind == "f" else str(int(number))


class InstructionWriter:
    """Writes instructions into the text of a function."""

    def __init__(self) -> None:
        self.text = FunctionText()
        self.error = self.text.variable("i64")
        """Not 0 where the ordinary way has to say what is wrong."""

    def applied(self, value: Instruction, names: Sequence[str]) -> str:
        """An instruction on arguments of these names."""
        dtype = value.arguments[-1].dtype
        kind, fraction, let = register(dtype), dtype.kind == "f", self.text.let
        sign, joined = value.sign, ", ".join(names)
        if sign in _COMPARED:
            return let(f"{comparison(sign, dtype)} {kind} {joined}")
        if sign in ("and", "or", "xor"):
            return let(f"{sign} {kind} {joined}")
        if sign in _FRACTIONS:
            if fraction:
                return let(f"{_FRACTIONS[sign]} {kind} {joined}")
            return self.whole(_WHOLE[sign], *names, fits=all(map(_is_narrow, value.arguments)))
        match sign:
            case "where":
                return let(f"select i1 {names[0]}, {kind} {names[1]}, {kind} {names[2]}")
            case "cast" | "!=0":
                return self.converted(names[0], dtype, value.dtype)
            case "not" | "invert":
                return let(f"xor {kind} {joined}, -1")
            case "negative":
                return let(f"fneg {kind} {joined}") if fraction else self.whole("sub", "0", joined)
            case "minimum" | "maximum":
                first = let(f"{comparison('<' if sign == 'minimum' else '>', dtype)} {kind} {joined}")
                nan = let(f"fcmp uno {kind} {names[0]}, {names[0]}")
                return let(f"select i1 {let(f'or i1 {first}, {nan}')}, {kind} {names[0]}, {kind} {names[1]}")
            case "isnan":
                return let(f"fcmp uno {kind} {joined}, {joined}")
            case "isinf" | "isfinite":
                size = self._function("abs", names[0], kind)
                return let(f"fcmp {'oeq' if sign == 'isinf' else 'olt'} {kind} {size}, {_INFINITY}")
        return self._function(sign, names[0], kind)

    def whole(self, operation: str, left: str, right: str, *, fits: bool = False) -> str:
        """Arithmetic of whole numbers. Where 64 bits cannot hold the result the ordinary way has to say so; `fits` says
        that they always can."""
        if fits:
            return self.text.let(f"{operation} i64 {left}, {right}")
        both = self.text.let(f"call {{i64, i1}} @llvm.s{operation}.with.overflow.i64(i64 {left}, i64 {right})")
        wrapped = self.text.let(f"zext i1 {self.text.let(f'extractvalue {{i64, i1}} {both}, 1')} to i64")
        before = self.text.let(f"load i64, ptr {self.error}")
        self.text.do(f"store i64 {self.text.let(f'or i64 {before}, {wrapped}')}, ptr {self.error}")
        return self.text.let(f"extractvalue {{i64, i1}} {both}, 0")

    def _function(self, sign: str, name: str, kind: str) -> str:
        return self.text.let(
            f"call {kind} @llvm.{_FUNCTIONS[sign]}.{'f32' if kind == 'float' else 'f64'}({kind} {name})"
        )

    def converted(self, name: str, old: DType, new: DType) -> str:
        """A value as another type."""
        one, other, let = register(old), register(new), self.text.let
        if old == new:
            return name
        if new == BOOL:
            return let(f"fcmp une {one} {name}, 0.0" if old.kind == "f" else f"icmp ne {one} {name}, 0")
        if new.kind == "f":
            if old.kind == "f":
                return let(f"{'fpext' if new.itemsize > old.itemsize else 'fptrunc'} {one} {name} to {other}")
            return let(f"{'sitofp' if old.kind == 'i' else 'uitofp'} {one} {name} to {other}")
        assert old.kind != "f", "numpy cuts fractions off"
        if old != BOOL and new.itemsize <= old.itemsize:
            return name if one == other else let(f"trunc {one} {name} to {other}")
        return let(f"{'sext' if old.kind == 'i' else 'zext'} {one} {name} to {other}")


def _is_narrow(value: Value) -> bool:
    """Whether it is at most 2**31, however wide it was made: two of them always fit when joined."""
    if isinstance(value, Constant):
        return abs(value.number) < 2**31
    while isinstance(value, Instruction) and value.sign == "cast":
        value = value.arguments[0]
    return np.can_cast(value.dtype, np.int32)


def comparison(sign: str, dtype: DType) -> str:
    """LLVM's name for a comparison of two values of a type."""
    if dtype.kind == "f":
        return f"fcmp {'u' if sign == '!=' else 'o'}{_COMPARED[sign]}"
    prefix = "" if sign in ("==", "!=") else "s" if dtype.kind == "i" else "u"
    return f"icmp {prefix}{_COMPARED[sign]}"
