"""The verbs work in scripts, notebooks and threads; products are what their libraries know; nothing prints unasked."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from pathlib import Path

import hist
import pytest

import cenote
from cenote.cli.views.progress.live import ProgressLine
from cenote.common.errors import CenoteError

from ..conftest import Desk

FLOW = """
    data: {datasets: [{name: d, files: [a.root]}]}
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


def test_the_verbs_follow_each_other_and_print_nothing(flow: Path, capfd: pytest.CaptureFixture[str]) -> None:
    analysis = cenote.load(flow)
    assert analysis.check().ok
    plan = analysis.plan()
    run = analysis.run("out")
    assert run.status == "succeeded"
    assert [stage.stage for stage in plan.stages] == ["Cuts", "MuonPt"]
    assert run.products == ("Cuts", "MuonPt")
    assert capfd.readouterr() == ("", "")


def test_workers_print_nothing_either(flow: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cenote.load(flow).run("out", workers=2).status == "succeeded"
    assert capfd.readouterr() == ("", "")


def test_a_histogram_is_a_hist_and_a_cutflow_is_a_table(flow: Path) -> None:
    run = cenote.load(flow).run("out")
    muons = run.product("MuonPt")
    assert isinstance(muons, hist.Hist)
    assert muons.axes.name == ("pt",)
    cuts = run.product("Cuts")
    printed = str(cuts)
    assert "nMuon >= 1" in printed
    assert "1,000" in printed
    assert "<table" in cuts._repr_html_()
    assert "nMuon &gt;= 1" in cuts._repr_html_()
    assert {row["dataset"] for row in cuts.to_rows()} == {"d"}


def test_a_product_that_is_not_there_names_those_that_are(flow: Path) -> None:
    run = cenote.load(flow).run("out")
    with pytest.raises(KeyError, match="there are: Cuts, MuonPt"):
        run.product("MuonPT2")


def test_a_run_shows_itself_in_a_notebook_with_its_pictures(flow: Path) -> None:
    shown = cenote.load(flow).run("out")._repr_html_()
    assert "succeeded after" in shown
    assert "MuonPt" in shown
    assert "data:image/png;base64," in shown
    assert "http" not in shown


def test_plans_and_checks_read_well_at_a_prompt(flow: Path, desk: Desk) -> None:
    assert repr(cenote.load(flow).plan()) == "Plan(2 stages in 1 segment, 1,000 events in 5 partitions, 6 tasks)"
    assert repr(cenote.load(flow).check()) == "no problems"
    wrong = desk.write("wrong.yaml", FLOW.replace("Muon_pt", "Muon_ptt"))
    assert "did you mean 'Muon_pt'?" in repr(cenote.load(wrong).check())


@pytest.mark.usefixtures("flow")
def test_what_is_wrong_is_raised_with_all_problems(desk: Desk) -> None:
    wrong = desk.write("wrong.yaml", FLOW.replace("bins:", "bin:").replace("op: hep.hist", "op: hep.hits"))
    with pytest.raises(CenoteError) as caught:
        cenote.load(wrong).run("out")
    assert caught.value.exit_code == 12
    assert not Path("out").exists()


def test_a_run_that_failed_comes_back_with_its_failures(flow: Path, desk: Desk) -> None:
    desk.write(
        "ops.py",
        """
        from cenote import operation

        @operation("custom.broken", reads=["MET_pt"], adds=["y"])
        def broken(events):
            raise ValueError("no <signal>")
        """,
    )
    sets = ["plugins=[ops.py]", "analysis.stages=[{id: Broken, op: custom.broken}]"]
    run = cenote.load(flow, sets=sets).run("out")
    assert run.status == "failed"
    assert run.exit_code == 20
    assert "no <signal>" in run.failures[0]["message"]
    assert "no &lt;signal&gt;" in run._repr_html_()


def test_progress_is_one_line_written_over_and_kept_at_the_end(flow: Path) -> None:
    written = io.StringIO()
    cenote.load(flow).run("out", listen=ProgressLine(written))
    text = written.getvalue()
    assert text.startswith("\r")
    assert text.count("\n") == 1
    assert text.endswith("\n")
    last = text.rsplit("\r", 1)[1]
    assert "100 %" in last
    assert "succeeded" in last


def test_show_progress_serves_one_run_after_another(flow: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for out in ("one", "two"):
        cenote.load(flow).run(out, listen=cenote.show_progress)
    assert capfd.readouterr().out.count("\n") == 2


@pytest.mark.usefixtures("flow")
def test_a_script_needs_no_main_guard_for_several_workers(desk: Desk) -> None:
    desk.write(
        "script.py",
        """
        import cenote

        run = cenote.load("flow.yaml").run("out", workers=2)
        print(run.status, run.product("MuonPt").sum(flow=True) > 0)
        """,
    )
    finished = subprocess.run(
        [sys.executable, "script.py"], cwd=desk.folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert (finished.stdout, finished.stderr) == ("succeeded True\n", "")


@pytest.mark.usefixtures("flow")
def test_a_run_can_be_started_from_standard_input(desk: Desk) -> None:
    """As a notebook's kernel does: there is no file that a worker could import as `__main__`."""
    code = "import cenote; print(cenote.load('flow.yaml').run('out', workers=2).status)"
    finished = subprocess.run(
        [sys.executable], input=code, cwd=desk.folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert (finished.stdout, finished.stderr) == ("succeeded\n", "")


def test_a_run_works_in_a_thread(flow: Path) -> None:
    found: list[cenote.Run] = []
    thread = threading.Thread(target=lambda: found.append(cenote.load(flow).run("out", workers=2)))
    thread.start()
    thread.join(timeout=120)
    assert [run.status for run in found] == ["succeeded"]


def test_an_old_run_is_opened_by_its_folder(flow: Path) -> None:
    first = cenote.load(flow).run("out")
    again = cenote.open_run("out")
    assert again.status == "succeeded"
    assert again.product("MuonPt") == first.product("MuonPt")
    assert [path.name for path in again.plots] == [path.name for path in first.plots]
    with pytest.raises(CenoteError, match="holds no run"):
        cenote.open_run("elsewhere")


def test_saving_is_shown_before_the_first_product_is_saved(flow: Path) -> None:
    shown: list[tuple[int, int] | None] = []
    cenote.load(flow).run("out", listen=lambda view: shown.append(view.saved))
    assert shown[0] is None
    assert (0, 2) in shown


def test_a_task_is_shown_as_running_while_it_runs_in_this_process(flow: Path) -> None:
    shown: list[str] = []
    run = cenote.load(flow).run(
        "out", workers=1, listen=lambda view: shown.append(f"{view.tasks.running} running, {view.pools[0].state}")
    )
    assert run.status == "succeeded", str(run.failures)
    assert "1 running, working" in shown
    assert "0 running, idle" not in shown, "nobody needs to see the moment between two tasks"
