"""Check the one way in which expressions are written: equal texts give equal bits, different trees different texts."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import awkward as ak
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cenote.analysis.expressions.parser import expression, parse
from cenote.analysis.expressions.problems import BadExpressionError, EvaluationError
from cenote.analysis.expressions.tree import (
    BINARY,
    Binary,
    Call,
    Comparison,
    Mask,
    Name,
    Node,
    Number,
    Pick,
    Text,
    Unary,
)

EXAMPLES = 20_000 if os.environ.get("CENOTE_DEEP_TESTS") else 400
LISTS = ak.Array([[1.5, -2.0], [], [3.25, 4.0, 5.0]])
COLUMNS: dict[str, Any] = {
    "x": np.array([0.1, -3.0, 7.5]),
    "n": np.array([1, 2, 3]),
    "flag": np.array([True, False, True]),
    "Muon_pt": LISTS,
    "Muon_eta": LISTS * 0.3,
    "odd name": np.array([1.0, 2.0, np.nan], np.float32),
    "and": np.array([3, 2, 1], np.uint8),
}


def normal(text: str) -> str:
    return expression(text).normal()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a+b", " a +  b "),
        ("(a + b)", "a + b"),
        ("((a)) * ((b) + c)", "a * (b + c)"),
        ("a && b || !c", "a and b or not c"),
        ("`Muon_pt` > 20", "Muon_pt>20"),
        ("0x10 + 1e3 + 1_000", "16 + 1000.0 + 1000"),
        ("f == 'mu'", 'f == "mu"'),
        ("-(5) + x", "-5 + x"),
        ("sum(x, axis = 1)", "sum((x),axis=1)"),
        ("x[ : , 0:2 ]", "(x)[:,0:2]"),
    ],
)
def test_spaces_parentheses_and_spellings_do_not_count(one: str, other: str) -> None:
    assert normal(one) == normal(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x * 1", "x * 1.0"),
        ("a + b", "b + a"),
        ("a + (b + c)", "a + b + c"),
        ("a & b", "a and b"),
        ("a < b and b < c", "a < b < c"),
        ("-x ** 2", "(-x) ** 2"),
        ("2 ** 3 ** x", "(2 ** 3) ** x"),
        ("x * 0.0", "x * -0.0"),
        ("f == 'a'", "f == a"),
        ("nth(x, 1)", "nth(x, true)"),
        ("x > 1e999", "x > inf"),
        ("not (a and b)", "not a and b"),
        ("Muon.pt", "Muon_pt"),
    ],
)
def test_what_may_change_a_bit_counts(one: str, other: str) -> None:
    assert normal(one) != normal(other)


def test_a_name_is_written_as_the_column_that_it_means() -> None:
    assert expression("Muon.pt>1").normal(lambda name: name.replace(".", "_")) == "Muon_pt > 1"


def test_a_sum_of_thousands_of_terms_has_a_normal_text() -> None:
    assert normal("a+" * 9000 + "a").count(" + ") == 9000


numbers = st.one_of(
    st.integers(0, 2**64 - 1), st.floats(0, allow_nan=False), st.sampled_from([0, 1, 2, 0.0, 1.0, 0.1, 1e300])
)
atoms = st.one_of(
    st.builds(Number, numbers),
    st.builds(Number, st.sampled_from([-1, -0.0, -2.5])),
    st.builds(lambda name: Name(name, 0), st.sampled_from(list(COLUMNS))),
    st.builds(Text, st.sampled_from(["mu", "it's", 'a "b"', ""])),
)


def _larger(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    signs = sorted({*BINARY} - {"&&", "||"})
    compared = st.tuples(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), inner)
    places = st.one_of(st.integers(-2, 2), st.builds(slice, st.none() | st.integers(-2, 2), st.none() | st.just(1)))
    return st.one_of(
        st.builds(Binary, st.sampled_from(signs), inner, inner),
        st.builds(Binary, st.sampled_from(signs), inner, inner),
        st.builds(_signed, st.sampled_from(["-", "+", "~", "not"]), inner),
        st.builds(Comparison, inner, st.lists(compared, min_size=1, max_size=2).map(tuple)),
        st.builds(lambda one: Call("abs", (one,), ()), inner),
        st.builds(lambda one, axis: Call("sum", (one,), (("axis", axis),)), inner, st.sampled_from([1, -1])),
        st.builds(lambda *all_: Call("where", all_, ()), inner, inner, inner),
        st.builds(lambda one, place: Pick(one, (slice(None), place)), inner, places),
        st.builds(Mask, inner, inner),
    )


def _signed(sign: str, operand: Node) -> Node:
    return Number(-operand.value) if sign == "-" and isinstance(operand, Number) else Unary(sign, operand)


trees = st.recursive(atoms, _larger, max_leaves=12)


def carelessly(node: Node, draw: Callable[[st.SearchStrategy[Any]], Any]) -> str:
    """One of the ways to write a tree."""
    space = draw(st.sampled_from(["", " ", "  "]))

    def within(one: Node) -> str:
        inner = carelessly(one, draw)
        alone = isinstance(one, Name | Call | Text) or (isinstance(one, Number) and not str(one.value).startswith("-"))
        return inner if alone and draw(st.booleans()) else f"({space}{inner})"

    match node:
        case Number(value):
            return repr(value).replace("inf", "1e999")
        case Text(value):
            return f'"{value}"' if "'" in value else f"'{value}'"
        case Name(name):
            return f"`{name}`" if not name.isidentifier() or name == "and" or draw(st.booleans()) else name
        case Unary(sign, operand):
            return f"{draw(st.sampled_from(['!', 'not '])) if sign == 'not' else sign}{within(operand)}"
        case Binary(sign, left, right):
            ways = {"and": ["and", "&&"], "or": ["or", "||"]}.get(sign, [sign])
            return f"{within(left)} {draw(st.sampled_from(ways))} {within(right)}"
        case Comparison(first, rest):
            return within(first) + "".join(f"{space}{sign}{space}{within(one)}" for sign, one in rest)
        case Call(function, arguments, options):
            given = [
                *(carelessly(one, draw) for one in arguments),
                *(f"{key}{space}={value}" for key, value in options),
            ]
            return f"{function}({f'{space},'.join(given)})"
        case Pick(value, positions):
            texts = [
                str(one) if isinstance(one, int) else f"{'' if one.start is None else one.start}:{one.stop or ''}"
                for one in positions[1:]
            ]
            return f"{within(value)}[{space}:{space},{','.join(texts)}]"
        case Mask(value, condition):
            return f"{within(value)}[{space}{carelessly(condition, draw)}]"


def bare(value: Any) -> Any:
    """A tree without the places of its names, as text: NaN, 0.0 and -0.0, 1 and 1.0 are told apart."""
    if is_dataclass(value) and not isinstance(value, type):
        kept = [field.name for field in fields(value) if field.name != "column"]
        return (type(value).__name__, *(bare(getattr(value, name)) for name in kept))
    return tuple(map(bare, value)) if isinstance(value, tuple) else repr(value)


def parsed(text: str) -> Node | None:
    try:
        return parse(text)
    except BadExpressionError:
        return None  # such as a comparison of two numbers


def bits_of(text: str) -> Any:
    """The value with its type, or the error."""
    try:
        value = expression(text).evaluate(COLUMNS.__getitem__)
    except EvaluationError as problem:
        return str(problem.__cause__)
    if isinstance(value, int | float | str):
        return type(value), repr(value)
    if isinstance(value, ak.Array):
        form, length, buffers = ak.to_buffers(ak.to_packed(value))
        return form.to_json(), length, {name: buffer.tobytes() for name, buffer in buffers.items()}
    return str(np.asarray(value).dtype), np.shape(value), np.asarray(value).tobytes()


@settings(max_examples=EXAMPLES)
@given(tree=trees, data=st.data())
def test_equal_normal_texts_have_equal_values_to_the_last_bit(tree: Node, data: st.DataObject) -> None:
    text = carelessly(tree, data.draw)
    if parsed(text) is None:
        return
    assert bare(parse(text)) == bare(tree)
    written = normal(text)
    assert bare(parse(written)) == bare(tree)
    assert normal(written) == written == normal(carelessly(tree, data.draw))
    assert bits_of(written) == bits_of(text)


@settings(max_examples=EXAMPLES)
@given(one=trees, other=trees, data=st.data())
def test_different_trees_have_different_normal_texts(one: Node, other: Node, data: st.DataObject) -> None:
    texts = [carelessly(tree, data.draw) for tree in (one, other)]
    if all(parsed(text) for text in texts):
        assert (normal(texts[0]) == normal(texts[1])) == (bare(one) == bare(other))
