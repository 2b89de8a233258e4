"""Hold the forms that values of the language share: names, counts, one-or-several, short forms."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from cenote.plugins.settings import Settings


class LanguageModel(Settings):
    """A mapping of the language: its keys are spelt as in the file, never as in Python."""

    model_config = ConfigDict(populate_by_name=False)


_BAD_NAME = re.compile(r"[/\\\x00-\x1f]|^\.|^\s|\s$")


def _name(value: Any) -> str:  # Any: whatever the YAML holds
    text = str(value) if type(value) is int else value
    if not isinstance(text, str):
        raise PydanticCustomError("name", "should be a name")
    if not text or _BAD_NAME.search(text):
        raise PydanticCustomError("name", "should be a name without slashes that could also name a file")
    return text


def _whole(value: Any) -> int:  # Any: whatever the YAML holds
    if (type(value) is int) or (type(value) is float and value.is_integer()):
        return int(value)
    raise PydanticCustomError("whole", "should be a whole number")


def _number(value: Any) -> float:  # Any: whatever the YAML holds
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise PydanticCustomError("number", "should be a number")


PlainName = Annotated[str, BeforeValidator(_name), WithJsonSchema({"type": ["string", "integer"]})]
"""A name that may also name a file."""

Count = Annotated[int, BeforeValidator(_whole), Field(ge=0)]
"""A whole number, zero or more."""

Positive = Annotated[int, BeforeValidator(_whole), Field(ge=1)]
"""A whole number, one or more."""

Amount = Annotated[float, BeforeValidator(_number), Field(ge=0, allow_inf_nan=False)]
"""A number, zero or more."""


class OneOrMany:
    """Marks a tuple field whose single item may be written without a list."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_as_list, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        several = handler(schema)
        return {"anyOf": [several.get("items", {}), several]}


def _as_list(value: Any) -> Any:  # Any: whatever the YAML holds
    return value if isinstance(value, list | tuple) or value is None else [value]


class OrText:
    """Marks a model that may be written as text, which then stands under this key."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._expanded, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string"}, handler(schema)]}

    def _expanded(self, value: Any) -> Any:  # Any: whatever the YAML holds
        return {self.key: value} if isinstance(value, str) else value


PlainNames = Annotated[tuple[str, ...], OneOrMany()]
"""One name, or a list of names."""

Free = dict[str, Any]
"""Keys that somebody else's settings describe."""
