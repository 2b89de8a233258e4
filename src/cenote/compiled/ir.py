"""Write LLVM's language: numbered values, loops and branches of one function, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field

from cenote.compiled.values import BOOL, DType
from cenote.values import dataclass

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
