"""Lay out what a store of results holds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from cenote.cli.views.tables.fitted import FittedTable, TableColumn, name
from cenote.common.text import format_age, plural
from cenote.common.units import format_bytes
from cenote.execution.runtime.result_store.look import StoreContent, age_of

_COLUMNS = (
    TableColumn("product"),
    TableColumn("results", right=True),
    TableColumn("size", right=True),
    TableColumn("used", rank=1),
)
_PEOPLE = (TableColumn("of"), TableColumn("results", right=True), TableColumn("size", right=True))


def show_content(content: StoreContent, console: Console) -> None:
    """Everything `cenote store show` prints."""
    if content.stages:
        table = FittedTable(_COLUMNS, gap=2)
        for one in content.stages:
            table.add_row(name(one.name), f"{one.results:,}", format_bytes(one.size), format_age(age_of(one.used_at)))
        console.print(table)
    if content.people:
        table = FittedTable(_PEOPLE, gap=2)
        for person in content.people:
            table.add_row(name(person.name), f"{person.results:,}", format_bytes(person.size))
        console.print(table)
    words = f"{plural(content.results, 'result')}, {format_bytes(content.size)}" if content.results else "no results"
    since = f", the oldest used {format_age(age_of(content.oldest_use))}" if content.oldest_use is not None else ""
    shared = " (shared)" if content.shared else ""
    console.print(Text(f"{words} in {content.place}{shared}{since}", style="bold"), soft_wrap=True)


def content_as_json(content: StoreContent) -> dict[str, Any]:
    """The same for programs."""
    return {
        "folder": str(content.place),
        "shared": content.shared,
        "bytes": content.size,
        "results": content.results,
        "oldest_use": _time(content.oldest_use),
        "products": [
            {"name": one.name, "results": one.results, "bytes": one.size, "last_use": _time(one.used_at)}
            for one in content.stages
        ],
        "others": [{"name": one.name, "results": one.results, "bytes": one.size} for one in content.people],
    }


def _time(at: int | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat()
