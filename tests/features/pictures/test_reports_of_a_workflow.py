"""A workflow asks for texts about its runs: from the built-in template, or from one of its own."""

from __future__ import annotations

import html

import pytest

import cenote
from cenote.common.errors import CenoteError

from ..conftest import Desk

FLOW = """
data: {datasets: [{name: dy, files: [dy.root]}]}
registry: {report_templates: {short: {path: own/short.md.j2, source: provenance}}}
reports:
  - id: provenance
    op: hep.report.template
    source: provenance
    template: hep.provenance.default
    outputs:
      - {path: reports/provenance.md, format: markdown}
      - {path: reports/provenance.html, format: html}
  - {id: mine, template: short, outputs: notes/mine.md}
analysis:
  stages:
    - {id: Pt, op: hep.hist, render: [], params: {axes: [{source: "leading(Muon_pt)", bins: [10, 0, 100]}]}}
"""
SHORT = "{% for one in artifacts %}{{ one.path }} of {{ one.node_id }}; {% endfor %}{{ run.summary.events }} events"


def a_flow(desk: Desk, text: str = FLOW, template: str = SHORT) -> str:
    desk.muons("dy.root", events=50)
    (desk.folder / "own").mkdir(exist_ok=True)
    desk.write("own/short.md.j2", template)
    return str(desk.write("flow.yaml", text))


def test_reports_are_written_below_the_run_and_go_when_nobody_asks_for_them(desk: Desk) -> None:
    a_flow(desk)
    told = desk.typed("run", "flow.yaml", "--out", "out", "--no-report")
    reports = desk.folder / "out" / "reports"
    assert (reports / "notes/mine.md").read_text() == (
        "products/Pt.json of stage.Pt; products/Pt.root of stage.Pt; 50 events\n"
    )
    whole = (reports / "provenance.md").read_text()
    assert "| dy | dy.root | 50 |" in whole
    assert "| Pt | hep.hist | Muon_pt |" in whole
    page = (reports / "provenance.html").read_text()
    assert "<td>hep.hist</td>" in page
    assert "out/reports/notes/mine.md" in told.stdout
    desk.write("flow.yaml", FLOW.replace("notes/mine.md", "other.md"))
    desk.typed("run", "flow.yaml", "--out", "out", "--no-report")
    assert {path.name for path in reports.rglob("*.md")} == {"provenance.md", "other.md"}


def test_tags_in_a_report_are_shown_and_not_obeyed(desk: Desk) -> None:
    flow = FLOW.replace("notes/mine.md", "mine.html")
    run = cenote.load(a_flow(desk, flow, "# <b>Runs</b>\n\n<script>alert(1)</script>")).run(desk.folder / "out")
    page = (run.folder / "reports" / "mine.html").read_text()
    assert "<script>" not in page
    assert "<title>&lt;b&gt;Runs&lt;/b&gt;</title>" in page


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("one\n{{ runn.id }}", "short.md.j2:2: UndefinedError: 'runn' is undefined"),
        ("{{ ''.__class__.__mro__ }}", "access to attribute '__class__' of 'str' object is unsafe"),
        ("{{ 1 / 0 }}", "short.md.j2:1: ZeroDivisionError"),
    ],
)
def test_a_template_that_cannot_be_filled_fails_the_run_and_keeps_its_numbers(
    desk: Desk, template: str, words: str
) -> None:
    flow = cenote.load(a_flow(desk, FLOW, template))
    with pytest.raises(CenoteError, match="report 'mine' cannot be written") as raised:
        flow.run(desk.folder / "out")
    assert words in str(raised.value)
    assert raised.value.exit_code == 20
    assert (desk.folder / "out" / "products" / "Pt.json").is_file()
    assert words in (desk.folder / "out" / "summary.json").read_text()
    page = html.unescape((desk.folder / "out" / "report.html").read_text(encoding="utf-8"))
    assert "report 'mine' cannot be written" in page
    assert words in page


@pytest.mark.parametrize(
    ("written", "instead", "words"),
    [
        ("template: short", "template: shrt", "flow.yaml:12:26: the template shrt is not there"),
        (
            "outputs: notes/mine.md",
            "outputs: ../mine.md",
            "'../mine.md' is outside of the folder `reports/` of the run",
        ),
        (
            "outputs: notes/mine.md",
            "outputs: provenance.md",
            "a file of report 'mine' would overwrite a file of report",
        ),
        ("outputs: notes/mine.md", "outputs: []", "'outputs' of a report"),
        ("id: mine", "id: provenance", "there are two reports 'provenance'"),
        ("source: provenance\n    template", "source: summary\n    template", "'source' of a report"),
        ("op: hep.report.template", "op: hep.report.latex", "'op' of a report"),
    ],
)
def test_mistakes_are_found_before_the_run(desk: Desk, written: str, instead: str, words: str) -> None:
    a_flow(desk, FLOW.replace(written, instead))
    told = desk.typed("check", "flow.yaml")
    assert told.returncode in (10, 11)
    assert words in told.stderr


def test_a_template_with_a_slip_is_found_before_the_run(desk: Desk) -> None:
    a_flow(desk, FLOW, "one\n{% for x in %}")
    assert "short.md.j2:2: Expected an expression" in desk.typed("check", "flow.yaml").stderr
