"""The product `cutflow`: how many events each cut of each dataset saw and kept; as CSV, JSON and LaTeX."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar

from cenote.analysis.products.interface import WEIGHTS_NOT_FINITE, Form, Product, ProductTable
from cenote.analysis.products.support.plain_names import in_latex
from cenote.common.storage import write_text
from cenote.common.text import html_table, listed, plural
from cenote.common.values import dataclass

VERSION = 1
COUNTED = ("n_unweighted_in", "n_unweighted_out", "sumw_in", "sumw_out", "sumw2_in", "sumw2_out")
_COMPUTED = ("n_in", "n_out", "efficiency", "efficiency_error")
CSV_COLUMNS = ("selection", "cut", "dataset", "n_in", "n_out", *COUNTED, "efficiency", "efficiency_error")


@dataclass(frozen=True)
class CutflowRow:
    """One cut of one dataset, with the attributes that the saved table has as columns."""

    dataset: str
    name: str
    """`All[0]`: the group and the position in it."""
    selection: str
    """The group."""
    index: int
    label: str
    expr: str
    kind: str
    """`expression`, `reduce`, `all` or `any`."""
    parents: tuple[str, ...]
    weighted: bool
    n_unweighted_in: int
    n_unweighted_out: int
    sumw_in: float
    sumw_out: float
    sumw2_in: float
    sumw2_out: float

    @property
    def n_in(self) -> float:
        """Events that reached the cut; sums of weights where there are weights."""
        return self.sumw_in if self.weighted else self.n_unweighted_in

    @property
    def n_out(self) -> float:
        """Events that passed the cut; sums of weights where there are weights."""
        return self.sumw_out if self.weighted else self.n_unweighted_out

    @property
    def cut(self) -> str:
        """The label of the cut."""
        return self.label

    @property
    def efficiency(self) -> float | None:
        """`n_out / n_in`, of sums of weights where there are weights; None when nothing came."""
        return self.n_out / self.n_in if self.n_in else None

    @property
    def efficiency_error(self) -> float | None:
        """The standard deviation of the efficiency; None when nothing came."""
        if not self.weighted:
            return efficiency_error(self.n_in, self.n_out, self.n_in, self.n_out)
        return efficiency_error(self.n_in, self.n_out, self.sumw2_in, self.sumw2_out)

    def plus(self, other: CutflowRow) -> CutflowRow:
        """The same cut with the counts of both."""
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in COUNTED})

    def as_dict(self) -> dict[str, Any]:
        """Every number of the row by name."""
        named = asdict(self) | {"parents": list(self.parents), "cut": self.label}
        passed = {"n": self.n_out, "sumw": self.sumw_out, "sumw2": self.sumw2_out}
        return named | passed | {key: getattr(self, key) for key in _COMPUTED}


def efficiency_error(n_in: float, n_out: float, sumw2_in: float, sumw2_out: float) -> float | None:
    """The standard deviation of `n_out / n_in`, whose events are among those of `n_in`; None when nothing came."""
    if not n_in:
        return None
    share = n_out / n_in
    return math.sqrt(max(0.0, (1 - 2 * share) * sumw2_out + share**2 * sumw2_in)) / abs(n_in)


@dataclass(frozen=True)
class CutflowLine:
    """A cut with all datasets."""

    label: str
    passed: Mapping[str, tuple[float, float | None]]
    """Dataset → events (or sum of weights) that pass, and their share of what came to the cut."""


@dataclass(frozen=True)
class Cutflow:
    """A table: cuts in their order, and for each the datasets in theirs."""

    rows: tuple[CutflowRow, ...]

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of the datasets, in order."""
        return tuple(dict.fromkeys(row.dataset for row in self.rows))

    def to_rows(self) -> list[dict[str, Any]]:
        """One mapping per row, for data frames and tables."""
        return [row.as_dict() for row in self.rows]

    def row(self, dataset: str, name: str) -> CutflowRow:
        """The row of a dataset and a cut, by its name (`All[0]`) or its label."""
        for row in self.rows:
            if row.dataset == dataset and name in (row.name, row.label):
                return row
        raise KeyError(f"no cut '{name}' of dataset '{dataset}'")

    def table(self) -> tuple[CutflowLine, ...]:
        """The cuts in their order, each with all datasets; before the first cut, what came in."""
        found: dict[str, dict[str, CutflowRow]] = {}
        for row in self.rows:
            found.setdefault(row.name, {})[row.dataset] = row
        if not found:
            return ()
        several = len({row.selection for row in self.rows}) > 1
        first = next(iter(found.values()))
        lines = [CutflowLine("all events", {dataset: (row.n_in, None) for dataset, row in first.items()})]
        for rows in found.values():
            one = next(iter(rows.values()))
            label = f"{one.selection}: {one.label}" if several else one.label
            lines.append(CutflowLine(label, {name: (row.n_out, row.efficiency) for name, row in rows.items()}))
        return tuple(lines)

    def __str__(self) -> str:
        table = [_HEADINGS, *(_cells(row) for row in self.rows)]
        widths = [max(len(line[place]) for line in table) for place in range(len(_HEADINGS))]
        return "\n".join(_aligned(line, widths) for line in table)

    def _repr_html_(self) -> str:
        return html_table(_HEADINGS, (_cells(row) for row in self.rows))


_HEADINGS = ("selection", "cut", "dataset", "n_in", "n_out", "efficiency")
_TEXTS = 3


def _cells(row: CutflowRow) -> tuple[str, ...]:
    share = "" if row.efficiency is None else f"{row.efficiency:.1%}"
    return (row.selection, row.cut, row.dataset, _shown(row.n_in), _shown(row.n_out), share)


def _shown(number: float) -> str:
    """A sum of weights as people read it, here and in the terminal: 40000.00119 → `40,000`."""
    return f"{number:,.6g}" if number % 1 else f"{number:,.0f}"


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        cell.ljust(width) if place < _TEXTS else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


class CutflowProduct(Product):
    """Cutflows of the same cuts; datasets are never added to each other."""

    example: ClassVar[str] = """
    - id: Preselection
      op: hep.selection.cutflow
      params: {selection: ["nMuon >= 2", HLT_IsoMu24]}
    """

    tabular: ClassVar[bool] = True

    def merge(self, parts: Sequence[Any]) -> Any:
        """Counts of the same cut and dataset are added, in the order given."""
        found: dict[tuple[str, str], CutflowRow] = {}
        for part in parts:
            for row in part.rows:
                known = found.get((row.name, row.dataset))
                found[row.name, row.dataset] = row if known is None else known.plus(row)
        return Cutflow(tuple(_by_cut(found)))

    def save(self, value: Any, folder: Path, name: str) -> list[Path]:
        """`<name>.csv`, `<name>.json` and `<name>.tex`."""
        return [
            write_text(folder / f"{name}.csv", csv_text(CSV_COLUMNS, value.to_rows())),
            write_text(folder / f"{name}.json", json.dumps(_document(value), indent=1)),
            write_text(folder / f"{name}.tex", _latex(value)),
        ]

    def load(self, folder: Path, name: str) -> Any:
        """From `<name>.json`."""
        document = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        weighted = bool(document["weighted"])
        rows = [
            CutflowRow(
                dataset=dataset,
                name=node["id"],
                parents=tuple(node["parents"]),
                weighted=weighted,
                **{key: node[key] for key in ("selection", "index", "label", "expr", "kind")},
                **{key: stats[key] for key in COUNTED},
            )
            for node in document["nodes"]
            for dataset, stats in node["stats"].items()
        ]
        return Cutflow(tuple(rows))

    def warnings(self, value: Any) -> Sequence[str]:
        """Sums of weights that are NaN or infinite."""
        odd = {row.dataset for row in value.rows if not math.isfinite(row.sumw2_in)}
        return [f"sums of weights are not finite for dataset {listed(odd)}: {WEIGHTS_NOT_FINITE}"] if odd else ()

    def describe(self, value: Any) -> str:
        """`5 cuts, 2 datasets`."""
        cuts, datasets = len({row.name for row in value.rows}), len(value.datasets)
        return f"{plural(cuts, 'cut')}, {plural(datasets, 'dataset')}"

    def tables(self, value: Any) -> Sequence[ProductTable]:
        """One for each dataset and group of cuts."""
        several = len({row.selection for row in value.rows}) > 1
        found: dict[str, list[CutflowRow]] = {}
        for dataset in value.datasets:
            for row in value.rows:
                if row.dataset == dataset:
                    found.setdefault(f"{dataset}, {row.selection}" if several else dataset, []).append(row)
        return [_full_table(caption, rows) for caption, rows in found.items()]

    def short_table(self, value: Any) -> ProductTable | None:
        """Cuts below each other, datasets side by side: what passes, and its share of what came."""
        lines = value.table()
        columns = [_passed(dataset, lines) for dataset in value.datasets]
        return ProductTable(
            caption="",
            columns=(("", "text"), *((dataset, "text") for dataset in value.datasets)),
            rows=tuple(zip((line.label for line in lines), *columns, strict=True)),
            row_word="cut",
            column_word="dataset",
        )


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """A table with these columns, as CSV; what else the rows hold is left out."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _full_table(caption: str, rows: Sequence[CutflowRow]) -> ProductTable:
    first, weighted = rows[0].n_in, any(row.weighted for row in rows)
    form: Form = "number" if weighted else "count"
    columns: list[tuple[str, Form]] = [
        ("Cut", "text"),
        ("In", form),
        ("Out", form),
        ("Efficiency", "share"),
        ("Uncertainty", "share"),
        ("Cumulative", "bar"),
    ]
    if weighted:
        columns += [("Events in", "count"), ("Events out", "count")]
    cells = []
    for row in rows:
        total = row.n_out / first if first else None
        numbers = (row.n_in, row.n_out, row.efficiency, row.efficiency_error, total)
        label = row.label or row.expr or row.name
        cells.append((label, *numbers, *((row.n_unweighted_in, row.n_unweighted_out) if weighted else ())))
    return ProductTable(caption, tuple(columns), tuple(cells))


def _passed(dataset: str, lines: Sequence[CutflowLine]) -> list[str]:
    """A cell for each cut, all of the same width: events that pass, and their share."""
    passed = [line.passed.get(dataset) for line in lines]
    numbers = ["" if one is None else _shown(one[0]) for one in passed]
    shares = ["" if one is None or one[1] is None else f"{100 * one[1]:.1f} %" for one in passed]
    wide, narrow = max(map(len, numbers)), max(map(len, shares))
    return [f"{number:>{wide}} {share:>{narrow}}" for number, share in zip(numbers, shares, strict=True)]


def _latex(value: Cutflow) -> str:
    """A table of plain LaTeX, to be taken in with `\\input`: no package is needed."""
    lines = [
        rf"\begin{{tabular}}{{l{'rr' * len(value.datasets)}}}",
        r"\hline",
        " & ".join(["", *(rf"\multicolumn{{2}}{{c}}{{{in_latex(dataset)}}}" for dataset in value.datasets)]) + r" \\",
        " & ".join(["cut", *("passed & efficiency" for _ in value.datasets)]) + r" \\",
        r"\hline",
    ]
    for line in value.table():
        cells = [_latex_cells(line.passed.get(dataset)) for dataset in value.datasets]
        lines.append(" & ".join([in_latex(line.label), *cells]) + r" \\")
    return "\n".join([*lines, r"\hline", r"\end{tabular}"]) + "\n"


def _latex_cells(passed: tuple[float, float | None] | None) -> str:
    if passed is None:
        return " & "
    number, share = passed
    mantissa, _, exponent = (f"{number:.6g}" if number % 1 else f"{number:.0f}").partition("e")
    written = rf"${mantissa} \times 10^{{{int(exponent)}}}$" if exponent else mantissa
    return f"{written} & " + ("" if share is None else rf"{100 * share:.1f}\,\%")


def _by_cut(found: dict[tuple[str, str], CutflowRow]) -> Iterator[CutflowRow]:
    datasets = dict.fromkeys(dataset for _, dataset in found)
    for name in dict.fromkeys(name for name, _ in found):
        yield from (found[name, dataset] for dataset in datasets if (name, dataset) in found)


def _document(value: Cutflow) -> dict[str, Any]:
    """Nodes and edges: the cuts as a graph, with the counts of every dataset at each."""
    nodes: dict[str, dict[str, Any]] = {}
    edges: list[dict[str, str]] = []
    for row in value.rows:
        if row.name not in nodes:
            keys = ("selection", "index", "label", "expr", "kind")
            nodes[row.name] = {"id": row.name, **{key: getattr(row, key) for key in keys}}
            nodes[row.name] |= {"parents": list(row.parents), "stats": {}}
            sequence = [f"{row.selection}[{row.index - 1}]"] if row.index else []
            edges += [{"source": source, "target": row.name, "kind": "sequence"} for source in sequence]
            edges += [{"source": source, "target": row.name, "kind": "branch"} for source in row.parents]
        nodes[row.name]["stats"][row.dataset] = {key: getattr(row, key) for key in (*_COMPUTED, *COUNTED)}
    return {
        "version": VERSION,
        "kind": "cutflow",
        "weighted": any(row.weighted for row in value.rows),
        "datasets": list(value.datasets),
        "nodes": list(nodes.values()),
        "edges": edges,
    }
