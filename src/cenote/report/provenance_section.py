"""Write the section that says where the results come from: inputs and software."""

from __future__ import annotations

from cenote.report.markup import Markup, element, joined
from cenote.report.run_record import RunRecord
from cenote.report.tables import Cell, count, folded, pairs, table
from cenote.text import plural
from cenote.units import format_bytes

MOST_INPUTS = 2000
"""A page with more rows is slow to open; provenance.json has them all."""


def provenance(run: RunRecord) -> Markup | None:
    """The workflow and its state, software, and every input file."""
    if not (run.facts or run.software or run.inputs):
        return None
    facts = pairs((name, element("code", value)) for name, value in run.facts) if run.facts else None
    software = None
    if run.software:
        rows = [(name, element("code", version)) for name, version in run.software]
        software = folded("Software", table(("Software", "Version"), rows, caption="Versions at the time of the run"))
    return joined(facts, software, _inputs(run))


def _inputs(run: RunRecord) -> Markup | None:
    if not run.inputs:
        return None
    rows = [
        (
            element("code", one.file),
            one.dataset,
            Cell("–") if one.size is None else Cell(format_bytes(one.size), one.size),
            count(one.events),
            element("code", one.stamp or "–"),
        )
        for one in run.inputs[:MOST_INPUTS]
    ]
    size = sum(one.size or 0 for one in run.inputs)
    files = len(run.inputs)
    words = plural(files, "input file") + (f", {format_bytes(size)}" if size else "")
    hidden = files - len(rows)
    more = element("p", f"and {hidden} more: provenance.json lists them all") if hidden else None
    headings = ("File", "Dataset", "Size", "Events", "Stamp")
    return folded(words, table(headings, rows, caption="Input files"), more)
