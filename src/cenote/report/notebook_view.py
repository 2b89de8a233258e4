"""This file shows a run inside a notebook: how it went, what it made, its pictures."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cenote.report.markup import Markup, element, joined
from cenote.units import format_seconds

MOST_ROWS = 50
MOST_PICTURES = 12


def run_as_html(folder: Path, summary: Mapping[str, Any]) -> str:
    """Self-contained: pictures are part of it. A run that goes on has no summary yet."""
    if not summary:
        return element("p", element("b", str(folder)), ": the run goes on")
    seconds = format_seconds(summary.get("seconds", 0))
    head = element("p", element("b", str(folder)), f": {summary['status']} after {seconds}")
    return joined(head, _failures(summary), _products(summary), *_pictures(folder, summary))


def _failures(summary: Mapping[str, Any]) -> Markup | None:
    failures = summary.get("failures", ())
    if not failures:
        return None
    told = [element("li", f"{failure.get('stage') or 'run'}: {failure['message']}") for failure in failures[:MOST_ROWS]]
    return element("ul", told)


def _products(summary: Mapping[str, Any]) -> Markup | None:
    products = summary.get("products", ())
    if not products:
        return None
    rows = [
        element("tr", *(element("td", text) for text in (product["name"], product["kind"], product["description"])))
        for product in products[:MOST_ROWS]
    ]
    more = len(products) - len(rows)
    table = element("table", element("tr", *(element("th", word) for word in ("product", "kind", "what"))), rows)
    return joined(table, element("p", f"… and {more} more") if more else None)


def _pictures(folder: Path, summary: Mapping[str, Any]) -> Iterator[Markup]:
    found = [plot for product in summary.get("products", ()) for plot in product["plots"] if plot.endswith(".png")]
    for plot in found[:MOST_PICTURES]:
        path = folder / plot
        if path.is_file():
            data = b64encode(path.read_bytes()).decode()
            yield element("img", src=f"data:image/png;base64,{data}", alt=path.stem, style="max-width: 32em")
