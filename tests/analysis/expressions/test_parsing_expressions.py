"""Check that expressions are parsed as physicists mean them, and that mistakes have their column."""

from __future__ import annotations

import pickle
import re

import pytest
from pydantic import BaseModel, ValidationError

from cenote.analysis.expressions.functions import FUNCTIONS
from cenote.analysis.expressions.parser import Expression, ExpressionText
from cenote.analysis.expressions.problems import BadExpressionError


def the_problem(text: str) -> BadExpressionError:
    with pytest.raises(BadExpressionError) as caught:
        Expression(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("nMuon >= 2 & HLT", "(nMuon >= 2) & HLT"),
        ("a > 1 | b < 2 & c", "(a > 1) | ((b < 2) & c)"),
        ("a && b || c", "(a and b) or c"),
        ("not a > b and c", "(not (a > b)) and c"),
        ("!a == b", "(!a) == b"),
        ("-x**2", "-(x**2)"),
        ("2**3**x", "2**(3**x)"),
        ("a - b - c", "(a - b) - c"),
        ("a + b << 2", "(a + b) << 2"),
        ("a < b < c", "a < b < c"),
    ],
)
def test_operators_bind_as_physicists_expect(text: str, same_as: str) -> None:
    first, second = Expression(text), Expression(same_as)
    assert _without_columns(first.tree) == _without_columns(second.tree)


def _without_columns(value: object) -> str:
    return re.sub(r", column=\d+", "", repr(value))


def test_names_come_once_each_in_order_of_appearance() -> None:
    assert Expression("sqrt(px**2 + py**2) > cut & px < Muon.pt").names == ("px", "py", "cut", "Muon.pt")


def test_a_column_may_be_called_like_a_function() -> None:
    assert Expression("sum(sum) + max").names == ("sum", "max")


def test_unusual_names_are_written_in_backticks() -> None:
    assert Expression("`L1Upgrade/jetEt` > 20").names == ("L1Upgrade/jetEt",)


@pytest.mark.parametrize(
    ("text", "column", "part"),
    [
        ("", 1, "empty"),
        ("a +", 4, "ends too early"),
        ("(a", 3, "ends too early"),
        ("first(a", 8, "ends too early"),
        ("a * 'b'", 3, "computes with numbers, this is text"),
        ("a)", 2, "not expected"),
        ("a b", 3, "not expected"),
        ("a = 2", 3, "not expected"),
        ("Muon_pt > 20 & sqr(x)", 16, "no function 'sqr'"),
        ("a.b()", 1, "no function"),
        ("f(x).c", 5, "not allowed here"),
        ("f[0]", 2, "one event"),
        ("2x", 1, "neither a number nor a name"),
        ("a $ b", 3, "not allowed here"),
        ("where(a, b)", 1, "takes 3 values"),
        ("sum(x, axis=0)", 13, "mix events"),
        ("sum(x, axes=1)", 8, "no option 'axes'"),
        ("x[:, y]", 6, "whole number"),
        ("x^2", 2, "exclusive or"),
        ("flags & 4 == 4", 11, "two numbers"),
        ("'abc", 1, "not allowed here"),
        ("a if b else c", 3, "not expected"),
        ("__import__('os')", 1, "no function"),
        ("(1).__class__", 4, "not allowed here"),
        ("[x for x in y]", 1, "not expected"),
        ("lambda: 1", 1, "not expected"),
    ],
)
def test_a_mistake_is_told_with_its_column(text: str, column: int, part: str) -> None:
    problem = the_problem(text)
    assert problem.column == column
    assert part in problem.message


@pytest.mark.parametrize(("text", "sign"), [("first(a", ")"), ("max(a b)", ","), ("max(a, (b", ")"), ("x[a", "]")])
def test_the_sign_that_is_missing_is_named(text: str, sign: str) -> None:
    assert the_problem(text).hint == f"a '{sign}' is missing"


def test_an_unknown_function_comes_with_the_nearest_one() -> None:
    assert the_problem("sqr(x)").hint == "did you mean 'sqrt'?"


@pytest.mark.parametrize("text", ["x ^ 2", "x ^ 2 >= 4"])
def test_a_power_is_written_with_stars(text: str) -> None:
    assert the_problem(text).hint == "powers are written **"


def test_a_method_call_is_answered_with_the_function() -> None:
    assert the_problem("x.mean()").hint == "write mean(…)"


def test_deep_nesting_is_refused_rather_than_overflowing_the_stack() -> None:
    assert "deeply" in the_problem("(" * 5000 + "x" + ")" * 5000).message


def test_long_sums_are_fine() -> None:
    assert len(Expression("+".join(f"w{i}" for i in range(2000))).names) == 2000


def test_an_expression_pickles_as_its_text() -> None:
    expression = Expression("a + b")
    assert pickle.loads(pickle.dumps(expression)) == expression
    assert len(pickle.dumps(expression)) < 120


def test_every_function_says_what_it_does() -> None:
    assert all(function.meaning and function.usage.startswith(name) for name, function in FUNCTIONS.items())


class Cut(BaseModel):
    expr: ExpressionText


def test_settings_check_expressions_and_keep_the_column() -> None:
    with pytest.raises(ValidationError) as caught:
        Cut(expr="Muon_pt > sqr(2)")
    (problem,) = caught.value.errors()
    assert problem["type"] == "bad_expression"
    assert problem["ctx"]["column"] == 11
    assert "did you mean 'sqrt'?" in problem["msg"]


@pytest.mark.parametrize(("value", "text"), [(1, "1"), (0.5, "0.5"), (True, "True"), (" a\n + b ", "a  + b")])
def test_plain_values_are_expressions_too(value: object, text: str) -> None:
    assert Cut.model_validate({"expr": value}).expr == text


def test_a_list_is_no_expression() -> None:
    with pytest.raises(ValidationError, match="an expression must be text"):
        Cut.model_validate({"expr": ["a"]})
