"""The operation `define`: new columns from expressions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from pydantic import AliasChoices, Field, model_validator

from cenote.analysis.expressions.arrays import leaf_type
from cenote.analysis.expressions.parser import expression
from cenote.analysis.expressions.scalar_code import NotScalarError, scalar_code
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.evaluation import value_of
from cenote.analysis.operations.support.events import Column, Events
from cenote.analysis.operations.support.kernels import Kernel, NoKernelError
from cenote.analysis.operations.support.variables import Variable, Variables, leading_to, texts_read, with_variables

if TYPE_CHECKING:
    from cenote.analysis.operations.support.stage_form import StageForm

_KEYS = {"variables", "columns"}


class Define(Operation):
    """Adds columns; later ones may use earlier ones.

    The short form names columns directly: `params: {mt: "sqrt(2 * pt * met * (1 - cos(dphi)))"}`.
    """

    example: ClassVar[str] = """
    - id: Speed
      op: define
      params:
        variables:
          - {name: speed, expr: "kilometres / (minutes / 60)"}
    """

    short_forms: ClassVar = (
        {
            "type": "object",
            "minProperties": 1,
            "not": {"anyOf": [{"required": [key]} for key in sorted(_KEYS)]},
            "additionalProperties": {"type": ["string", "number"]},
        },
    )

    variables: Variables = Field(validation_alias=AliasChoices("variables", "columns"))
    """Name → expression, or a list of `{name, expr | reduce: {op, over}, dtype, matrix}`."""

    @model_validator(mode="before")
    @classmethod
    def _names_directly(cls, given: Any) -> Any:  # Any: whatever the YAML holds
        if isinstance(given, Mapping) and given and not _KEYS & given.keys():
            simple = all(isinstance(value, str | int | float) for value in given.values())
            return {"variables": dict(given)} if simple else given
        return given

    def reads(self) -> Collection[str]:
        """Names in the expressions that are not defined here before."""
        texts = texts_read(self.variables).items()
        return tuple(dict.fromkeys(name for text, known in texts for name in self.names_in(text) if name not in known))

    def adds(self) -> Collection[str]:
        """The names defined."""
        return tuple(dict.fromkeys(variable.name for variable in self.variables))

    def part_for(self, column: str | None) -> Self:
        """The variables that lead to a column."""
        return self.model_copy(update={"variables": leading_to(column, self.variables)})

    def typed(self, events: Events) -> Mapping[str, Column]:
        """Each column whose own columns are there."""
        found: dict[str, Column] = {}
        for variable in self.variables:
            if not self._untyped(self.names_in(variable.text), events):
                with suppress(Exception):  # made-up values prove nothing
                    found[variable.name] = variable.column(events)
                    events = events.with_columns({variable.name: found[variable.name]})
        return found

    def keeps_every_event(self) -> bool:
        """It adds columns."""
        return True

    def run(self, events: Events) -> Result:
        """Evaluate in order."""
        return Result(with_variables(self.variables, events))

    def why_not_compiled(self) -> str | None:
        """What in its expressions has no compiled form."""
        return next(filter(None, (variable.why_not_compiled() for variable in self.variables)), None)

    def write_compiled(self, form: StageForm) -> None:
        """Define in order."""
        for variable in self.variables:
            variable.write_compiled(form)

    def kernels(self, events: Events) -> Mapping[str, Kernel]:
        """Of expressions that go value by value."""
        types: dict[str, np.dtype[Any]] = {}
        found: dict[str, Kernel] = {}
        for variable in self.variables:
            if variable.name in found:
                raise NoKernelError(f"'{variable.name}' is defined twice")
            found[variable.name] = _kernel(variable, events, types)
            types[variable.name] = np.dtype(found[variable.name].dtype)
        return found


def _kernel(variable: Variable, events: Events, defined: Mapping[str, np.dtype[Any]]) -> Kernel:
    if variable.reduce is not None:
        raise NoKernelError(f"'{variable.name}' goes over the elements of each event")
    columns = [name for name in expression(variable.text).names if name in events and name not in defined]
    types = {**defined, **{name: found for name in columns if (found := leaf_type(events[name])) is not None}}
    try:
        code = scalar_code(variable.text, types, lambda name: value_of(name, events))
    except NotScalarError as problem:
        raise NoKernelError(f"'{variable.name}' cannot be computed value by value: {problem}") from None
    wanted = variable.dtype or code.dtype
    if np.dtype(wanted).kind in "iu" and np.dtype(code.dtype).kind == "f":
        raise NoKernelError(f"'{variable.name}' cuts fractions off")
    note = f"{', '.join(code.inexact)} may be rounded otherwise on a GPU" if code.inexact else ""
    return Kernel(code.function(), wanted, columns=code.parameters, as_stored=True, note=note)
