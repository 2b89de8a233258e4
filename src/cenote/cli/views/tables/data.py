"""Lay out what is in data files, and what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from cenote.cli.views.tables.fitted import FittedTable, TableColumn, name
from cenote.common.text import plural
from cenote.common.units import format_bytes
from cenote.planning.inputs.data_report import DataReport, ReportedDataset, ReportedFile
from cenote.planning.inputs.inspect import InspectedFile, InspectedTree

MOST_BAD = 20
"""Bad files of a dataset that are named."""
_COLUMNS = (
    TableColumn("column"),
    TableColumn("type"),
    TableColumn("size", rank=1, right=True),
    TableColumn("", rank=2, wraps=True),
)
_DATASETS = (
    TableColumn("dataset"),
    TableColumn("source", rank=2),
    TableColumn("type", rank=1),
    TableColumn("files", right=True),
    TableColumn("bad", right=True),
    TableColumn("events", right=True),
    TableColumn("size", rank=3, right=True),
)


def show_file(found: InspectedFile, console: Console, *, after_another: bool = False) -> None:
    """Everything `cenote data inspect` prints of a file."""
    if after_another:
        console.print()
    size = f", {format_bytes(found.size)}" if found.size else ""
    console.print(Text(f"{found.url} ({found.kind}{size})", style="bold"), soft_wrap=True)
    for tree in found.trees:
        console.print(Text(f"\n{_title(tree)}"), soft_wrap=True)
        all_good = not any(info.unreadable for _, info in tree.columns)
        table = FittedTable(_COLUMNS[:-1] if all_good else _COLUMNS, gap=2)
        for column, info in tree.columns:
            reason = () if all_good else (info.unreadable,)
            table.add_row(name(column), info.type, format_bytes(info.bytes), *reason)
        console.print(table)


def _title(tree: InspectedTree) -> str:
    clusters = f" in {plural(tree.clusters, 'cluster')}" if tree.clusters > 1 else ""
    events = f"{plural(tree.entries, 'event')}{clusters}"
    columns = f"{plural(len(tree.columns), 'column')}, {format_bytes(tree.bytes)} uncompressed"
    return f"{tree.name}: {events}, {columns}" if tree.name else f"{events}, {columns}"


def files_as_json(found: Sequence[InspectedFile]) -> str:
    """The same for programs: one object, or a list of several."""
    told = [_file_as_json(one) for one in found]
    return json.dumps(told[0] if len(told) == 1 else told, indent=2)


def _file_as_json(found: InspectedFile) -> dict[str, Any]:
    trees = [
        {
            "name": tree.name,
            "entries": tree.entries,
            "clusters": tree.clusters,
            "bytes": tree.bytes,
            "columns": [
                {"name": column, "type": info.type, "bytes": info.bytes, "unreadable": info.unreadable or None}
                for column, info in tree.columns
            ],
        }
        for tree in found.trees
    ]
    return {"file": found.url, "kind": found.kind, "size": found.size, "trees": trees}


def show_report(report: DataReport, console: Console) -> None:
    """How much there is of each dataset."""
    table = FittedTable(_DATASETS, gap=2)
    for one in report.datasets:
        style = "bold yellow" if len(one.skipped) == len(one.bad) else "bold red"
        bad = Text(str(len(one.bad)), style=style) if one.bad else "0"
        counts = (str(len(one.files)), bad, f"{one.entries:,}", format_bytes(one.size))
        table.add_row(name(one.name), one.source, one.eventtype, *counts)
    if report.datasets:
        console.print(table)
    files = sum(len(one.files) for one in report.datasets)
    bad_ones = sum(len(one.bad) for one in report.datasets)
    events = sum(one.entries for one in report.datasets)
    skipped = sum(len(one.skipped) for one in report.datasets)
    verdict = "some are not there" if report.problems else "all can be read"
    if bad_ones:
        verdict = f"{bad_ones} bad" + (
            f", {skipped if skipped < bad_ones else 'all'} of them skipped" if skipped else ""
        )
    words = f"{plural(files, 'file')}, {events:,} events, {verdict}"
    console.print(Text(words, style="bold"), soft_wrap=True)
    for one in report.datasets:
        for file in one.bad[:MOST_BAD]:
            console.print(_bad_file(file), soft_wrap=True)
        if len(one.bad) > MOST_BAD:
            more = plural(len(one.bad) - MOST_BAD, "more bad file")
            console.print(Text(f"  … and {more} of {one.name}, which --json lists", style="dim"), soft_wrap=True)


def _bad_file(file: ReportedFile) -> Text:
    said = file.problem.message if file.problem else ""
    lost = "" if file.missing is None else f" ({plural(file.missing, 'event')} missing)"
    words = said if file.url in said else f"{file.url}: {said}"
    return Text.assemble(("  skipped: " if file.skipped else "  ", "yellow"), f"{words}{lost}")


def report_as_json(report: DataReport) -> str:
    """The same for programs, file by file."""
    told = {
        "ok": not report.all_problems,
        "datasets": [_dataset_as_json(one) for one in report.datasets],
        "problems": [problem.message for problem in report.problems],
        "warnings": list(report.warnings),
    }
    return json.dumps(told, indent=2)


def _dataset_as_json(one: ReportedDataset) -> dict[str, Any]:
    files = [
        {
            "file": file.url,
            "entries": file.entries,
            "size": file.size,
            "problem": file.problem.message if file.problem else None,
            "skipped": file.skipped,
            "missing": file.missing,
        }
        for file in one.files
    ]
    return {"name": one.name, "source": one.source, "eventtype": one.eventtype, "entries": one.entries, "files": files}
