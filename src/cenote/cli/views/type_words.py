"""Word the types of a JSON Schema: `list of text`, `number or text`, `one of step, fill`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

JsonSchema = Mapping[str, Any]
"""A JSON Schema, as pydantic writes it."""

_SIMPLE = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "nothing",
    "object": "mapping",
    "array": "list",
}
_EXAMPLES = {"string": "…", "integer": "1", "number": "1.0", "boolean": "true", "object": "{}", "array": "[]"}


def type_in_words(schema: JsonSchema, definitions: Mapping[str, JsonSchema]) -> str:
    """What may stand there, for people."""
    if "$ref" in schema:
        return _named(schema["$ref"], definitions)
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return "one of " + ", ".join(str(value) for value in schema["enum"])
    for joint in ("anyOf", "oneOf", "allOf"):
        if joint in schema:
            words = dict.fromkeys(type_in_words(choice, definitions) for choice in schema[joint])
            words.pop(_SIMPLE["null"], None)
            return " or ".join(words)
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(_SIMPLE.get(str(one), str(one)) for one in kind)
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"list of {type_in_words(schema['items'], definitions)}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"mapping of {type_in_words(schema['additionalProperties'], definitions)}"
    return _SIMPLE.get(str(kind), "anything")


def default_in_words(schema: JsonSchema) -> str:
    """The default as one would write it; empty where leaving it out is the default."""
    default = schema.get("default")
    if default is None:
        return ""
    return default if isinstance(default, str) and default else json.dumps(default, ensure_ascii=False)


def example_value(schema: JsonSchema, definitions: Mapping[str, JsonSchema]) -> str:
    """Some value of the right type, in YAML on one line."""
    if schema.get("examples"):
        return json.dumps(schema["examples"][0], ensure_ascii=False)
    if "$ref" in schema:
        return _example_of_named(schema["$ref"], definitions)
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return str(schema["enum"][0])
    for joint in ("anyOf", "oneOf", "allOf"):
        if joint in schema:
            return example_value(schema[joint][0], definitions)
    kind = schema.get("type")
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"[{example_value(schema['items'], definitions)}]"
    return _EXAMPLES.get(str(kind), "…")


def _named(reference: str, definitions: Mapping[str, JsonSchema]) -> str:
    name = reference.rpartition("/")[2]
    named = definitions.get(name, {})
    return name if "properties" in named else type_in_words(named, definitions)


def _example_of_named(reference: str, definitions: Mapping[str, JsonSchema]) -> str:
    named = definitions.get(reference.rpartition("/")[2], {})
    if "properties" not in named:
        return example_value(named, definitions)
    required = named.get("required", ())
    given = [f"{key}: {example_value(named['properties'][key], definitions)}" for key in required]
    return "{" + ", ".join(given) + "}"
