"""Lay out the archives of environments that this user's cache holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from cenote.cli.views.site_page import facts
from cenote.cli.views.tables.fitted import FittedTable, TableColumn, name
from cenote.common.text import format_age, plural
from cenote.common.units import format_bytes
from cenote.execution.packing.stock import Cleaned, Stock, StockRecord

SHORT = 12
"""Characters of a digest that tell archives apart."""
_COLUMNS = (
    TableColumn("archive"),
    TableColumn("kind"),
    TableColumn("size", right=True),
    TableColumn("unpacked", rank=3, right=True),
    TableColumn("Python", rank=4),
    TableColumn("packages", rank=5, right=True),
    TableColumn("used", rank=1),
    TableColumn("from", rank=2),
)
_PACKED_COLUMNS = (
    TableColumn("pool"),
    TableColumn("environment"),
    TableColumn("archive", rank=1),
    TableColumn("size", right=True),
    TableColumn("from", rank=2),
)


def show_stock(records: Sequence[StockRecord], stock: Stock, console: Console, *, now: float) -> None:
    """Everything `cenote env list` prints."""
    table = FittedTable(_COLUMNS, gap=2)
    for one in records:
        table.add_row(
            one.digest[:SHORT],
            one.kind,
            format_bytes(one.size),
            format_bytes(one.unpacked),
            one.python,
            f"{len(one.packages)}",
            format_age(now - one.used_at),
            name(one.source),
        )
    if records:
        console.print(table)
    console.print(Text(f"{in_words(records)} in {stock.folder}", style="bold"), soft_wrap=True)


def in_words(records: Sequence[StockRecord]) -> str:
    """`3 archives, 412 MB`."""
    sizes = {one.file_name: one.size for one in records}
    return f"{plural(len(records), 'archive')}, {format_bytes(sum(sizes.values()))}" if records else "no archives"


def show_record(one: StockRecord, stock: Stock, console: Console, *, now: float) -> None:
    """Everything `cenote env show` prints."""
    console.print(facts(list(_rows(one, stock, now))))
    packages = FittedTable((TableColumn("package"), TableColumn("version")), gap=2)
    for package, version in one.packages.items():
        packages.add_row(name(package), version)
    console.print(packages)


def _rows(one: StockRecord, stock: Stock, now: float) -> Iterator[tuple[str, str]]:
    yield "kind", one.kind
    yield "from", one.source
    yield "file", str(stock.folder / one.file_name)
    yield "digest", one.digest
    yield "size", f"{format_bytes(one.size)} ({one.compression}), {format_bytes(one.unpacked)} unpacked"
    yield "platform", one.platform
    if one.python:
        yield "Python", one.python
    yield from one.facts.items()
    yield "packed", format_age(now - one.made_at)
    yield "used", format_age(now - one.used_at)


def record_as_json(one: StockRecord, stock: Stock) -> dict[str, Any]:
    """What `--json` prints of an archive."""
    plain: dict[str, Any] = msgspec.to_builtins(one)
    times = {key: _iso(plain[key]) for key in ("made_at", "used_at")}
    return {"file": str(stock.folder / one.file_name), **plain, **times}


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def show_packed(described: Mapping[str, Mapping[str, Any]], console: Console) -> None:
    """What `cenote env pack` made or found, for each pool."""
    table = FittedTable(_PACKED_COLUMNS, gap=2)
    for pool, one in described.items():
        digest, size = str(one.get("digest", ""))[:SHORT], one.get("size")
        table.add_row(
            name(pool),
            str(one["type"]),
            digest or "nothing to pack",
            format_bytes(size) if isinstance(size, int) else "",
            name(str(one.get("source", ""))),
        )
    console.print(table)


def cleaned_in_words(cleaned: Cleaned) -> str:
    """`removed 2 archives, 300 MB; kept 1 archive, 20 MB, which a run uses`."""
    kept = f"; kept {in_words(cleaned.in_use)}, which is in use" if cleaned.in_use else ""
    strays = f", and {format_bytes(cleaned.strays)} that processes left which were killed" if cleaned.strays else ""
    return f"removed {in_words(cleaned.removed)}{strays}{kept}"
