"""Give what a file writes the value that code reads, and settings their normal form.

Types of this form carry their conversion without importing pydantic, so that values can have them and stay light.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

from cenote.common.units import parse_bytes, parse_seconds
from cenote.common.values import dataclass

if TYPE_CHECKING:
    from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, SerializationInfo
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


# Give settings their normal form: plain data that is equal where they mean the same, whatever they look like.
#
# Annotations say of types and fields what counts: of an expression its meaning, of what is `Shown()` nothing, of a
# mapping `InOrder()` the order too. Defaults are spelled out.


def nothing(_: Any) -> None:  # Any: whatever is shown
    """What counts of it."""


def pairs(value: Any) -> Any:  # Any: a mapping, or what a union has in its place
    """The keys of a mapping with their values: content hashes do not know the order of mappings."""
    return [list(item) for item in value.items()] if isinstance(value, Mapping) else value


@dataclass(frozen=True)
class NormalForm:
    """What becomes of each kind of value: pydantic hands it to every serializer, and `Normal` asks for it."""

    expression: Callable[[str], str] = str
    """Of an expression; as it is written where nobody knows more of it."""
    shown: Callable[[Any], Any] = nothing
    """Of what people see."""
    in_order: Callable[[Any], Any] = pairs
    """Of mappings whose order counts."""

    def of(self, settings: BaseModel) -> dict[str, Any]:
        """Field → plain data."""
        return {name: plain(value) for name, value in settings.model_dump(context=self).items()}


class Normal:
    """Marks a type or a field with the kind of its values, which is the name of a field of `NormalForm`."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        def written(value: Any, dump: Callable[[Any], Any], info: SerializationInfo[Any]) -> Any:
            dumped, form = dump(value), info.context
            return getattr(form, self._kind)(dumped) if isinstance(form, NormalForm) else dumped

        schema = handler(source)
        serialized = core_schema.wrap_serializer_function_ser_schema(written, info_arg=True, schema=schema)
        return {**schema, "serialization": serialized}


class Shown(Normal):
    """Marks a field that people see, and on which no number depends, such as the label of an axis."""

    def __init__(self) -> None:
        super().__init__("shown")


class InOrder(Normal):
    """Marks a mapping whose order counts."""

    def __init__(self) -> None:
        super().__init__("in_order")


def plain(value: Any) -> Any:  # Any: whatever settings hold
    """As JSON has it, but for sets and dates. Raises a ValueError of pydantic for what cannot travel to workers."""
    if value is None or type(value) in (str, bool, int, float, date):
        return value
    if isinstance(value, Mapping):
        return {_key(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, set | frozenset):
        return frozenset(map(_key, value))
    if isinstance(value, Enum):
        return plain(value.value)
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value)


def _key(value: Any) -> Any:
    """What can be a key."""
    found = plain(value)
    return repr(found) if isinstance(found, list | dict) else found


def in_order(value: Any) -> Any:  # Any: plain data
    """The same with all mappings as pairs: for code that may look at their order."""
    if isinstance(value, Mapping):
        return [[key, in_order(inner)] for key, inner in value.items()]
    return [in_order(inner) for inner in value] if isinstance(value, list | tuple) else value
