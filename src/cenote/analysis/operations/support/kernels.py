"""Define kernels: a new column as a function of one value, or of one event, that a compiler can take over."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, Literal, Self

import numpy as np

from cenote.common.values import dataclass


class NoKernelError(Exception):
    """An operation, or these columns, cannot be computed one value at a time; the words say why."""


@dataclass(frozen=True)
class Kernel:
    """How one column is computed, without arrays: the parameters of the function are columns, or params of the stage.

    It must give what the operation itself gives; `cuda.jit` compiles it for a GPU.
    """

    function: Callable[..., Any]
    """Takes one value of each column and returns one: plain arithmetic, `math`, conditions and loops."""
    dtype: str
    """numpy's name for the type of the results."""
    per: Literal["value", "event"] = "value"
    """What it is called for: each value (elements of lists, where a column has lists), or each event, where columns of
    lists come as arrays of the event's elements."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Parameter → column, where their names differ."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Parameter → its value, the same for all events."""
    as_stored: bool = False
    """Whether numbers come in the types of the columns; else as Python has them: float64, int64 and bool."""
    note: str = ""
    """What makes its results differ in the last bits from those of the operation; empty where nothing does."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Those of the function, in order."""
        return tuple(inspect.signature(self.function).parameters)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that it takes, in the order of its parameters."""
        return tuple(self.columns.get(name, name) for name in self.parameters if name not in self.constants)

    def with_params(self, params: Mapping[str, Any]) -> Self:
        """With the params of a stage that its function asks for by name."""
        asked = {name: params[name] for name in self.parameters if name in params and name not in self.columns}
        return replace(self, constants={**asked, **self.constants}) if asked else self


def kernel(
    function: Callable[..., Any],
    dtype: str,
    *,
    per: Literal["value", "event"] = "value",
    columns: Mapping[str, str] | None = None,
    as_stored: bool = False,
) -> Kernel:
    """How an own operation computes one of its columns: for `kernels=` of `operation`.

    The parameters of the function are columns, or params of the operation; `columns` has the column of a parameter with
    another name. Its numbers are those of Python, unless `as_stored` asks for the types of the columns.
    """
    if per not in ("value", "event"):
        raise ValueError(f"a kernel is called per value or per event, not per {per!r}")
    made = Kernel(function, np.dtype(dtype).name, per, dict(columns or {}), as_stored=as_stored)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise ValueError(f"a kernel names its parameters: {function.__name__} has '{parameter}'")
    return made
