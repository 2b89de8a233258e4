"""Values are dataclasses in every respect, but for the time that it takes to declare one."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import field, fields, is_dataclass, replace
from typing import Any, ClassVar

import pytest

from cenote.common import values


def _classes(declare: Any) -> dict[str, type[Any]]:  # Any: either decorator
    @declare(frozen=True)
    class Point:
        """A place."""

        x: int
        y: float = 0.5
        tags: list[str] = field(default_factory=list, compare=False)
        note: str = field(default="", repr=False)
        kind: ClassVar[str] = "point"

    @declare(frozen=True)
    class Named(Point):
        """A place with a name, which is asked for by its key."""

        name: str = field(kw_only=True)

        def __post_init__(self) -> None:
            if not self.name:
                raise ValueError("a name is needed")

    @declare(frozen=True, eq=False)
    class Alone:
        """Equal to itself only."""

        x: int = 1

    @declare(frozen=True, repr=False)
    class Own:
        """Says itself what it is."""

        x: int
        made: list[int] = field(init=False, default_factory=list)

        def __repr__(self) -> str:
            return f"own {self.x}"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    @declare(frozen=True)
    class Empty:
        """Nothing."""

    return {kind.__name__: kind for kind in (Point, Named, Alone, Own, Empty)}


OURS, THEIRS = _classes(values.dataclass), _classes(dataclasses.dataclass)
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Point", (1,), {}),
    ("Point", (1, 2.0, ["a"], "n"), {}),
    ("Point", (), {"x": 3, "tags": ["b"]}),
    ("Point", (), {}),
    ("Point", (1, 2, 3, 4, 5), {}),
    ("Point", (1,), {"z": 1}),
    ("Named", (1,), {"name": "a"}),
    ("Named", (1,), {"name": ""}),
    ("Named", (1, 2.0, [], "", "a"), {}),
    ("Alone", (), {}),
    ("Own", (1,), {}),
    ("Own", (1, []), {}),
    ("Empty", (), {}),
    ("Empty", (1,), {}),
]


def _outcome(kind: type[Any], values: tuple[Any, ...], named: dict[str, Any]) -> Any:
    try:
        made = kind(*values, **named)
    except (TypeError, ValueError) as problem:
        return type(problem), str(problem)
    shown = repr(made).replace(hex(id(made)), "ID")
    return shown, dict(vars(made)), dataclasses.asdict(made)


@pytest.mark.parametrize(("name", "positional", "named"), CALLS)
def test_they_are_made_and_shown_alike(name: str, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
    assert _outcome(OURS[name], positional, named) == _outcome(THEIRS[name], positional, named)


@pytest.mark.parametrize("name", OURS)
def test_they_have_the_same_fields_and_take_the_same_arguments(name: str) -> None:
    ours, theirs = OURS[name], THEIRS[name]
    assert is_dataclass(ours)
    assert [(f.name, f.init, f.compare, f.repr, f.kw_only) for f in fields(ours)] == [
        (f.name, f.init, f.compare, f.repr, f.kw_only) for f in fields(theirs)
    ]
    assert getattr(ours, "__match_args__", None) == getattr(theirs, "__match_args__", None)
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)


def test_they_are_equal_and_hashed_alike() -> None:
    for kinds in (OURS, THEIRS):
        point, named = kinds["Point"], kinds["Named"]
        assert point(1, tags=["a"]) == point(1)
        assert point(1) != point(1, note="n")
        assert point(1) != named(1, name="a")
        assert hash(point(1)) == hash((1, 0.5, ""))
        assert kinds["Alone"]() != kinds["Alone"]()
        assert kinds["Own"](1) == kinds["Own"](2)
        assert hash(kinds["Own"](1)) == 7
        assert kinds["Empty"]() == kinds["Empty"]()
        nan = float("nan")
        assert point(nan) == point(nan)


def test_nothing_of_a_value_changes() -> None:
    for kinds in (OURS, THEIRS):
        value = kinds["Point"](1)
        for change in (lambda v: setattr(v, "x", 2), lambda v: setattr(v, "new", 2), lambda v: delattr(v, "x")):
            with pytest.raises(dataclasses.FrozenInstanceError, match=r"cannot (assign to|delete) field '(x|new)'"):
                change(value)

        class Derived(kinds["Point"]):  # type: ignore[misc]  # either class
            """With an attribute of its own."""

        derived = Derived(1)
        derived.own = 2
        del derived.own
        with pytest.raises(dataclasses.FrozenInstanceError):
            derived.x = 2


def test_a_change_is_another_value() -> None:
    named = OURS["Named"](1, name="a")
    assert replace(named, x=2) == OURS["Named"](2, name="a")
    assert copy.deepcopy(named) == named
    with pytest.raises(ValueError, match="a name is needed"):
        replace(named, name="")


def test_frozen_classes_of_both_sorts_inherit_from_each_other() -> None:
    @dataclasses.dataclass(frozen=True)
    class Theirs(OURS["Point"]):  # type: ignore[misc]  # made in a function
        """Theirs of ours."""

        z: int = 3

    @values.dataclass(frozen=True)
    class Ours(Theirs):
        """And ours of theirs."""

        w: int = 4

    assert repr(Ours(1)).endswith("Ours(x=1, y=0.5, tags=[], z=3, w=4)")
    with pytest.raises(TypeError, match="non-frozen"):
        dataclasses.dataclass(type("Changing", (Ours,), {"__annotations__": {"v": int}}))


def test_values_can_be_matched_and_travel() -> None:
    from cenote.common.errors import Place

    place = Place("flow.yaml", 3, 4)
    assert pickle.loads(pickle.dumps(place)) == place
    match place:
        case Place(file, line):
            assert (file, line) == ("flow.yaml", 3)


def test_what_is_not_plainly_frozen_is_left_to_the_standard_library() -> None:
    @values.dataclass
    class Changing:
        """May change."""

        x: int = 1

    @values.dataclass(frozen=True, order=True, slots=True)
    class Ordered:
        """Has an order."""

        x: int

    changing = Changing()
    changing.x = 2
    assert changing == Changing(2)
    assert Ordered(1) < Ordered(2)
    assert not hasattr(Ordered(1), "__dict__")
