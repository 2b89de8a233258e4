"""A command imports what it and its workflow use, and nothing else: importing is most of what a small one does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cenote.testing.muons import write_muons

FLOW = """
data: {datasets: [{name: d, files: [a.root]}]}
analysis:
  stages:
    - {id: Cut, op: hep.selection.cutflow, params: {selection: {All: ["nMuon >= 1"]}}}
    - id: H
      op: hep.hist
      params: {axes: [{name: x, type: regular, source: Muon_pt, bins: {nbins: 20, low: 0, high: 300}}]}
      render: []
"""
HEAVY = (
    *(
        "aiohttp",
        "asyncio",
        "awkward",
        "boost_histogram",
        "cloudpickle",
        "cryptography",
        "distributed",
        "fsspec",
        "hist",
    ),
    *("importlib.metadata", "jinja2", "matplotlib", "numpy", "pyarrow", "pydantic", "rich", "ssl", "uproot", "yaml"),
)
SCRIPT = """
import sys
sys.argv = ["cenote", *sys.argv[1:]]
from cenote.cli.main import exit_code_of
code = exit_code_of()
print("heavy:", *[name for name in {heavy!r} if name in sys.modules], file=sys.__stderr__)
sys.exit(code)
"""


@pytest.fixture(autouse=True)
def _workflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write_muons(tmp_path / "a.root", events=100)
    (tmp_path / "flow.yaml").write_text(FLOW)


def imported_by(*arguments: str) -> set[str]:
    """The heavy packages that a fresh interpreter has imported after this command."""
    script = SCRIPT.format(heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split()[1:])


def test_files_that_are_known_are_planned_without_what_reads_or_fills() -> None:
    imported_by("plan", "flow.yaml")
    assert imported_by("plan", "flow.yaml") == {"numpy", "pydantic", "rich", "yaml"}
    assert imported_by("check", "flow.yaml") == {"numpy", "pydantic", "rich", "yaml"}


def test_a_quiet_run_without_pictures_imports_nothing_for_either() -> None:
    imported = imported_by("run", "flow.yaml", "--out", "out", "--quiet", "--workers", "1")
    assert imported == {
        "awkward",
        "boost_histogram",
        "hist",
        "importlib.metadata",
        "jinja2",
        "numpy",
        "pydantic",
        "yaml",
    }


def test_looking_at_a_run_needs_nothing_of_what_made_it() -> None:
    imported_by("run", "flow.yaml", "--out", "out", "--quiet", "--workers", "1")
    assert imported_by("status", "out") == {"numpy", "rich"}
    assert imported_by("status", "out", "--json") == {"numpy"}
    assert imported_by("why", "out", "H") == {"numpy"}


def test_a_run_without_a_report_imports_no_template_engine_and_leaves_none() -> None:
    run = ("run", "flow.yaml", "--out", "out", "--quiet", "--workers", "1")
    assert "jinja2" in imported_by(*run)
    assert Path("out/report.html").is_file()
    assert "jinja2" not in imported_by(*run, "--no-report")
    assert not Path("out/report.html").exists()
