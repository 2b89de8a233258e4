"""Convert what a file writes to the value that code reads: `4GB` to bytes, `30m` to seconds.

Types of this form carry their conversion without importing pydantic, so that values can have them and stay light.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cenote.units import parse_bytes, parse_seconds

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema


Describe = Callable[[dict[str, Any]], dict[str, Any]]
"""Makes one JSON Schema of another."""


WHOLE = r"^[0-9]{1,18}$"
DECIMAL = r"^[0-9]{1,18}(\.[0-9]*)?([eE][+-]?[0-9]{1,2})?$"
"""Numbers that may stand in quotes where a number is meant; `\\d` would take digits of other scripts."""


def signed(pattern: str) -> str:
    """The same numbers, and those below zero."""
    return pattern.replace("^", "^-?", 1)


_WHOLE, _DECIMAL = re.compile(signed(WHOLE)), re.compile(signed(DECIMAL))


def number_in(value: Any) -> Any:  # Any: whatever the YAML holds
    """The number that a text holds; anything else as it is."""
    if isinstance(value, str):
        if _WHOLE.fullmatch(value):
            return int(value)
        if _DECIMAL.fullmatch(value):
            return float(value)
    return value


class Converted:
    """Marks a value that a function makes of what the file holds; what it refuses, it refuses with a ValueError.

    `kind` names such errors, `describe` turns the JSON Schema into that of what files hold, `limits` are pydantic's.
    """

    def __init__(  # Any: whatever the YAML holds
        self, convert: Callable[[Any], object], kind: str, describe: Describe = dict, **limits: float
    ) -> None:
        self.convert, self.kind, self.describe, self.limits = convert, kind, describe, limits

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import PydanticCustomError, core_schema

        def converted(value: Any) -> object:  # Any: whatever the YAML holds
            try:
                return self.convert(value)
            except ValueError as problem:
                raise PydanticCustomError(self.kind, "{problem}", {"problem": str(problem)}) from None

        within: Any = {**handler(source), **self.limits}  # Any: pydantic's own description of a type
        return core_schema.no_info_before_validator_function(converted, within)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return self.describe(handler(schema))


def _written(examples: Sequence[str], *types: str) -> Describe:
    return lambda _: {"type": list(types), "examples": list(examples)}


Memory = Annotated[int, Converted(parse_bytes, "amount", _written(("4GB", "500MB", "16GiB"), "string", "integer"))]
"""Bytes, written as `4GB`."""

Seconds = Annotated[int, Converted(parse_seconds, "amount", _written(("30m", "4h", "04:00:00"), "string", "number"))]
"""Seconds, written as `30m`, `4h` or `04:00:00`."""
