"""Check the table of a cutflow: its columns, order, efficiencies."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from cenote.analysis.products.cutflow import Cutflow, CutflowRow
from cenote.analysis.renderers.hep.render.cutflow_csv import CutflowCSV
from cenote.analysis.renderers.interface import DrawContext
from cenote.common.errors import CenoteError


def row(dataset: str, index: int, label: str, entering: int, leaving: int) -> CutflowRow:
    return CutflowRow(
        dataset=dataset,
        name=f"All[{index}]",
        selection="All",
        index=index,
        label=label,
        expr=label,
        kind="expression",
        parents=(),
        weighted=True,
        n_unweighted_in=entering,
        n_unweighted_out=leaving,
        sumw_in=entering / 2,
        sumw_out=leaving / 2,
        sumw2_in=entering / 4,
        sumw2_out=leaving / 4,
    )


CUTFLOW = Cutflow(
    (
        row("data", 0, "two muons", 100, 50),
        row("data", 1, "pt > 25", 50, 10),
        row("mc", 0, "two muons", 0, 0),
        row("mc", 1, "pt > 25", 0, 0),
    )
)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_cutflow_is_written_cut_by_cut_and_dataset_by_dataset(tmp_path: Path) -> None:
    (path,) = CutflowCSV().draw(CUTFLOW, tmp_path / "cutflow", DrawContext("Presel"))
    assert path == tmp_path / "cutflow.csv"
    rows = table(path)
    assert [(row["cut"], row["dataset"]) for row in rows] == [
        ("two muons", "data"),
        ("two muons", "mc"),
        ("pt > 25", "data"),
        ("pt > 25", "mc"),
    ]
    assert list(rows[0])[:4] == ["selection", "cut", "dataset", "n_in"]
    assert list(tmp_path.iterdir()) == [path]


def test_efficiencies_are_those_of_their_row_and_blank_without_any(tmp_path: Path) -> None:
    (path,) = CutflowCSV().draw(CUTFLOW, tmp_path / "cutflow", DrawContext("Presel"))
    assert [(row["efficiency"], row["cumulative"]) for row in table(path)] == [
        ("0.5", "0.5"),
        ("", ""),
        ("0.2", "0.1"),
        ("", ""),
    ]


def test_datasets_can_be_added_up(tmp_path: Path) -> None:
    settings = {"cutflow_csv": {"include_dataset": False}}
    (path,) = CutflowCSV.model_validate(settings).draw(CUTFLOW, tmp_path / "cutflow", DrawContext("Presel"))
    rows = table(path)
    assert "dataset" not in rows[0]
    assert [(row["cut"], row["n_unweighted_out"]) for row in rows] == [("two muons", "50"), ("pt > 25", "10")]


def test_a_partial_cutflow_says_so_in_every_row(tmp_path: Path) -> None:
    (path,) = CutflowCSV().draw(CUTFLOW, tmp_path / "cutflow", DrawContext("Presel", partial=True))
    assert {row["partial"] for row in table(path)} == {"true"}


def test_something_else_than_a_cutflow_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(CenoteError, match="stage 'Mass' makes no cutflow"):
        CutflowCSV().draw([1, 2], tmp_path / "cutflow", DrawContext("Mass"))
