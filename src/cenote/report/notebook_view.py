"""Show an analysis or a run inside a notebook: what it says; how it went, what it made, its pictures."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path

from cenote.errors import Problem
from cenote.language.workflow import Workflow
from cenote.report.markup import Markup, element, joined
from cenote.runs.summary import Summary
from cenote.units import format_seconds

MOST_ROWS = 50
MOST_PICTURES = 12
MOST_FILES = 3


def run_as_html(folder: Path, summary: Summary | None) -> str:
    """Self-contained: pictures are part of it. A run that goes on has no summary yet."""
    if summary is None:
        return element("p", element("b", str(folder)), ": the run goes on")
    seconds = format_seconds(summary.seconds)
    head = element("p", element("b", str(folder)), f": {summary.status} after {seconds}")
    return joined(head, _failures(summary), _products(summary), *_pictures(folder, summary))


def analysis_as_html(file: Path, workflow: Workflow | None, problems: Sequence[Problem]) -> str:
    """What the file says, without a look at the data: datasets, stages, and what is wrong with them."""
    head = element("p", element("b", str(file)))
    wrong = [element("li", str(problem), style="white-space: pre-wrap") for problem in problems[:MOST_ROWS]]
    if workflow is None:
        return joined(head, element("ul", wrong))
    datasets = [
        (dataset.name, dataset.eventtype or "", dataset.group or "", ", ".join(dataset.files[:MOST_FILES]))
        for dataset in workflow.datasets
    ]
    stages = [(stage.id, stage.op, ", ".join(stage.needs)) for stage in workflow.stages]
    return joined(
        head,
        element("ul", wrong) if wrong else None,
        _table(("dataset", "eventtype", "group", "files"), datasets),
        _table(("stage", "operation", "needs"), stages),
    )


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    body = [element("tr", *(element("td", cell) for cell in row)) for row in rows[:MOST_ROWS]]
    more = len(rows) - len(body)
    table = element("table", element("tr", *(element("th", word) for word in headings)), body)
    return joined(table, element("p", f"… and {more} more") if more else None)


def _failures(summary: Summary) -> Markup | None:
    if not summary.failures:
        return None
    told = [element("li", f"{failure.stage or 'run'}: {failure.message}") for failure in summary.failures[:MOST_ROWS]]
    return element("ul", told)


def _products(summary: Summary) -> Markup | None:
    if not summary.products:
        return None
    rows = [(product.name, product.kind, product.description) for product in summary.products]
    return _table(("product", "kind", "what"), rows)


def _pictures(folder: Path, summary: Summary) -> Iterator[Markup]:
    found = [plot for product in summary.products for plot in product.plots if plot.endswith(".png")]
    for plot in found[:MOST_PICTURES]:
        path = folder / plot
        if path.is_file():
            data = b64encode(path.read_bytes()).decode()
            yield element("img", src=f"data:image/png;base64,{data}", alt=path.stem, style="max-width: 32em")
