"""Describe plugins from their own models: one line each, or all settings of one."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cenote.common.errors import CenoteError
from cenote.common.values import dataclass
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PLANNED, PluginKind
from cenote.language.plugins.settings import Plugin

# Word the types of a JSON Schema: `list of text`, `number or text`, `one of step, fill`.


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


@dataclass(frozen=True)
class PluginRow:
    """A line of the list."""

    name: str
    description: str
    available: bool = True


@dataclass(frozen=True)
class SettingRow:
    """One setting, as an author of YAML needs it."""

    name: str
    type: str
    default: str
    """As written in YAML; `required` where there is none."""
    about: str


@dataclass(frozen=True)
class PluginPage:
    """All that is known of one plugin."""

    kind: str
    name: str
    description: str
    settings: tuple[SettingRow, ...]
    parts: dict[str, tuple[SettingRow, ...]]
    """Settings of the mappings that the settings hold, by the name of the mapping."""
    example: str


def rows(kind: PluginKind) -> Iterator[PluginRow]:
    """Every plugin of the kind, those that are still to come last; one that cannot be loaded says why."""
    for name in registry.names(kind):
        try:
            yield PluginRow(name, (inspect.getdoc(registry.load(kind, name)) or "").partition("\n")[0])
        except (CenoteError, ImportError) as problem:
            yield PluginRow(name, f"cannot be loaded: {problem}", available=False)
    for name, later in sorted(PLANNED.get(kind, {}).items()):
        if registry.is_planned(kind, name):
            yield PluginRow(name, f"not available yet: comes with {later}", available=False)


def list_lines(kind: PluginKind, found: list[PluginRow]) -> Iterator[RenderableType]:
    """The list for people."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for row in found:
        style = "" if row.available else "dim"
        table.add_row(Text(row.name, style=style or "bold"), Text(row.description, style=style))
    yield table
    if found:
        more = "" if kind is PluginKind.OPERATION else f" --kind {kind.value}"
        yield Text(f"\ncenote ops NAME{more} shows the settings of one", style="dim")
    else:
        yield Text(f"there are no {kind.value}s")


def described(kind: PluginKind, name: str) -> PluginPage:
    """The page of one plugin. Raises `unknown-operation` or `unknown-plugin`."""
    factory = registry.load(kind, name)
    schema: JsonSchema = factory.model_json_schema()
    definitions: Mapping[str, JsonSchema] = schema.get("$defs", {})
    parts = {part: tuple(_settings(inner, definitions)) for part, inner in definitions.items()}
    return PluginPage(
        kind=kind.value,
        name=name,
        description=inspect.getdoc(factory) or "",
        settings=tuple(_settings(schema, definitions)),
        parts={part: inner for part, inner in parts.items() if inner},
        example=_example(kind, name, factory, schema),
    )


def _settings(schema: JsonSchema, definitions: Mapping[str, JsonSchema]) -> Iterator[SettingRow]:
    """One row per setting; other spellings of it (same meaning, word for word) join its name."""
    required = schema.get("required", ())
    rows: dict[tuple[str, str], SettingRow] = {}
    for name, setting in schema.get("properties", {}).items():
        row = SettingRow(
            name=name,
            type=type_in_words(setting, definitions),
            default="required" if name in required else default_in_words(setting),
            about=" ".join(str(setting.get("description", "")).split()),
        )
        known = rows.setdefault((row.type, row.about) if row.about else (name, ""), row)
        if known is not row:
            rows[row.type, row.about] = replace(known, name=f"{known.name}, {name}")
    return iter(rows.values())


def _example(kind: PluginKind, name: str, factory: type[Plugin], schema: JsonSchema) -> str:
    """Its own; for an operation without one the smallest use of it, with values of the right type."""
    if own := vars(factory).get("example"):  # not that of a class it is derived from
        return inspect.cleandoc(own)
    if kind is not PluginKind.OPERATION:
        return ""
    given = [
        f"    {key}: {example_value(setting, schema.get('$defs', {}))}"
        for key, setting in schema.get("properties", {}).items()
        if key in schema.get("required", ())
    ]
    return "\n".join([f"- id: MyStage\n  op: {name}", *(["  params:", *given] if given else [])])


def page_lines(page: PluginPage) -> Iterator[RenderableType]:
    """The page for people, up to the example: that is to be copied, so nothing may wrap it."""
    yield Text.assemble((page.name, "bold"), f"  ({page.kind})")
    yield Text(page.description)
    yield Text()
    if page.settings:
        yield _settings_table("settings", page.settings)
    else:
        yield Text("no settings")
    for part, inner in page.parts.items():
        yield Text()
        yield _settings_table(part, inner)
    if page.example:
        yield Text("\nexample", style="bold")


def _settings_table(title: str, settings: tuple[SettingRow, ...]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(title, no_wrap=True)
    table.add_column("type", ratio=2)
    table.add_column("default")
    table.add_column("meaning", ratio=3)
    for setting in settings:
        table.add_row(Text(setting.name, style="bold"), setting.type, setting.default, setting.about)
    return table
