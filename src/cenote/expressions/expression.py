"""Define Expression: a text that was parsed, knows its names and can be evaluated; and its settings type."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from cenote.expressions import evaluate, tree
from cenote.expressions.arrays import Column
from cenote.expressions.normal_text import normal_text
from cenote.expressions.parser import parse
from cenote.expressions.problems import BadExpressionError, EvaluationError
from cenote.plugins import own_functions
from cenote.plugins.normal_form import Normal
from cenote.values import dataclass


@dataclass(frozen=True)
class Expression:
    """An expression over columns. Two of the same text are equal; pickling keeps the text only."""

    text: str

    def __post_init__(self) -> None:
        _ = self.tree  # a bad text fails here, where it is written, and not where it is used

    def __reduce__(self) -> tuple[type[Expression], tuple[str]]:
        return type(self), (self.text,)

    @cached_property
    def tree(self) -> tree.Node:
        """The syntax tree."""
        return _parsed(self.text, own_functions.generation())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names it uses as written, each once, in order of appearance; constants such as `pi` are among them."""
        return tuple(dict.fromkeys(tree.names(self.tree)))

    def normal(self, column: Callable[[str], str] = str) -> str:
        """The text in the one way in which all of the same tree are written; see `normal_text`."""
        return normal_text(self.tree, column)

    def evaluate(self, lookup: evaluate.Lookup) -> Column:
        """Its value, with columns and constants given by `lookup`: an array, or a scalar without columns."""
        try:
            return evaluate.evaluate(self.tree, lookup)
        except EvaluationError as problem:
            raise type(problem)(f"'{self.text}' cannot be evaluated: {problem}") from problem.__cause__


@lru_cache(maxsize=4096)
def _parsed(text: str, generation: int) -> tree.Node:  # noqa: ARG001  # own functions may have changed
    return parse(text)


def expression(text: str) -> Expression:
    """The expression of a text, parsed once per process."""
    return _expression(text, own_functions.generation())


@lru_cache(maxsize=4096)
def _expression(text: str, generation: int) -> Expression:  # noqa: ARG001  # as above
    return Expression(text)


def _checked(value: Any) -> str:  # Any: whatever the YAML holds
    if isinstance(value, bool | int | float):
        value = repr(value)
    if not isinstance(value, str):
        raise PydanticCustomError("bad_expression", "an expression must be text, such as 'Muon_pt > 20'", {"column": 1})
    text = " ".join(value.split("\n")).strip()
    try:
        expression(text)
    except BadExpressionError as problem:
        raise PydanticCustomError(
            "bad_expression", "{message}", {"message": str(problem), "column": problem.column, "hint": problem.hint}
        ) from None
    return text


def _checked_condition(value: Any) -> str:  # Any: whatever the YAML holds
    text = _checked(value)
    if tree.is_never_a_condition(expression(text).tree):
        raise PydanticCustomError(
            "bad_expression", "'{text}' is not true or false: compare it, as in ({text}) > 0", {"text": text}
        )
    return text


EXPRESSION = {"type": ["string", "number", "boolean"], "examples": ["Muon_pt > 20", "sqrt(px**2 + py**2)"]}
"""How an expression may be written, as JSON Schema."""
ExpressionText = Annotated[str, BeforeValidator(_checked), Normal("expression"), WithJsonSchema(EXPRESSION)]
"""The text of an expression, checked when settings are read; plain numbers count as expressions."""
ConditionText = Annotated[str, BeforeValidator(_checked_condition), Normal("expression"), WithJsonSchema(EXPRESSION)]
"""The same for an expression that must be true or false: arithmetic is refused, whatever its columns hold."""
