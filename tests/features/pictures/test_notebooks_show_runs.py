"""In a notebook a run shows how it goes by itself, and analyses and plans show what they are."""

from __future__ import annotations

import html
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cenote

from ..conftest import Desk

FLOW = """
    data: {datasets: [{name: "d<1>", files: [a.root]}]}
    sources: {events: {kind: root_tree, chunk_size: 200}}
    analysis:
      stages:
        - {id: Cuts, op: hep.selection.cutflow, params: {selection: {All: ["nMuon >= 1", "MET_pt > 20"]}}}
        - id: MuonPt
          op: hep.hist
          params: {axes: [{name: pt, source: Muon_pt, bins: {nbins: 10, low: 0, high: 100}}]}
"""


@pytest.fixture
def flow(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(desk.folder)
    desk.muons("a.root", events=1000)
    return desk.write("flow.yaml", FLOW)


def run_cells(folder: Path, *cells: str) -> list[dict[str, Any]]:
    """What a real kernel sends while these cells run."""
    homes = ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    environment = {**os.environ, **{name: str(folder / ".jupyter" / name) for name in homes}}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("run_notebook.py"))],
        input=json.dumps(cells),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sent: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return sent


@pytest.mark.usefixtures("flow")
def test_a_notebook_shows_a_bar_while_a_run_goes_on(desk: Desk) -> None:
    sent = run_cells(desk.folder, 'import cenote\nrun = cenote.load("flow.yaml").run()', "run.status")
    shown = [message for message in sent if message["cell"] == 0]
    assert [message["type"] for message in shown if message["type"] != "update_display_data"] == ["display_data"]
    assert len({message["transient"]["display_id"] for message in shown}) == 1
    pages = [message["data"]["text/html"] for message in shown]
    assert len(pages) >= 2
    assert "1 running" in "".join(pages)
    assert "flow.yaml succeeded" in pages[-1]
    assert "6 of 6 tasks" in shown[-1]["data"]["text/plain"]
    assert sent[-1]["data"]["text/plain"] == "'succeeded'"


@pytest.mark.usefixtures("flow")
def test_a_listener_of_ones_own_takes_the_place_of_the_bar(desk: Desk) -> None:
    quiet = 'import cenote\nrun = cenote.load("flow.yaml").run(listen=lambda view: None)'
    assert run_cells(desk.folder, quiet) == []


def test_an_error_shows_what_is_wrong_and_nothing_of_ours(desk: Desk) -> None:
    desk.write("wrong.yaml", FLOW.replace("op: hep.hist", "op: hep.hits"))
    [failed] = run_cells(desk.folder, 'import cenote\ncenote.load("wrong.yaml").plan()')
    [shown] = failed["traceback"]
    assert shown.startswith("CenoteError: ")
    assert "did you mean 'hep.hist'?" in shown
    assert "Traceback" not in shown
    assert "cenote/api" not in shown


def test_a_plan_shows_its_picture_and_where_stages_run(flow: Path) -> None:
    shown = cenote.load(flow).plan()._repr_html_()
    assert "data:image/svg+xml;base64," in shown
    for words in ("<td>MuonPt</td>", "<td>hep.hist</td>", "<td>default</td>", "<td>5</td>"):
        assert words in shown
    assert "http" not in shown


def test_an_analysis_shows_datasets_stages_and_what_is_wrong(flow: Path, desk: Desk) -> None:
    shown = cenote.load(flow)._repr_html_()
    assert "<td>d&lt;1&gt;</td>" in shown
    assert "<td>hep.selection.cutflow</td>" in shown
    wrong = desk.write("wrong.yaml", FLOW.replace("op: hep.hist", "op: hep.hits"))
    assert "did you mean 'hep.hist'?" in html.unescape(cenote.load(wrong)._repr_html_())
    broken = desk.write("broken.yaml", "analysis: [")
    assert "broken.yaml" in cenote.load(broken)._repr_html_()


def test_the_package_shows_its_public_names_and_nothing_else() -> None:
    script = "import cenote, cenote.api, cenote.cli.main; print(dir(cenote) == sorted(cenote.__all__))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True\n"
    assert all(hasattr(cenote, name) for name in dir(cenote))
