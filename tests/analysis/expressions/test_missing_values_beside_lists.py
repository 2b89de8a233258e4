"""Missing values beside lists: element by element, as a plain Python evaluation over lists and None has it."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import awkward as ak
import numpy as np
import pytest

from cenote.analysis.expressions.parser import Expression
from cenote.analysis.expressions.problems import EvaluationError

TRIES = 20_000 if os.environ.get("CENOTE_DEEP_TESTS") else 500
EVENTS = {
    "Jet_pt": [[120.0, 30.0], [50.0, 15.0], [], [70.0], []],
    "Jet_eta": [[0.5, -1.0], [2.0, 0.0], [], [-0.5], []],
    "Muon_pt": [[], [20.0], [30.0, 10.0], [], []],
    "MET": [40.0, 10.0, 90.0, 60.0, 5.0],
}
COLUMNS = {
    name: ak.values_astype(ak.Array(rows), "f8") if isinstance(rows[0], list) else np.array(rows)
    for name, rows in EVENTS.items()
}


def value(text: str) -> list[Any]:
    found = Expression(text).evaluate(lambda name: COLUMNS.get(name, name == "true"))
    return ak.to_list(found)  # type: ignore[no-any-return]  # awkward publishes no types


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("any((Jet_pt > 100) | (Jet_pt > first(Muon_pt)))", [True, True, False, None, False]),
        ("all((Jet_pt > 1000) & (Jet_pt > first(Muon_pt)))", [False, False, True, False, True]),
        ("all(Jet_pt > first(Muon_pt))", [None, False, True, None, True]),
        (
            "where(Jet_pt > first(Muon_pt), Jet_pt, 0 * Jet_pt)",
            [[None, None], [50.0, 0.0], [], [None], []],
        ),
        ("where(first(Muon_pt) > 25, Jet_pt, -Jet_pt)", [[None, None], [-50.0, -15.0], [], [None], []]),
        ("where(MET > 30, Jet_pt, first(Muon_pt))", [[120.0, 30.0], [20.0, 20.0], [], [70.0], []]),
        ("where(MET > 30, Jet_pt, 0)", [[120.0, 30.0], [0.0, 0.0], [], [70.0], []]),
        ("where(true, Jet_pt, -Jet_pt)", [[120.0, 30.0], [50.0, 15.0], [], [70.0], []]),
        ("where(false, Jet_pt, MET)", [[40.0, 40.0], [10.0, 10.0], [], [60.0], []]),
        ("where(false, MET, first(Muon_pt))", [None, 20.0, 30.0, None, None]),
        ("num(Jet_pt * first(Muon_pt))", [2, 2, 0, 1, 0]),
        ("count(Jet_pt * first(Muon_pt))", [0, 2, 0, 0, 0]),
        ("fill_none(Jet_pt > first(Muon_pt), false)", [[False, False], [True, False], [], [False], []]),
        ("Jet_pt[!(Jet_pt > first(Muon_pt))]", [[], [15.0], [], [], []]),
        ("closest(Jet_pt, first(Muon_pt))", [None, 15.0, None, None, None]),
        ("max_by(Jet_pt, Jet_eta * first(Muon_pt), default=-1)", [-1.0, 50.0, -1.0, -1.0, -1.0]),
        ("max(Jet_pt, first(Muon_pt))", [[None, None], [50.0, 20.0], [], [None], []]),
        ("first(Muon_pt) + cross(Jet_pt, Muon_pt, 0)", [[], [70.0, 35.0], [], [], []]),
    ],
)
def test_missing_is_decided_for_each_element(text: str, expected: list[Any]) -> None:
    assert value(text) == expected


def test_a_missing_value_hides_no_lists_of_different_lengths() -> None:
    with pytest.raises(EvaluationError, match="different numbers of elements"):
        value("where(Jet_pt > first(Muon_pt), Muon_pt, Jet_pt)")


def test_missing_values_reach_into_lists_of_lists() -> None:
    columns = {
        "deep": ak.Array([[[1.0, 2.0], [3.0]], [[4.0], []], []]),
        "of_event": ak.Array([None, 10.0, None]),
        "of_list": ak.Array([[None, 5.0], [6.0, None], []]),
        "lists": ak.Array([[1.0, 1.0], None, None]),
    }
    found = {text: ak.to_list(Expression(text).evaluate(columns.__getitem__)) for text in (
        "deep + of_event", "deep + of_list", "of_list + of_event", "lists + of_list", "lists + of_event",
    )}  # fmt: skip
    assert found == {
        "deep + of_event": [[[None, None], [None]], [[14.0], []], []],
        "deep + of_list": [[[None, None], [8.0]], [[10.0], []], []],
        "of_list + of_event": [[None, None], [16.0, None], []],
        "lists + of_list": [[None, 6.0], [None, None], []],
        "lists + of_event": [[None, None], None, None],
    }


# A plain evaluation: one value, a list, or None for each event, joined element by element.

Rows = list[Any]
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
COMPARED: dict[str, Callable[[Any, Any], Any]] = {"<": operator.lt, ">=": operator.ge, "==": operator.eq}


def joined(apply: Callable[..., Any], *operands: Rows) -> Rows:
    """`apply`, which takes single values and None, for each event and each element."""
    found: Rows = []
    for values in zip(*operands, strict=True):
        length = next((len(one) for one in values if isinstance(one, list)), None)
        if length is None:
            found.append(apply(*values))
        else:
            found.append([apply(*(one[n] if isinstance(one, list) else one for one in values)) for n in range(length)])
    return found


def strict(apply: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: None if None in values else apply(*values)


def kleene(decisive: bool) -> Callable[..., Any]:
    def decide(*values: Any) -> Any:
        return decisive if decisive in values else None if None in values else not decisive

    return decide


def reduced(rows: Rows, apply: Callable[[list[Any]], Any]) -> Rows:
    return [apply(row) for row in rows]


class Writer:
    """Writes a random expression, and what it gives."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def number(self, depth: int, *, lists: bool) -> tuple[str, Rows]:
        if depth == 0:
            choices = {"first(Muon_pt)": [row[0] if row else None for row in EVENTS["Muon_pt"]], "MET": EVENTS["MET"]}
            choices |= {"max(Jet_eta)": [max(row, default=None) for row in EVENTS["Jet_eta"]], "20": [20] * 5}  # type: ignore[type-var]
            if lists:
                choices |= {name: EVENTS[name] for name in ("Jet_pt", "Jet_eta")}
            text = self.random.choice(list(choices))
            return text, choices[text]
        if lists or self.random.random() < 0.6:
            match self.random.randrange(4):
                case 0:
                    (condition, chosen), (one, first), (other, second) = (
                        self.condition(depth - 1, lists=lists),
                        self.number(depth - 1, lists=lists),
                        self.number(depth - 1, lists=lists),
                    )
                    return f"where({condition}, {one}, {other})", self.chosen(chosen, first, second)
                case 1:
                    (one, first), (other, second) = (self.number(depth - 1, lists=lists) for _ in range(2))
                    return f"maximum({one}, {other})", joined(strict(max), first, second)
            sign = self.random.choice(list(ARITHMETIC))
            (one, first), (other, second) = (self.number(depth - 1, lists=lists) for _ in range(2))
            return f"({one} {sign} {other})", joined(strict(ARITHMETIC[sign]), first, second)
        text, rows = self.number(depth - 1, lists=True)
        text, rows = (
            f"({text} + 0 * Jet_pt)",
            joined(strict(lambda one, other: one + 0 * other), rows, EVENTS["Jet_pt"]),
        )
        return f"sum({text})", reduced(rows, lambda row: sum(one for one in row if one is not None))

    def chosen(self, condition: Rows, first: Rows, second: Rows) -> Rows:
        return joined(
            lambda holds, one, other: None if holds is None else one if holds else other, condition, first, second
        )

    def condition(self, depth: int, *, lists: bool) -> tuple[str, Rows]:
        if depth > 0 and self.random.random() < 0.6:
            match self.random.choice(["&", "|", "!", "chain"] + ([] if lists else ["any", "all"])):
                case "!":
                    text, rows = self.condition(depth - 1, lists=lists)
                    return f"!({text})", joined(strict(operator.not_), rows)
                case "any" | "all" as name:
                    text, rows = self.condition(depth - 1, lists=True)
                    text = f"({text}) | (Jet_pt < 0)"
                    rows = joined(kleene(True), rows, joined(lambda pt: pt < 0, EVENTS["Jet_pt"]))
                    return f"{name}({text})", reduced(rows, lambda row: kleene(name == "any")(*row))
                case "chain":
                    parts = [self.number(depth - 1, lists=lists) for _ in range(3)]
                    rows = [part for _, part in parts]
                    both = [joined(strict(operator.lt), one, other) for one, other in pairwise(rows)]
                    return f"({' < '.join(text for text, _ in parts)})", joined(kleene(False), *both)
                case sign:
                    (one, first), (other, second) = (self.condition(depth - 1, lists=lists) for _ in range(2))
                    return f"({one} {sign} {other})", joined(kleene(sign == "|"), first, second)
        sign = self.random.choice(list(COMPARED))
        (one, first), (other, second) = (self.number(max(depth - 1, 0), lists=lists) for _ in range(2))
        if one == other == "20":
            other, second = "MET", EVENTS["MET"]
        return f"({one} {sign} {other})", joined(strict(COMPARED[sign]), first, second)


def test_random_expressions_give_what_plain_python_gives() -> None:
    for seed in range(TRIES):
        random = Random(seed)
        writer, lists = Writer(random), random.random() < 0.7
        make = writer.condition if random.random() < 0.5 else writer.number
        text, rows = make(random.randrange(1, 4), lists=lists)
        assert value(f"where(MET > 0, {text}, {text})") == rows, f"seed {seed}: {text}"
