"""Write cutflows as a table that spreadsheets and scripts read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from cenote.analysis.products.cutflow import COUNTED, csv_text, efficiency_error
from cenote.analysis.renderers.interface import DrawContext, Renderer
from cenote.common import errors, storage
from cenote.language.plugins.settings import Settings

CsvRow = dict[str, Any]
"""One cut for one dataset; Any because names, counts and sums stand side by side."""

SUMS = ("n_in", "n_out", *COUNTED)
COLUMNS = ("selection", "cut", "dataset", *SUMS, "efficiency", "efficiency_error", "cumulative")
"""Those of FAST-HEP, the uncertainty of the efficiency, and the efficiency since the first cut."""


class CutflowCSVBlock(Settings):
    """Settings of `cutflow_csv`."""

    include_dataset: bool = True
    """A row for each dataset; false adds the datasets up."""


class CutflowCSV(Renderer):
    """Writes a cutflow as CSV: a row for each cut and dataset, with counts, weighted sums and efficiencies."""

    example: ClassVar[str] = """
    render: {op: hep.render.cutflow_csv, out: cutflow.csv}
    """

    draws: ClassVar[tuple[str, ...]] = ("cutflow",)
    holds_numbers: ClassVar[bool] = True

    cutflow_csv: CutflowCSVBlock = CutflowCSVBlock()
    """What is special to this renderer."""

    @property
    def endings(self) -> tuple[str, ...]:
        """A table."""
        return ("csv",)

    def draw(self, product: Any, target: Path, context: DrawContext) -> list[Path]:
        """Write the table; see `Renderer.draw`."""
        if not hasattr(product, "to_rows"):
            raise errors.error(
                errors.RENDER_FAILED,
                f"stage '{context.stage}' makes no cutflow: there is no table to write",
                details=(f"it makes: {type(product).__name__}",),
            )
        rows = [{**row, "cut": row.get("cut", row.get("label", ""))} for row in product.to_rows()]
        if not self.cutflow_csv.include_dataset:
            rows = _added_up(rows)
        rows = _in_order(_with_efficiencies(rows))
        columns = [name for name in COLUMNS if name != "dataset" or self.cutflow_csv.include_dataset]
        if context.partial:
            columns.append("partial")
            rows = [{**row, "partial": "true"} for row in rows]
        return [storage.write_text(target.with_name(f"{target.name}.csv"), csv_text(columns, rows))]


def _added_up(rows: Iterable[CsvRow]) -> list[CsvRow]:
    """One row per cut, all datasets together."""
    together: dict[tuple[Any, ...], CsvRow] = {}
    for row in rows:
        key = _cut_key(row)
        before = together.get(key)
        sums = {name: row[name] + (before[name] if before else 0) for name in SUMS if name in row}
        together[key] = {**row, **sums, "dataset": ""}
    return list(together.values())


def _with_efficiencies(rows: Sequence[CsvRow]) -> list[CsvRow]:
    """Each row with what its cut keeps of the events that reach it, and of those before the first cut."""
    first: dict[tuple[Any, Any], float] = {}
    result = []
    for row in rows:
        entering, leaving = row.get("n_in", 0), row.get("n_out", 0)
        squares = (row["sumw2_in"], row["sumw2_out"]) if row.get("weighted") else (entering, leaving)
        start = first.setdefault((row.get("dataset"), row.get("selection")), entering)
        shares = {"efficiency": _share(leaving, entering), "cumulative": _share(leaving, start)}
        result.append({**row, **shares, "efficiency_error": efficiency_error(entering, leaving, *squares)})
    return result


def _share(part: float, whole: float) -> float | str:
    """Blank where there is nothing to take a share of."""
    return part / whole if whole else ""


def _cut_key(row: CsvRow) -> tuple[Any, ...]:
    return row.get("selection"), row.get("index"), row["cut"]


def _in_order(rows: Sequence[CsvRow]) -> list[CsvRow]:
    """Cut by cut in the order in which they first come, the datasets of a cut below each other."""
    position = {key: place for place, key in enumerate(dict.fromkeys(_cut_key(row) for row in rows))}
    return sorted(rows, key=lambda row: position[_cut_key(row)])
