"""Show a cutflow on a terminal: cuts below each other, datasets side by side, as many as fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from cenote.api import Run
from cenote.products.cutflow import Cutflow, CutflowLine
from cenote.text import plural

MOST_CUTFLOWS = 4
MOST_CUTS = 12
INDENT = 12
GAP = 2
LONGEST_LABEL = 40


def cutflows_of(run: Run, *, width: int) -> Iterator[Text]:
    """The cutflows that a run left, the first few of them."""
    names = [product["name"] for product in run.summary.get("products", ()) if product["kind"] == "cutflow"]
    for name in names[:MOST_CUTFLOWS]:
        yield from cutflow_lines(name, run.product(name), width=width)
    if len(names) > MOST_CUTFLOWS:
        more = plural(len(names) - MOST_CUTFLOWS, "more cutflow")
        yield Text(" " * INDENT + f"… and {more} in {run.folder / 'products'}", style="dim")


def cutflow_lines(name: str, cutflow: Cutflow, *, width: int) -> Iterator[Text]:
    """Under the heading of the stage; what is left out is counted."""
    lines = cutflow.table()
    if not lines:
        return
    shown = [*lines[: MOST_CUTS // 2], *lines[-MOST_CUTS // 2 :]] if len(lines) > MOST_CUTS + 1 else list(lines)
    labels = [_cut_short(line.label) for line in shown]
    first = max(len(name), *(len(label) for label in labels))
    columns = _fitting([_column(dataset, shown) for dataset in cutflow.datasets], width - INDENT - first)
    heading = "".join(" " * GAP + column[0] for column in columns)
    yield Text.assemble((f"  {'cutflow':<{INDENT - 2}}", "bold"), (f"{name:<{first}}", "bold"), (heading, "dim"))
    for place, label in enumerate(labels):
        if len(shown) < len(lines) and place == MOST_CUTS // 2:
            yield Text(" " * INDENT + f"… {plural(len(lines) - len(shown), 'more cut')}", style="dim")
        cells = "".join(" " * GAP + column[place + 1] for column in columns)
        yield Text(" " * INDENT + f"{label:<{first}}{cells}".rstrip())
    if len(columns) < len(cutflow.datasets):
        more = plural(len(cutflow.datasets) - len(columns), "more dataset")
        yield Text(" " * INDENT + f"… and {more}, in the files of the product", style="dim")


def _cut_short(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"


def _column(dataset: str, lines: Sequence[CutflowLine]) -> list[str]:
    """The heading and a cell for each cut, all of the same width: events that pass, and their share."""
    passed = [line.passed.get(dataset) for line in lines]
    numbers = ["" if one is None else f"{one[0]:,.6g}" if one[0] % 1 else f"{one[0]:,.0f}" for one in passed]
    shares = ["" if one is None or one[1] is None else f"{100 * one[1]:.1f} %" for one in passed]
    wide, narrow = max(map(len, numbers)), max(map(len, shares))
    cells = [f"{number:>{wide}} {share:>{narrow}}" for number, share in zip(numbers, shares, strict=True)]
    heading = _cut_short(dataset)
    size = max(len(heading), wide + 1 + narrow)
    return [text.rjust(size) for text in (heading, *cells)]


def _fitting(columns: Sequence[list[str]], width: int) -> list[list[str]]:
    """As many as there is room for, and one at the least."""
    found: list[list[str]] = []
    for column in columns:
        width -= GAP + len(column[0])
        if found and width < 0:
            break
        found.append(column)
    return found
