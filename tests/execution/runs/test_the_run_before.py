"""What the last run published is kept for a comparison, and nothing else is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from cenote.execution.runs import provenance as before
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.provenance import keep_before, run_before
from cenote.execution.runs.summary import ProductRecord, Summary, TaskTotals
from cenote.planning.record import write_record


def a_run(folder: Path, *files: str, status: str = "succeeded") -> RunFolder:
    run = RunFolder(folder)
    run.products.mkdir(parents=True, exist_ok=True)
    for file in files:
        (run.path / file).write_text(file)
    products = (ProductRecord("H", "histogram", files),)
    tasks = TaskTotals(1, 1)
    summary = Summary(
        status=status,
        seconds=1,
        tasks=tasks,
        retries=0,
        events=0,
        peak_memory=0,
        products=products,
        failures=(),
        warnings=(),
    )
    write_record(run.summary, summary)
    return run


def kept(run: RunFolder) -> list[str]:
    return sorted(str(file.relative_to(run.before)) for file in run.before.rglob("*") if file.is_file())


def test_products_and_records_are_linked_and_stay_as_they_were(tmp_path: Path) -> None:
    run = a_run(tmp_path / "out", "products/H.json")
    keep_before(run)
    assert kept(run) == ["products/H.json", "summary.json"]
    assert (run.before / "products/H.json").stat().st_nlink == 2
    (run.products / "new").write_text("of the next run")
    (run.products / "new").replace(run.products / "H.json")
    assert (run_before(run) / "products/H.json").read_text() == "products/H.json"


def test_a_run_that_did_not_succeed_leaves_what_is_kept(tmp_path: Path) -> None:
    run = a_run(tmp_path / "out", "products/H.json")
    keep_before(run)
    a_run(tmp_path / "out", "products/H.json", "products/I.json", status="partial")
    keep_before(run)
    assert kept(run) == ["products/H.json", "summary.json"]


def test_files_elsewhere_that_a_summary_names_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    run = a_run(tmp_path / "out")
    names = ("products/../../mine", "../mine", str(tmp_path / "mine"), "journal.jsonl", "products/gone.json")
    a_run(run.path, status="succeeded")
    text = run.summary.read_text().replace('"files": []', f'"files": {list(names)!r}'.replace("'", '"'))
    run.summary.write_text(text)
    keep_before(run)
    assert kept(run) == ["summary.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "out"]


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("mine")
    run = a_run(tmp_path / "out", "products/H.json")
    run.before.symlink_to(elsewhere)
    keep_before(run)
    assert not run.before.is_symlink()
    assert [path.name for path in elsewhere.iterdir()] == ["mine"]


def test_thousands_of_files_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(before, "MOST_FILES", 1)
    run = a_run(tmp_path / "out", "products/H.json")
    keep_before(run)
    assert kept(run) == []
