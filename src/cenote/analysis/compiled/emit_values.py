"""Write typed values as LLVM's instructions, each where it is first needed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import reduce
from typing import Any

from cenote.analysis.compiled.ir import InstructionWriter, comparison, number_text, register
from cenote.analysis.compiled.passes import Pass, computed
from cenote.analysis.compiled.values import (
    BOOL,
    FLOAT64,
    INT64,
    Base,
    ChosenBy,
    Combined,
    Constant,
    Counted,
    Crossed,
    Gathered,
    Input,
    Instruction,
    IsThere,
    Joined,
    Masked,
    MemberOf,
    Nth,
    Numpy,
    Ordinal,
    Picked,
    Reduced,
    Smallest,
    Space,
    Taken,
    Value,
    Values,
)

Parameter = tuple[Any, ...]
"""What a pointer is for: a word, and the value, space or stage that it belongs to."""


class ValueWriter(InstructionWriter):
    """Writes values of the event at hand, `%e`, which is the `%j`-th of those that the pass goes over."""

    def __init__(self, work: Pass, values: Values) -> None:
        super().__init__()
        self.work, self.values = work, values
        self.parameters: dict[Parameter, str] = {}
        self._known: dict[Any, str] = {}
        """Values (and the lengths of picked spaces) that are computed here → their names."""
        self._kept: dict[Any, str] = {}
        """Those of earlier stages of the pass → the variable that holds them."""
        self._filled: set[Gathered] = set()
        """Joined lists that are together already."""
        self._members: dict[tuple[Any, ...], tuple[str, ...]] = {}
        """Combinations → where the members of the one at hand are."""
        self._known_of: dict[tuple[Any, ...], dict[Any, str]] = {}
        """Members → what is computed of them."""
        self._places: dict[tuple[Any, ...], tuple[str, str]] = {}
        """Positions that were looked for → whether an event has so many elements, and where that one is."""
        self._cursors: dict[tuple[Any, ...], tuple[str, str]] = {}
        """Space → where the element at hand is, and which of its event's it is."""

    def parameter(self, *key: Any) -> str:
        """A pointer that the function takes."""
        return self.parameters.setdefault(key, f"%p{len(self.parameters)}")

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is computed inside is not known after it: that part may not have run."""
        before = self._known, self._places, self._cursors, self._members, self._known_of, self._filled
        self._known, self._places, self._cursors = dict(self._known), dict(self._places), dict(self._cursors)
        self._members, self._known_of = dict(self._members), {key: dict(one) for key, one in self._known_of.items()}
        self._filled = set(self._filled)
        yield
        self._known, self._places, self._cursors, self._members, self._known_of, self._filled = before

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """What is written inside is done where a condition holds."""
        with self.scope(), self.text.when(condition):
            yield

    def keep(self, value: Value) -> None:
        """Compute a value now and let later stages find it."""
        self.prepare([value])
        if value.space is None and value not in self._kept and not isinstance(value, Constant | Input):
            variable = self.text.variable(register(value.dtype))
            self.text.do(f"store {register(value.dtype)} {self.value(value)}, ptr {variable}")
            self._kept[value] = variable
        for known, name in self._known.items():
            if isinstance(known, Picked):
                self._kept.setdefault(known, name)
        self._kept |= dict.fromkeys((("filled", gathered) for gathered in self._filled), "")

    def prepare(self, values: list[Value]) -> None:
        """Compute what goes over elements before a loop over elements begins."""
        for value in computed(values, self.work.given):
            if isinstance(value.space, Picked):
                self._length(value.space)
            if isinstance(value, Gathered):
                self._gather(value)
            if value not in self.work.given and isinstance(value, Reduced | Nth | IsThere | ChosenBy):
                self.value(value)

    def value(self, value: Value) -> str:
        """The name of a value, which is computed where it is not known yet."""
        if value is self.work.root:
            return "true"
        if value not in self._known:
            if value in self._kept:
                self._known[value] = self.text.let(f"load {register(value.dtype)}, ptr {self._kept[value]}")
            else:
                self._known[value] = self._computed(value)
        return self._known[value]

    def _computed(self, value: Value) -> str:
        match value:
            case Constant():
                return number_text(value.number, value.dtype)
            case Input():
                at = "%e" if value.space is None else self._cursor(value.space)[0]
                return self.text.load(self.parameter("column", value), at, value.dtype)
            case Instruction():
                return self.applied(value, [self.value(argument) for argument in value.arguments])
            case Numpy():
                return self._given(value)
            case Taken():
                return self.value(value.value)
            case MemberOf():
                return self._member(value)
            case Gathered():
                return self.text.load(self.parameter("gathered", value), self._cursor(value.space)[0], value.dtype)
            case Smallest():
                return self._smallest(value)
            case Ordinal():
                return self._cursor(value.space)[1]
            case ChosenBy():
                return self._chosen(value)
            case Reduced():
                return self._reduced(value)
            case Nth():
                return self._nth(value)
            case IsThere():
                return self._place(value.over, value.position)[0]

    def _given(self, value: Numpy) -> str:
        assert value in self.work.given, "stages wait for what numpy computes"
        if value.space is None:
            return self.text.load(self.parameter("given", value), "%j", value.dtype)
        start = self.text.load(self.parameter("given lists", value), "%j", INT64)
        at = self.text.let(f"add i64 {start}, {self._cursor(value.space)[1]}")
        return self.text.load(self.parameter("given", value), at, value.dtype)

    # elements

    def _cursor(self, space: Space) -> tuple[str, str]:
        return self._cursors[self.values.key(space)]

    def _limits(self, base: Base) -> tuple[str, str]:
        """Where the elements of the event begin and end."""
        offsets = self.parameter("lists", self.values.lists(base))
        after = self.text.let("add i64 %e, 1")
        return self.text.load(offsets, "%e", INT64), self.text.load(offsets, after, INT64)

    def _enter(self, space: Counted, index: str) -> None:
        """Go to an element."""
        if isinstance(space, Joined):
            self._cursors[self.values.key(space)] = index, index
            return
        if isinstance(space, Picked):
            self._cursors[self.values.key(space)] = index, index
            space, index = space.parent, self.text.load(self.parameter("picked", space), index, INT64)
        start, _ = self._limits(space)
        self._cursors[self.values.key(space)] = index, self.text.let(f"sub i64 {index}, {start}")

    @contextmanager
    def elements(self, space: Space) -> Iterator[None]:
        """What is written inside is done for every element of the event, in order."""
        if isinstance(space, Masked):
            counter = self.text.variable("i64")
            self.text.do(f"store i64 0, ptr {counter}")
            with self.elements(space.parent), self.when(self.value(space.condition)):
                index, _ = self._cursor(space.parent)
                self._cursors[self.values.key(space)] = index, self.text.increased(counter)
                yield
            return
        if isinstance(space, Combined | Crossed):
            with self._combinations(space):
                yield
            return
        with self.scope(), self.text.each(*self._range(space)) as index:
            self._enter(space, index)
            yield

    def _range(self, space: Counted) -> tuple[str, str]:
        return self._limits(space) if isinstance(space, Base) else ("0", self._count(space))

    @contextmanager
    def _combinations(self, space: Combined | Crossed) -> Iterator[None]:
        counter = self.text.variable("i64")
        parents = [space.parent] * space.size if isinstance(space, Combined) else [space.first, space.second]
        ranges = [self._range(parent) for parent in parents]
        self.text.do(f"store i64 0, ptr {counter}")
        with self.scope(), ExitStack() as loops:
            places: list[str] = []
            for begin, stop in ranges:
                after = places and isinstance(space, Combined)
                start = self.text.let(f"add i64 {places[-1]}, 1") if after else begin
                places.append(loops.enter_context(self.text.each(start, stop)))
            self._meet(space, tuple(places))
            self._cursors[self.values.key(space)] = "", self.text.increased(counter)
            yield

    def _meet(self, space: Combined | Crossed, places: tuple[str, ...]) -> None:
        """Go to a combination of elements: nothing is known of it yet."""
        key = self.values.key(space)
        self._members[key] = places
        self._known_of = {}
        self._known = {
            one: name
            for one, name in self._known.items()
            if getattr(one, "space", None) is None or self.values.key(one.space) != key
        }

    def _smallest(self, value: Smallest) -> str:
        text, result, key = self.text, self.text.variable("double"), self.values.key(value.over)
        outer, _ = self._cursor(value.over.first)
        text.do(f"store double {number_text(math.inf, FLOAT64)}, ptr {result}")
        with self.scope(), text.each(*self._range(value.over.second)) as inner:
            self._meet(value.over, (outer, inner))
            self._cursors[key] = "", inner
            before, name = text.let(f"load double, ptr {result}"), self.value(value.value)
            less, none = text.let(f"fcmp olt double {before}, {name}"), text.let(f"fcmp uno double {before}, {before}")
            stays = text.let(f"or i1 {less}, {none}")
            text.do(f"store double {text.let(f'select i1 {stays}, double {before}, double {name}')}, ptr {result}")
        return text.let(f"load double, ptr {result}")

    def _gather(self, value: Gathered) -> None:
        """Put the values of joined lists together, once for all that walk through them."""
        if value in self._filled or ("filled", value) in self._kept:
            return
        self._filled.add(value)
        text, count = self.text, self.text.variable("i64")
        text.do(f"store i64 0, ptr {count}")
        for part in value.values:
            assert part.space is not None, "lists are joined"
            self.prepare([part])
            with self.elements(part.space):
                text.store(self.value(part), self.parameter("gathered", value), text.increased(count), value.dtype)

    def _member(self, value: MemberOf) -> str:
        """A value of one of the members: what is known of it is known of no other."""
        key = (value.number, *self.values.key(value.space))
        outside, cursors = self._known, self._cursors
        if key not in self._known_of:
            self._known_of[key] = {one: name for one, name in outside.items() if getattr(one, "space", None) is None}
        self._known, self._cursors = self._known_of[key], dict(cursors)
        space = value.space
        parent = space.parent if isinstance(space, Combined) else (space.first, space.second)[value.number]
        self._enter(parent, self._members[self.values.key(value.space)][value.number])
        name = self.value(value.value)
        self._known, self._cursors = outside, cursors
        return name

    def _chosen(self, value: ChosenBy) -> str:
        text, kind, by = self.text, register(value.dtype), value.key.dtype
        space = value.key.space
        assert space is not None, "only lists have elements"
        result, best, found = text.variable(kind), text.variable(register(by)), text.variable("i1")
        self.prepare([value.value, value.key])
        text.do(f"store {kind} {self.value(value.default)}, ptr {result}")
        text.do(f"store {register(by)} zeroinitializer, ptr {best}")
        text.do(f"store i1 false, ptr {found}")
        with self.elements(space):
            key = self.value(value.key)
            before, there = text.let(f"load {register(by)}, ptr {best}"), text.let(f"load i1, ptr {found}")
            better = text.let(f"{comparison('>' if value.largest else '<', by)} {register(by)} {key}, {before}")
            takes = text.let(f"or i1 {better}, {text.let(f'xor i1 {there}, true')}")
            if by.kind == "f":
                takes = text.let(f"and i1 {takes}, {text.let(f'fcmp ord {register(by)} {key}, {key}')}")
            with self.when(takes):
                text.do(f"store {register(by)} {key}, ptr {best}")
                text.do(f"store i1 true, ptr {found}")
                text.do(f"store {kind} {self.value(value.value)}, ptr {result}")
        return text.let(f"load {kind}, ptr {result}")

    def _reduced(self, value: Reduced) -> str:
        if value.kind == "count" and isinstance(value.over, Counted):
            return self._count(value.over)
        kind, text = register(value.dtype), self.text
        result = text.variable(kind)
        first = number_text(value.kind in ("prod", "all"), value.dtype)
        text.do(f"store {kind} {first}, ptr {result}")
        self.prepare([value.value] if value.value is not None else [])
        with self.elements(value.over):
            before = text.let(f"load {kind}, ptr {result}")
            text.do(f"store {kind} {self._added(value, before)}, ptr {result}")
        return text.let(f"load {kind}, ptr {result}")

    def _added(self, value: Reduced, before: str) -> str:
        kind, fraction = register(value.dtype), value.dtype.kind == "f"
        if value.value is None:
            return self.text.let(f"add i64 {before}, 1")
        name, dtype = self.value(value.value), value.value.dtype
        if value.kind in ("any", "all", "count_nonzero"):
            name, dtype = self.converted(name, dtype, BOOL), BOOL
        name = self.converted(name, dtype, value.dtype)
        if not fraction and value.kind in ("sum", "prod"):
            fits = value.kind == "sum" and value.value.dtype.itemsize < INT64.itemsize
            return self.whole("add" if value.kind == "sum" else "mul", before, name, fits=fits)
        sign = {"any": "or", "all": "and", "prod": "fmul"}.get(value.kind)
        return self.text.let(f"{sign or ('fadd' if fraction else 'add')} {kind} {before}, {name}")

    def _count(self, space: Counted) -> str:
        if isinstance(space, Joined):
            parts = [self.value(self.values.make(Reduced, "count", part, None, INT64)) for part in space.parents]
            return reduce(lambda one, other: self.text.let(f"add i64 {one}, {other}"), parts)
        if isinstance(space, Picked):
            return self._length(space)
        start, stop = self._limits(space)
        return self.text.let(f"sub i64 {stop}, {start}")

    def _nth(self, value: Nth) -> str:
        kind, text = register(value.dtype), self.text
        space = value.value.space
        assert space is not None, "only lists have elements"
        self.prepare([value.value])
        there, index = self._place(space, value.position)
        result = text.variable(kind)
        default = "zeroinitializer" if value.default is None else self.value(value.default)
        text.do(f"store {kind} {default}, ptr {result}")
        with self.when(there):
            self._enter(space.parent if isinstance(space, Masked) else space, index)  # type: ignore[arg-type]  # no masks of masks get here
            if isinstance(space, Masked):
                self._cursors[self.values.key(space)] = index, str(value.position)
            text.do(f"store {kind} {self.value(value.value)}, ptr {result}")
        if value.default is None:
            with self.when(text.let(f"xor i1 {there}, true")):
                text.do(f"store i64 1, ptr {self.error}")
        return text.let(f"load {kind}, ptr {result}")

    def _place(self, space: Space, position: int) -> tuple[str, str]:
        """Whether an event has so many elements, and where that one is."""
        key = (position, *self.values.key(space))
        if key not in self._places:
            self._places[key] = self._found(space, position)
        return self._places[key]

    def _found(self, space: Space, position: int) -> tuple[str, str]:
        if isinstance(space, Masked):
            return self._found_in_masked(space, position)
        assert isinstance(space, Counted), "none of the pairs is picked"
        count, let = self._count(space), self.text.let
        there = let(f"icmp sgt i64 {count}, {position if position >= 0 else -position - 1}")
        start = self._limits(space)[0] if isinstance(space, Base) else "0"
        if position < 0:
            start = let(f"add i64 {start}, {count}")
        return there, let(f"add i64 {start}, {position}")

    def _found_in_masked(self, space: Masked, position: int) -> tuple[str, str]:
        found, text = self.text.variable("i64"), self.text
        text.do(f"store i64 -1, ptr {found}")
        self.prepare([space.condition])
        with self.elements(space):
            index, ordinal = self._cursor(space)
            with self.when(text.let(f"icmp eq i64 {ordinal}, {position}")):
                text.do(f"store i64 {index}, ptr {found}")
        index = text.let(f"load i64, ptr {found}")
        return text.let(f"icmp sge i64 {index}, 0"), index

    # elements that a stage chose

    def _length(self, space: Picked) -> str:
        """How many elements were chosen; they are chosen where that is not known yet."""
        if space not in self._known:
            count = self._kept.get(space) or self._pick(space)
            self._known[space] = count
        return self.text.let(f"load i64, ptr {self._known[space]}")

    def _pick(self, space: Picked) -> str:
        text, count = self.text, self.text.variable("i64")
        picked = self.parameter("picked", space)
        text.do(f"store i64 0, ptr {count}")
        self.prepare([value for value in (space.condition, space.key) if value is not None])
        chosen: Space = space.parent
        if space.condition is not None:
            chosen = self.values.make(Masked, space.parent, space.condition)
        with self.elements(chosen):
            index, _ = self._cursor(space.parent)
            at = text.increased(count)
            if space.key is not None:
                at = self._in_order(space, at)
            text.store(index, picked, at, INT64)
        return count

    def _in_order(self, space: Picked, last: str) -> str:
        """Move those that come after the element at hand; where it belongs. A key that is not a number is refused."""
        assert space.key is not None, "there is an order"
        text, dtype, key = self.text, space.key.dtype, self.value(space.key)
        picked, keys, kind = self.parameter("picked", space), self.parameter("keys", space), register(dtype)
        if dtype.kind == "f":
            with self.when(text.let(f"fcmp uno {kind} {key}, {key}")):
                text.do(f"store i64 1, ptr {self.error}")
        place, going = text.variable("i64"), text.variable("i1")
        text.do(f"store i64 {last}, ptr {place}")
        text.do(f"store i1 {text.let(f'icmp sgt i64 {last}, 0')}, ptr {going}")

        def move() -> None:
            at = text.let(f"load i64, ptr {place}")
            before = text.let(f"sub i64 {at}, 1")
            other = text.load(keys, before, dtype)
            later = text.let(f"{comparison('>' if space.descending else '<', dtype)} {kind} {key}, {other}")
            text.do(f"store i1 {later}, ptr {going}")
            with text.when(later):
                text.store(other, keys, at, dtype)
                text.store(text.load(picked, before, INT64), picked, at, INT64)
                text.do(f"store i64 {before}, ptr {place}")
                text.do(f"store i1 {text.let(f'icmp sgt i64 {before}, 0')}, ptr {going}")

        text.repeat_while(lambda: text.let(f"load i1, ptr {going}"), move)
        found = text.let(f"load i64, ptr {place}")
        text.store(key, keys, found, dtype)
        return found
