"""State how columns are defined in settings: an expression or a reduction, possibly many from one pattern."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, BeforeValidator, model_validator
from pydantic_core import PydanticCustomError

from cenote.analysis.compiled.sample_types import obstacle_in
from cenote.analysis.expressions.combinations import kept_combinations
from cenote.analysis.expressions.functions import FUNCTIONS
from cenote.analysis.expressions.parser import EXPRESSION, ExpressionText, expression
from cenote.analysis.operations.support.evaluation import cast, evaluate, event_column
from cenote.analysis.operations.support.events import Column, Events
from cenote.analysis.operations.support.lookup import combinations
from cenote.common.text import column_name
from cenote.language.plugins.settings import AlsoWritten, Settings

if TYPE_CHECKING:
    from cenote.analysis.compiled.values import Lowered
    from cenote.analysis.operations.support.stage_form import StageForm


def _known_dtype(name: str) -> str:
    try:
        return np.dtype(name).name
    except TypeError:
        raise PydanticCustomError(
            "bad_dtype", "'{name}' is not a numpy type, such as int32, float64 or bool", {"name": name}
        ) from None


DType = Annotated[str, AfterValidator(_known_dtype)]
"""The name of a numpy type."""


class Reduce(Settings):
    """One value per event out of the elements of each event."""

    op: Literal["count_nonzero", "any", "all", "sum", "min", "max", "mean", "count"]
    """What to compute."""
    over: ExpressionText
    """A column, or an expression such as `Muon_pt > 25`."""

    def value(self, events: Events) -> Column:
        """One value per event."""
        return FUNCTIONS[self.op].apply(evaluate(self.over, events), axis=1)

    def why_not_compiled(self) -> str | None:
        """What in it has no compiled form; None where all has one."""
        return obstacle_in(f"{self.op}({self.over})")

    def compiled(self, form: StageForm) -> Lowered:
        """The same as a typed value."""
        return form.lowering.call(self.op, [form.value(self.over)], {})

    @property
    def text(self) -> str:
        """As a person would write it."""
        return f"{self.op}({self.over})"


class Variable(Settings):
    """A column and how to compute it."""

    spelt_out: ClassVar = {
        "matrix": {"type": "object", "description": "Several columns from one pattern: a list of values per `{name}`."}
    }

    name: str
    """Of the column; one that exists is replaced."""
    expr: ExpressionText | None = None
    """An expression over columns."""
    reduce: Reduce | None = None
    """Instead of `expr`: one value per event out of lists."""
    dtype: DType | None = None
    """Cast to this numpy type at the end. A value that does not fit into whole numbers of this type is an error."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.expr is None) == (self.reduce is None):
            raise PydanticCustomError(
                "one_of_two", "variable '{name}' needs either 'expr' or 'reduce'", {"name": self.name}
            )
        return self

    @property
    def text(self) -> str:
        """The expression that its columns come from."""
        return self.reduce.over if self.reduce else self.expr or ""

    def column(self, events: Events) -> Column:
        """The column for these events."""
        value = self.reduce.value(events) if self.reduce else evaluate(self.text, events)
        what = f"column '{self.name}'"
        return event_column(cast(value, self.dtype, what), events, what)

    def why_not_compiled(self) -> str | None:
        """What in it has no compiled form; None where all has one."""
        found = self.reduce.why_not_compiled() if self.reduce else obstacle_in(self.text)
        return found and f"'{self.name}': {found}"

    def write_compiled(self, form: StageForm) -> None:
        """Define the column as a typed value."""
        value = self.reduce.compiled(form) if self.reduce else form.value(self.text)
        form.define(self.name, value if self.dtype is None else form.lowering.as_type(value, np.dtype(self.dtype)))


def _written_out(value: Any) -> Any:  # Any: whatever the YAML holds
    """A mapping of names to expressions becomes a list; patterns with a `matrix` become one entry per combination."""
    if isinstance(value, Mapping):
        value = [
            {"name": name, **inner} if isinstance(inner, Mapping) else {"name": name, "expr": inner}
            for name, inner in value.items()
        ]
    if not isinstance(value, Sequence) or isinstance(value, str):
        return value
    return [entry for given in value for entry in combinations(given)]


Variables = Annotated[
    tuple[Variable, ...],
    BeforeValidator(_written_out),
    AlsoWritten({"type": "object", "additionalProperties": {"anyOf": [EXPRESSION, {"type": "object"}]}}),
]
"""Definitions in order: a list of variables, or a mapping of names to expressions. Later ones see earlier ones."""


def with_variables(variables: Sequence[Variable], events: Events) -> Events:
    """Events with these columns added, each seeing those before it."""
    with kept_combinations():
        for variable in variables:
            events = events.with_columns({variable.name: variable.column(events)})
    return events


def leading_to(column: str | None, variables: Sequence[Variable]) -> tuple[Variable, ...]:
    """Those of the variables that a column comes from; none for no column."""
    wanted = {column}
    found: list[Variable] = []
    for variable in reversed(variables):
        if variable.name in wanted:
            found.append(variable)
            wanted.discard(variable.name)
            for name in expression(variable.text).names:
                wanted |= {name, column_name(name)}  # either may be meant
    return tuple(reversed(found))


def texts_read(variables: Sequence[Variable]) -> dict[str, frozenset[str]]:
    """Each expression → the names that were defined before it and so need not be there."""
    defined: set[str] = set()
    texts: dict[str, frozenset[str]] = {}
    for variable in variables:
        texts.setdefault(variable.text, frozenset(defined))
        defined.add(variable.name)
    return texts
