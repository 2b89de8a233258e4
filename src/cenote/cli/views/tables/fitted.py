"""Draw tables that fit a narrow terminal: columns that matter less give way, and names stay."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from cenote.common.values import dataclass

NAME_WIDTH = 20
"""Columns of the terminal that a long name keeps at the least."""
WRAPPED_WIDTH = 18
"""Columns of the terminal that make a column worth showing whose words are wrapped."""


@dataclass(frozen=True)
class TableColumn:
    """A column of a table; the first one of a table has the names."""

    heading: str
    rank: int = 0
    """Where it is narrow the highest goes first; 0 always stays."""
    right: bool = False
    wraps: bool = False
    """Whether its words may go on in the next line."""


class FittedTable:
    """A table without lines."""

    def __init__(self, columns: Sequence[TableColumn], *, header_style: str = "dim", gap: int = 1) -> None:
        self._columns = tuple(columns)
        self._rows: list[tuple[RenderableType, ...]] = []
        self._header_style, self._gap = header_style, gap

    def add_row(self, *cells: RenderableType) -> None:
        """One cell per column; a row may end early."""
        missing = len(self._columns) - len(cells)
        self._rows.append((*cells, *[""] * missing))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        natural = [self._natural(console, options, place) for place in range(len(self._columns))]
        shown = self._fitting(natural, options.max_width)
        others = sum(self._needed(place, natural) + self._gap for place in shown[1:])
        table = Table(box=None, pad_edge=False, padding=(0, self._gap, 0, 0), header_style=self._header_style)
        for place in shown:
            column = self._columns[place]
            table.add_column(
                column.heading,
                justify="right" if column.right else "left",
                no_wrap=not column.wraps,
                max_width=max(1, options.max_width - others) if place == 0 else None,
            )
        for row in self._rows:
            table.add_row(*(row[place] for place in shown))
        yield table

    def _natural(self, console: Console, options: ConsoleOptions, place: int) -> int:
        cells = [Text(self._columns[place].heading), *(row[place] for row in self._rows)]
        return max(Measurement.get(console, options, cell).maximum for cell in cells)

    def _needed(self, place: int, natural: Sequence[int]) -> int:
        if place == 0:
            return min(natural[0], NAME_WIDTH)
        return min(natural[place], WRAPPED_WIDTH) if self._columns[place].wraps else natural[place]

    def _fitting(self, natural: Sequence[int], width: int) -> list[int]:
        """The columns for which there is room: empty ones go first, then those that matter least."""
        shown = list(range(len(self._columns)))
        empty = {place for place in shown if not any(row[place] for row in self._rows)}
        while sum(self._needed(place, natural) + self._gap for place in shown) - self._gap > width:
            droppable = [place for place in shown if self._columns[place].rank]
            if not droppable:
                break
            shown.remove(max(droppable, key=lambda place: (place in empty, self._columns[place].rank)))
        return shown


def name(text: str, style: str = "") -> Text:
    """A name that is cut where there is no room for it."""
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")
