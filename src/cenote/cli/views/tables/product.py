"""Show products as tables on a terminal: as many rows and columns as fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from cenote.analysis.products.files import SHOWN
from cenote.analysis.products.interface import ProductTable
from cenote.common.text import plural
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.view.task_names import products_for_people
from cenote.execution.runtime.publish import product_kind
from cenote.report.run import Run

MOST_TABLES = 4
MOST_ROWS = 12
MOST_LINES = 32
"""Of a table that a stage wrote as text, its two lines of headings included."""
INDENT = 12
GAP = 2
LONGEST_LABEL = 40


def product_tables(run: Run, *, width: int) -> Iterator[Text]:
    """The tables of a run's products, the first few of each kind."""
    made: dict[str, list[str]] = {}
    shown = products_for_people(run.record.products, run.record.stages) if run.record else ()
    for one, _ in shown:
        made.setdefault(one.kind, []).append(one.name)
    for kind, names in made.items():
        product = product_kind(kind)
        if not product.tabular:
            continue
        for name in names[:MOST_TABLES]:
            table = product.short_table(run.product(name))
            yield from table_lines(kind, name, table, width=width) if table else ()
        if len(names) > MOST_TABLES:
            more = plural(len(names) - MOST_TABLES, f"more {kind}")
            yield Text(" " * INDENT + f"… and {more} in {RunFolder(run.folder).products}", style="dim")


def written_tables(run: Run, *, width: int) -> Iterator[Text]:
    """Tables that stages wrote as text, the first few, each as far as there is room."""
    files = (
        [one for made in run.record.products if made.kind == "files" for one in run.product(made.name)]
        if run.record
        else []
    )
    shown = [RunFolder(run.folder).products / one["path"] for one in files if one.get(SHOWN)]
    for file in shown[:MOST_TABLES]:
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        yield Text.assemble((f"  {'table':<{INDENT - 2}}", "bold"), str(file))
        yield from (Text(f"  {_shortened(line, width - 2)}") for line in lines[:MOST_LINES])
        if len(lines) > MOST_LINES:
            yield Text(f"  … and {plural(len(lines) - MOST_LINES, 'more row')} in the file", style="dim")
    if len(shown) > MOST_TABLES:
        yield Text(" " * INDENT + f"… and {plural(len(shown) - MOST_TABLES, 'more table')}", style="dim")


def table_lines(kind: str, name: str, table: ProductTable, *, width: int) -> Iterator[Text]:
    """Under the heading of the stage; what is left out is counted."""
    if not table.rows:
        return
    half = MOST_ROWS // 2
    shown = [*table.rows[:half], *table.rows[-half:]] if len(table.rows) > MOST_ROWS + 1 else list(table.rows)
    labels = [_cut_short(str(row[0])) for row in shown]
    first = max(len(name), *(len(label) for label in labels))
    every = [
        _column(heading, [row[place] for row in shown]) for place, (heading, _) in enumerate(table.columns) if place
    ]
    columns = _fitting(every, width - INDENT - first)
    heading = "".join(" " * GAP + column[0] for column in columns)
    yield Text.assemble((f"  {kind:<{INDENT - 2}}", "bold"), (f"{name:<{first}}", "bold"), (heading, "dim"))
    for place, label in enumerate(labels):
        if len(shown) < len(table.rows) and place == half:
            more = plural(len(table.rows) - len(shown), f"more {table.row_word}")
            yield Text(" " * INDENT + f"… {more}", style="dim")
        cells = "".join(" " * GAP + column[place + 1] for column in columns)
        yield Text(" " * INDENT + f"{label:<{first}}{cells}".rstrip())
    if len(columns) < len(every):
        more = plural(len(every) - len(columns), f"more {table.column_word}")
        yield Text(" " * INDENT + f"… and {more}, in the files of the product", style="dim")


def _cut_short(label: str) -> str:
    return _shortened(label, LONGEST_LABEL)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _column(heading: str, cells: Sequence[object]) -> list[str]:
    """The heading and its cells, all of the same width."""
    texts = [_cut_short(heading), *("" if cell is None else str(cell) for cell in cells)]
    size = max(map(len, texts))
    return [text.rjust(size) for text in texts]


def _fitting(columns: Sequence[list[str]], width: int) -> list[list[str]]:
    """As many as there is room for, and one at the least."""
    found: list[list[str]] = []
    for column in columns:
        width -= GAP + len(column[0])
        if found and width < 0:
            break
        found.append(column)
    return found
