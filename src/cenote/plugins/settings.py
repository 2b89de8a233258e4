"""This file declares settings: a class whose fields are YAML keys and whose docstrings are their documentation."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, WithJsonSchema
from pydantic_core import PydanticCustomError

from cenote.units import parse_bytes, parse_seconds


def _other_spellings(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """JSON Schema has no aliases, so a key with two spellings becomes two keys, of which one may be demanded."""
    for info in model.model_fields.values():
        if not isinstance(info.validation_alias, AliasChoices):
            continue
        first, *others = (str(choice) for choice in info.validation_alias.choices)
        schema["properties"].update(dict.fromkeys(others, schema["properties"][first]))
        if first in schema.get("required", ()):
            schema["required"] = [key for key in schema["required"] if key != first]
            either = {"anyOf": [{"required": [spelling]} for spelling in (first, *others)]}
            schema.setdefault("allOf", []).append(either)


class Settings(BaseModel):
    """Frozen, strict about unknown keys, documented by the docstring below each field."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        populate_by_name=True,
        arbitrary_types_allowed=True,
        json_schema_extra=_other_spellings,
    )


def _amount_of_memory(value: Any) -> int:  # Any: whatever the YAML holds
    try:
        return parse_bytes(value)
    except ValueError as problem:
        raise PydanticCustomError("amount", "{problem}", {"problem": str(problem)}) from None


def _amount_of_time(value: Any) -> int:  # Any: whatever the YAML holds
    try:
        return parse_seconds(value)
    except ValueError as problem:
        raise PydanticCustomError("amount", "{problem}", {"problem": str(problem)}) from None


Memory = Annotated[
    int,
    BeforeValidator(_amount_of_memory),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["4GB", "500MB", "16GiB"]}),
]
"""Bytes, written as `4GB`."""

Seconds = Annotated[
    int,
    BeforeValidator(_amount_of_time),
    WithJsonSchema({"type": ["string", "number"], "examples": ["30m", "4h", "04:00:00"]}),
]
"""Seconds, written as `30m`, `4h` or `04:00:00`."""
