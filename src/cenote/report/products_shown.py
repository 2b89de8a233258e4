"""Find what the page shows: pictures, products that are tables, what modifiers measured."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from cenote.analysis.modifiers.support.measures import Folded
from cenote.analysis.products.interface import ProductTable
from cenote.common.values import dataclass
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.summary import ProductRecord, Summary
from cenote.execution.runs.view.measured import ModifierRecord, read_modifiers
from cenote.execution.runtime.publish import product_kind
from cenote.planning.outputs.names import product_stem

TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
"""Formats that a page can show, the preferred one first."""
OFFERED = (*TYPES, ".pdf", ".csv")
"""Files of the same name that a page links to: other formats, and a table of the numbers that are drawn."""


@dataclass(frozen=True)
class ShownPicture:
    """A picture: the file to show, the same in other formats and as a table, and what it was drawn from."""

    file: Path
    others: tuple[str, ...]
    """Relative to the run's folder."""
    caption: str
    product: ProductRecord | None

    @property
    def source(self) -> str:
        """The picture within the page."""
        return data_uri(self.file.read_bytes(), self.file.suffix)


def data_uri(content: bytes, suffix: str) -> str:
    """A file of this format, as an address that holds it."""
    return f"data:{TYPES[suffix]};base64,{b64encode(content).decode()}"


def read_pictures(run: RunFolder, products: Iterable[ProductRecord]) -> list[ShownPicture]:
    """One for each picture, in the order of the products; then pictures that no product names."""
    maker = {plot: product for product in products for plot in product.plots}
    found = sorted(path for path in run.plots.rglob("*"))
    pictures: dict[Path, list[Path]] = {}
    for path in dict.fromkeys((*(run.path / plot for plot in maker), *found)):
        if path.suffix in OFFERED and path.is_file():
            pictures.setdefault(path.with_suffix(""), []).append(path)
    shown = []
    for files in pictures.values():
        file = next((path for kind in TYPES for path in files if path.suffix == kind), None)
        if file is not None:
            others = tuple(path.relative_to(run.path).as_posix() for path in files)
            caption = file.relative_to(run.plots).with_suffix("").as_posix()
            shown.append(ShownPicture(file, others, caption, maker.get(file.relative_to(run.path).as_posix())))
    return shown


def read_tables(run: RunFolder, products: Iterable[ProductRecord]) -> list[tuple[str, str, Sequence[ProductTable]]]:
    """(kind, name, tables) of every product that is a table and can be read."""
    found = []
    for product in products:
        kind = product_kind(product.kind)
        if kind.tabular:
            with suppress(Exception):  # a kind of product may be anybody's; a damaged file costs only its table
                tables = kind.tables(kind.load(run.products, product_stem(product.name)))
                found += [(product.kind, product.name, tables)] if tables else []
    return found


# Lay out what modifiers measured as the page shows it: a table for each, and the files and pictures that it left.


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
