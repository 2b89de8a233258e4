"""Test cutflows on a terminal and in LaTeX."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cenote.analysis.products.cutflow import CSV_COLUMNS, Cutflow, CutflowProduct, CutflowRow
from cenote.analysis.products.support.plain_names import in_latex
from cenote.cli.views.tables.product import MOST_ROWS, table_lines

UNKIND = r"50 % & a_b #1 {x} ~ ^ \ $ <μ> → 中 é “q”"


def a_cutflow(*labels: str, datasets: tuple[str, ...] = ("data", "mc"), weighted: bool = False) -> Cutflow:
    """Every cut halves what comes, of 1024 events (or a weight of 0.3 each)."""
    weight = 0.3 if weighted else 1.0
    rows = []
    for place, label in enumerate(labels):
        before, after = 1024 >> place, 512 >> place
        for dataset in datasets:
            sums = (before * weight, after * weight, before * weight**2, after * weight**2)
            rows.append(
                CutflowRow(
                    dataset,
                    f"All[{place}]",
                    "All",
                    place,
                    label,
                    label,
                    "expression",
                    (),
                    weighted,
                    before,
                    after,
                    *sums,
                )
            )
    return Cutflow(tuple(rows))


def shown(cutflow: Cutflow, width: int = 100) -> list[str]:
    table = CutflowProduct().short_table(cutflow)
    return [] if table is None else [line.plain for line in table_lines("cutflow", "Select", table, width=width)]


def test_a_terminal_shows_what_came_in_and_what_passes_each_cut() -> None:
    assert shown(a_cutflow("trigger", "two muons")) == [
        "  cutflow   Select              data            mc",
        "            all events  1,024         1,024",
        "            trigger       512 50.0 %    512 50.0 %",
        "            two muons     256 50.0 %    256 50.0 %",
    ]


def test_weights_are_shown_as_sums() -> None:
    assert "307.2" in shown(a_cutflow("trigger", weighted=True))[1]


def test_a_notebook_shows_the_numbers_of_the_terminal() -> None:
    row = a_cutflow("trigger", datasets=("mc",), weighted=True).rows[0]
    cutflow = Cutflow((replace(row, sumw_in=40000.00119, sumw_out=2.5),))
    assert "40,000" in shown(cutflow)[1]
    assert "<td>40,000</td><td>2.5</td>" in cutflow._repr_html_()
    assert str(cutflow).splitlines()[1].split()[-3:] == ["40,000", "2.5", "0.0%"]


def test_a_share_is_that_of_the_numbers_beside_it(tmp_path: Path) -> None:
    row = replace(a_cutflow("trigger", datasets=("mc",), weighted=True).rows[0], sumw_in=200.0, sumw_out=50.0)
    cutflow = Cutflow((row,))
    assert shown(cutflow)[2].endswith("50 25.0 %")
    assert str(cutflow).endswith("50       25.0%")
    CutflowProduct().save(cutflow, tmp_path, "Select")
    assert r"trigger & 50 & 25.0\,\% \\" in (tmp_path / "Select.tex").read_text()
    with (tmp_path / "Select.csv").open(newline="") as file:
        (written,) = csv.DictReader(file)
    document = json.loads((tmp_path / "Select.json").read_text())["nodes"][0]["stats"]["mc"]
    (table,) = CutflowProduct().tables(cutflow)
    reported = dict(zip((name for name, _ in table.columns), table.rows[0], strict=True))
    error = math.sqrt(0.5 * row.sumw2_out + 0.0625 * row.sumw2_in) / 200
    assert row.efficiency == float(written["efficiency"]) == document["efficiency"] == reported["Efficiency"] == 0.25
    assert row.efficiency_error == pytest.approx(error)
    assert float(written["efficiency_error"]) == document["efficiency_error"] == reported["Uncertainty"]
    assert (reported["In"], reported["Out"], reported["Events in"], reported["Events out"]) == (200, 50, 1024, 512)


def test_the_uncertainty_of_an_unweighted_efficiency_is_binomial() -> None:
    (row,) = a_cutflow("trigger", datasets=("mc",)).rows
    assert row.efficiency_error == pytest.approx(math.sqrt(0.5 * 0.5 / 1024))


def test_rows_have_the_attributes_that_are_printed() -> None:
    (row,) = a_cutflow("trigger", datasets=("mc",)).rows
    assert {name: getattr(row, name) for name in CSV_COLUMNS} == {name: row.as_dict()[name] for name in CSV_COLUMNS}
    assert set(str(Cutflow((row,))).splitlines()[0].split()) <= set(CSV_COLUMNS)


def test_a_long_cutflow_is_cut_in_the_middle_and_says_so() -> None:
    lines = shown(a_cutflow(*(f"cut {number}" for number in range(40))))
    assert len(lines) == MOST_ROWS + 2
    assert "… 29 more cuts" in lines[7]
    assert "cut 39" in lines[-1]


def test_datasets_that_do_not_fit_are_counted() -> None:
    lines = shown(a_cutflow("trigger", datasets=tuple(f"dataset_{n}" for n in range(9))), width=60)
    assert "… and 7 more datasets" in lines[-1]
    assert max(map(len, lines[:-1])) <= 60


def test_nothing_is_shown_of_a_cutflow_without_cuts() -> None:
    assert shown(a_cutflow()) == []


def test_a_cutflow_is_saved_as_a_table_of_latex_too(tmp_path: Path) -> None:
    files = CutflowProduct().save(a_cutflow("50 % of a_b", r"$p_T > 20$"), tmp_path, "Select")
    assert [file.name for file in files] == ["Select.csv", "Select.json", "Select.tex"]
    lines = files[2].read_text().splitlines()
    assert lines[0] == r"\begin{tabular}{lrrrr}"
    assert r"50 \% of a\_b & 512 & 50.0\,\% & 512 & 50.0\,\% \\" in lines
    assert r"$p_T > 20$ & 256 & 50.0\,\% & 256 & 50.0\,\% \\" in lines
    assert lines[-1] == r"\end{tabular}"


@given(st.text())
def test_no_text_reaches_latex_as_its_own_language(text: str) -> None:
    written = in_latex(text.replace("$", ""))
    bare = re.sub(
        r"\\(textbackslash|textasciitilde|textasciicircum|textless|textgreater|textbar|ldots)\{\}", "", written
    )
    bare = re.sub(r"\\texttt\{U\+[0-9A-F]+\}|\$\\[A-Za-z]+\$|\\[&%$#_{}]|~|\{[*[]\}", "", bare)
    assert not re.search(r"[\\&%$#_{}^]", bare)


@pytest.mark.parametrize("text", ["$x", "$a$ $", "${$", "$a & b$", "$a%$", "$é$", "$x\\$"])
def test_what_is_no_formula_is_printed_as_it_stands(text: str) -> None:
    assert in_latex(text).startswith(r"\$")


def test_latex_compiles_whatever_labels_are(tmp_path: Path) -> None:
    if (latex := shutil.which("pdflatex")) is None:
        pytest.skip("there is no pdflatex here")
    CutflowProduct().save(a_cutflow(UNKIND, "[x] *", r"$p_T^{\mu\mu}$", datasets=("d_1", UNKIND)), tmp_path, "Select")
    page = r"\documentclass{article}\begin{document}\input{Select.tex}\end{document}"
    (tmp_path / "page.tex").write_text(page)
    command = [latex, "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
