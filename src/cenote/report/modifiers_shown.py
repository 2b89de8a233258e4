"""Lay out what modifiers measured as the page shows it: a table for each, and the files and pictures that it left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cenote.modifiers.support.measures import Folded
from cenote.report.products_shown import data_uri
from cenote.runs.folder import RunFolder
from cenote.runs.measured import ModifierRecord, read_modifiers
from cenote.runs.summary import Summary
from cenote.values import dataclass

LARGEST_PICTURE = 400_000
"""Bytes: larger ones are linked, not shown, so that the page stays light."""
MOST_FILES = 40


@dataclass(frozen=True)
class MeasureCell:
    """One value: in words, and as a number where it is one."""

    words: str
    number: float | None = None


@dataclass(frozen=True)
class MeasureTable:
    """What was measured of stages, or of the rows of one stage."""

    caption: str
    headings: tuple[str, ...]
    """Those that begin with # are of columns of numbers."""
    rows: tuple[tuple[str, tuple[MeasureCell, ...]], ...]


@dataclass(frozen=True)
class ShownModifier:
    """One modifier."""

    name: str
    tables: tuple[MeasureTable, ...]
    loops: tuple[tuple[str, ...], ...]
    """Stages that were compiled together."""
    pictures: tuple[tuple[str, str], ...]
    """Each with its file."""
    files: tuple[str, ...]
    """Relative to the run's folder."""
    more_files: int
    reused: bool


def shown_modifiers(run: RunFolder, summary: Summary) -> list[ShownModifier]:
    """Those that have something to show."""
    shown = [_shown(run, modifier) for modifier in read_modifiers(run, summary)]
    return [one for one in shown if one.tables or one.files or one.reused]


def _shown(run: RunFolder, modifier: ModifierRecord) -> ShownModifier:
    return ShownModifier(
        name=modifier.name,
        tables=tuple(_tables(modifier)),
        loops=tuple(stages for stages, _ in modifier.groups),
        pictures=tuple(_pictures(run, modifier.files)),
        files=modifier.files[:MOST_FILES],
        more_files=max(0, len(modifier.files) - MOST_FILES),
        reused=modifier.reused,
    )


def _tables(modifier: ModifierRecord) -> Iterator[MeasureTable]:
    of_stages = [(stage, found.values) for stage, found in modifier.measured if found.values]
    if of_stages:
        calls = [MeasureCell(f"{found.calls:,}", found.calls) for _, found in modifier.measured if found.values]
        yield _table(modifier, "Stages", "Stage", of_stages, calls)
    for stage, found in modifier.measured:
        if found.rows:
            yield _table(modifier, f"Columns of {stage}", "Column", found.rows.items())


def _table(
    modifier: ModifierRecord,
    caption: str,
    first: str,
    rows: Iterable[tuple[str, Mapping[str, Folded]]],
    calls: Sequence[MeasureCell] = (),
) -> MeasureTable:
    rows = list(rows)
    there = {name: value for _, values in rows for name, value in values.items()}
    names = [*(name for name in modifier.measures if name in there), *(n for n in there if n not in modifier.measures)]
    titles = [modifier.title(name) if isinstance(there[name], dict) else f"#{modifier.title(name)}" for name in names]
    cells = [
        (row, (*calls[number : number + 1], *(_cell(modifier, name, values.get(name)) for name in names)))
        for number, (row, values) in enumerate(rows)
    ]
    return MeasureTable(caption, (first, *(("#Calls",) if calls else ()), *titles), tuple(cells))


def _cell(modifier: ModifierRecord, name: str, value: Folded | None) -> MeasureCell:
    if value is None:
        return MeasureCell("–")
    return MeasureCell(modifier.worded(name, value), None if isinstance(value, dict) else value)


def _pictures(run: RunFolder, files: Iterable[str]) -> Iterator[tuple[str, str]]:
    for file in files:
        path = run.path / file
        if path.suffix == ".svg" and path.stat().st_size <= LARGEST_PICTURE:
            yield file, data_uri(path.read_bytes(), path.suffix)
