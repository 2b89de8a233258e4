"""This file describes plugins from their own models: one line each, or all settings of one."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cenote.cli.type_words import default_in_words, example_value, type_in_words
from cenote.errors import CenoteError
from cenote.plugins import registry
from cenote.plugins.kinds import PLANNED, PluginKind

Schema = Mapping[str, Any]
"""A JSON Schema, as pydantic writes it."""


@dataclass(frozen=True)
class PluginRow:
    """A line of the list."""

    name: str
    about: str
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

    kind: PluginKind
    name: str
    about: str
    settings: tuple[SettingRow, ...]
    parts: tuple[tuple[str, tuple[SettingRow, ...]], ...]
    """Settings of the mappings that the settings hold, by the name of the mapping."""
    example: str

    def as_json(self) -> dict[str, object]:
        """For scripts."""
        return {
            "kind": self.kind.value,
            "name": self.name,
            "description": self.about,
            "settings": [asdict(setting) for setting in self.settings],
            "parts": {name: [asdict(setting) for setting in rows] for name, rows in self.parts},
            "example": self.example,
        }


def rows(kind: PluginKind) -> Iterator[PluginRow]:
    """Every plugin of the kind, those that are still to come last; one that cannot be loaded says why."""
    for name in registry.names(kind):
        try:
            yield PluginRow(name, first_sentence(registry.load(kind, name)))
        except (CenoteError, ImportError) as problem:
            yield PluginRow(name, f"cannot be loaded: {problem}", available=False)
    for name, later in sorted(PLANNED.get(kind, {}).items()):
        if registry.is_planned(kind, name):
            yield PluginRow(name, f"not available yet: comes with {later}", available=False)


def row_as_json(row: PluginRow) -> dict[str, object]:
    """For scripts."""
    return {"name": row.name, "description": row.about, "available": row.available}


def list_lines(kind: PluginKind, found: list[PluginRow]) -> Iterator[RenderableType]:
    """The list for people."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for row in found:
        style = "" if row.available else "dim"
        table.add_row(Text(row.name, style=style or "bold"), Text(row.about, style=style))
    yield table
    if found:
        more = "" if kind is PluginKind.OPERATION else f" --kind {kind.value}"
        yield Text(f"\ncenote ops NAME{more} shows the settings of one", style="dim")
    else:
        yield Text(f"there are no {kind.value}s")


def described(kind: PluginKind, name: str) -> PluginPage:
    """The page of one plugin. Raises `unknown-operation` or `unknown-plugin`."""
    factory = registry.load(kind, name)
    schema: Schema = factory.model_json_schema() if hasattr(factory, "model_json_schema") else {}
    definitions: Mapping[str, Schema] = schema.get("$defs", {})
    settings = tuple(_settings(schema, definitions))
    parts = tuple((part, tuple(_settings(inner, definitions))) for part, inner in definitions.items())
    return PluginPage(
        kind=kind,
        name=name,
        about=inspect.getdoc(factory) or "",
        settings=settings,
        parts=tuple((part, inner) for part, inner in parts if inner),
        example=_example(kind, name, schema, definitions),
    )


def first_sentence(factory: type[Any]) -> str:
    """The first line of the docstring."""
    return (inspect.getdoc(factory) or "").partition("\n")[0]


def _settings(schema: Schema, definitions: Mapping[str, Schema]) -> Iterator[SettingRow]:
    required = schema.get("required", ())
    for name, setting in schema.get("properties", {}).items():
        yield SettingRow(
            name=name,
            type=type_in_words(setting, definitions),
            default="required" if name in required else default_in_words(setting),
            about=" ".join(str(setting.get("description", "")).split()),
        )


def _example(kind: PluginKind, name: str, schema: Schema, definitions: Mapping[str, Schema]) -> str:
    """The smallest use of it in YAML: what must be given, with values of the right type."""
    given = {
        key: example_value(setting, definitions)
        for key, setting in schema.get("properties", {}).items()
        if key in schema.get("required", ())
    }
    lines = [f"{key}: {value}" for key, value in given.items()]
    indent = "\n    "
    match kind:
        case PluginKind.OPERATION:
            body = f"\n  params:{indent}{indent.join(lines)}" if lines else ""
            return f"- id: MyStage\n  op: {name}{body}"
        case PluginKind.SOURCE:
            return "sources:\n  events:\n    " + "\n    ".join([f"kind: {name}", *lines])
        case PluginKind.SINK:
            return "write:\n  - " + "\n    ".join([f"kind: {name}", "path: skims/{dataset}_{part}", *lines])
        case PluginKind.RENDERER:
            return "render:\n  style:\n    " + "\n    ".join([f"op: {name}", *lines])
        case PluginKind.MODIFIER:
            return f"execution:\n  modifiers: [{name}]"
        case PluginKind.BACKEND | PluginKind.STRATEGY:
            return f"execution:\n  {kind.value}: {name}"
        case PluginKind.PRODUCT:
            return ""


def page_lines(page: PluginPage) -> Iterator[RenderableType]:
    """The page for people."""
    yield Text.assemble((page.name, "bold"), f"  ({page.kind.value})")
    yield Text(page.about)
    yield Text()
    if page.settings:
        yield _settings_table("settings", page.settings)
    else:
        yield Text("no settings")
    for part, inner in page.parts:
        yield Text()
        yield _settings_table(part, inner)
    if page.example:
        yield Text("\nexample", style="bold")
        yield Text("\n".join(f"  {line}" for line in page.example.splitlines()))


def _settings_table(title: str, settings: tuple[SettingRow, ...]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(title, no_wrap=True)
    table.add_column("type", ratio=2)
    table.add_column("default")
    table.add_column("meaning", ratio=3)
    for setting in settings:
        table.add_row(Text(setting.name, style="bold"), setting.type, setting.default, setting.about)
    return table
