"""Show how two runs differ: what went into them, product by product, and the rows of cutflows and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from cenote.cli.console import print_lines
from cenote.cli.views.tables.fitted import FittedTable, TableColumn, name
from cenote.common.text import first_of, plural
from cenote.common.units import format_count
from cenote.report.diff.records import BinDiff, HistogramDiff, ProductDiff, RowDiff, RunDiff

MOST_CAUSES = 20
MOST_PRODUCTS = 40
MOST_ROWS = 12
MOST_PICTURES = 12
_STYLES = {"equal": "green", "differs": "bold yellow", "not comparable": "bold red"}
_COLUMNS = (
    TableColumn("product"),
    TableColumn("kind", rank=3),
    TableColumn("outcome"),
    TableColumn("differing", right=True),
    TableColumn("largest pull", right=True),
    TableColumn("where", rank=1),
    TableColumn("sum of all bins", rank=2),
)
_PULLS = {
    "all": "both runs read the same data: their numbers are correlated, and a difference means more than its pull says",
    "some": "both runs read some of the same data: their numbers are correlated, and a difference means more than its "
    "pull says",
    "unknown": "pulls take both runs as independent; where they read the same data, a difference means more",
}
"""Shared data → what pulls are to be taken for."""


def show_diff(found: RunDiff, console: Console) -> None:
    """On a terminal, or as text."""
    print_lines(console, _causes(found))
    unlike = [one for one in found.products if one.outcome != "equal"]
    equal = [one.name for one in found.products if one.outcome == "equal"]
    if unlike:
        console.print()
        console.print(_products(unlike[:MOST_PRODUCTS]))
    if len(unlike) > MOST_PRODUCTS:
        console.print(f"… and {plural(len(unlike) - MOST_PRODUCTS, 'more product')}: --json has all of them")
    print_lines(console, _details(unlike[:MOST_PRODUCTS]))
    print_lines(console, _of_pulls(unlike))
    print_lines(console, _pictures(unlike))
    console.print()
    if equal:
        words = "all products are" if not unlike else f"{plural(len(equal), 'product')} {_are(len(equal))}"
        console.print(f"{words} equal, to the last bit: {first_of(equal, most=8)}", soft_wrap=True)
    elif not unlike:
        console.print("neither run left a product")


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _causes(found: RunDiff) -> Iterator[Text]:
    yield Text.assemble((f"{found.before} → {found.after}", "bold"))
    causes = found.causes
    for title, words in (
        ("workflow", causes.workflow),
        ("code", causes.code),
        ("data", causes.data),
        ("software", causes.software),
    ):
        for place, line in enumerate(words[:MOST_CAUSES]):
            yield _titled("" if place else title, line)
        if len(words) > MOST_CAUSES:
            yield _titled("", f"… and {len(words) - MOST_CAUSES:,} more")
    if not causes.any:
        yield _titled("", "workflow, code, data and software are the same, as far as the runs noted them")


def _titled(title: str, words: str) -> Text:
    return Text.assemble((f"  {title:<10}", "bold"), words)


def _products(products: Sequence[ProductDiff]) -> FittedTable:
    table = FittedTable(_COLUMNS, header_style="bold underline", gap=2)
    for one in products:
        outcome = Text(one.outcome, style=_STYLES.get(one.outcome, ""))
        table.add_row(name(one.name, style="bold"), one.kind, outcome, *_numbers(one))
    return table


def _numbers(product: ProductDiff) -> tuple[str, ...]:
    if product.rows:
        return (plural(len(product.rows), "number"),)
    if (found := product.histogram) is None:
        return ()
    pull = "" if found.largest is None else f"{found.largest.pull:+.2g}"
    where = "" if found.largest is None else _where(found.largest)
    return f"{found.differ:,} of {plural(found.bins, 'bin')}", pull, where, _sums(found)


def _where(found: BinDiff) -> str:
    return ", ".join(f"{axis} {words}" for axis, words in found.at.items())


def _sums(found: HistogramDiff) -> str:
    return f"{found.sum_before:.6g} → {found.sum_after:.6g}{_share(found.sum_before, found.sum_after)}"


def _share(before: float, after: float) -> str:
    return f" ({(after - before) / abs(before):+.2%})" if before and before != after else ""


def _details(products: Sequence[ProductDiff]) -> Iterator[Text]:
    """Rows, and what else differs."""
    for one in products:
        if one.rows or one.reasons:
            yield Text("")
        for place, words in enumerate(one.reasons[:MOST_ROWS]):
            yield Text.assemble((one.name if not place else " " * len(one.name), "bold"), f"  {words}")
        if len(one.reasons) > MOST_ROWS:
            yield Text(f"… and {len(one.reasons) - MOST_ROWS:,} more")
        if one.rows:
            yield Text(one.name, style="bold")
            yield from _rows(one.rows)


def _rows(rows: Sequence[RowDiff]) -> Iterator[Text]:
    shown = rows[:MOST_ROWS]
    widths = max(len(row.row) for row in shown), max(len(row.column) for row in shown)
    for row in shown:
        values = f"{_value(row.before)} → {_value(row.after)}"
        if isinstance(row.before, int | float) and isinstance(row.after, int | float):
            values += _share(row.before, row.after)
        yield Text(f"  {row.row:<{widths[0]}}  {row.column:<{widths[1]}}  {values}")
    if len(rows) > MOST_ROWS:
        yield Text(f"  … and {plural(len(rows) - MOST_ROWS, 'more number')}")


def _value(value: float | str | None) -> str:
    if value is None:
        return "nothing"
    return f"{value:,}" if isinstance(value, int) else value if isinstance(value, str) else f"{value:,.6g}"


def _of_pulls(products: Sequence[ProductDiff]) -> Iterator[Text]:
    """What pulls mean, once for all products of which the same is true."""
    shared: dict[str, list[str]] = {}
    for one in products:
        if one.histogram is not None and one.histogram.largest is not None and one.histogram.shared in _PULLS:
            shared.setdefault(one.histogram.shared, []).append(one.name)
    if shared:
        yield Text("")
    for kind, names in shared.items():
        of = f" ({first_of(names)})" if len(shared) > 1 else ""
        yield Text(f"pulls are difference / √(sum of variances){of}; {_PULLS[kind]}", style="dim")


def _pictures(products: Sequence[ProductDiff]) -> Iterator[Text]:
    found = [picture for one in products for picture in one.pictures if picture.endswith(".png")]
    if found:
        yield Text("")
    for place, picture in enumerate(found[:MOST_PICTURES]):
        yield _titled("" if place else "pictures", picture)
    if len(found) > MOST_PICTURES:
        yield _titled("", f"… and {format_count(len(found) - MOST_PICTURES)} more")
