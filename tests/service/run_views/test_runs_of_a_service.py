"""Runs that a service drives: seen while they run, then with their report; no other folder is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import cenote
from cenote.common.errors import CenoteError
from cenote.execution.runs.folder import RunFolder
from cenote.service.client.connection import Connection
from cenote.service.client.line import Line
from cenote.service.client.records import NewTask, QueuedTaskRecord
from cenote.service.run_views import RunSeen
from cenote.testing.muons import write_muons

FLOW = """
data: {datasets: [{name: first, files: [a.root]}]}
analysis:
  stages:
    - {id: MuonPt, op: hep.hist, params: {axes: [{name: pt, source: Muon_pt, bins: {nbins: 3, low: 0, high: 150}}]}}
execution: {pools: {default: {}}}
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that is over."""
    folder = tmp_path_factory.mktemp("analysis")
    write_muons(folder / "a.root", events=500)
    (folder / "flow.yaml").write_text(FLOW)
    return cenote.load(folder / "flow.yaml").run(folder / "out").folder


@pytest.fixture
def line(connection: Connection) -> Iterator[Line]:
    connection.create_pool("drivers", "local", 1).submit()
    yield connection._line
    connection.pool("drivers").delete()


def driving(line: Line, folder: Path | str) -> QueuedTaskRecord:
    """A task that says that it drives the run in this folder."""
    return line.post("/tasks", QueuedTaskRecord, NewTask(name="drive", pool="drivers", command="true", run=str(folder)))


def test_a_run_that_is_over_is_seen_with_its_stages_its_timeline_and_its_report(line: Line, ended: Path) -> None:
    task = driving(line, ended)
    other = line.post("/tasks", QueuedTaskRecord, NewTask(name="other", pool="drivers", command="true"))
    assert [one.id for one in line.get("/runs", tuple[QueuedTaskRecord, ...])] == [task.id]
    seen = line.get(f"/runs/{task.id}", RunSeen)
    assert seen.task.run == str(ended)
    assert seen.status == "succeeded"
    assert seen.report
    assert seen.summary is not None
    assert [stage.id for stage in seen.summary.stages] == ["MuonPt"]
    assert [lane.pool for lane in seen.timeline] == ["default"]
    assert max(seen.timeline[0].running) > 0
    assert line.read(f"/runs/{task.id}/report") == (ended / "report.html").read_bytes()
    (product,) = seen.summary.products
    assert line.read(f"/runs/{task.id}/{product.files[0]}") == (ended / product.files[0]).read_bytes()
    with pytest.raises(CenoteError, match="drives no run"):
        line.get(f"/runs/{other.id}", RunSeen)


def test_a_run_is_followed_while_it_writes(line: Line, ended: Path, tmp_path: Path) -> None:
    task = driving(line, tmp_path / "out")
    assert line.get(f"/runs/{task.id}", RunSeen).summary is None
    run = RunFolder(tmp_path / "out")
    run.path.mkdir()
    run.plan.write_bytes((ended / "plan.json").read_bytes())
    events = (ended / "journal.jsonl").read_bytes().splitlines(keepends=True)
    done = next(place for place, one in enumerate(events) if b'"TaskDone"' in one)
    run.journal.write_bytes(b"".join(events[:done]))
    with run.lock():
        begun = line.get(f"/runs/{task.id}", RunSeen)
        assert (begun.status, begun.report) == ("running", False)
        assert begun.summary is not None
        assert begun.summary.tasks.done == 0
        with run.journal.open("ab") as journal:
            journal.write(b"".join(events[done:]))
        over = line.get(f"/runs/{task.id}", RunSeen)
    assert over.status == "succeeded"
    assert over.summary is not None
    assert over.summary.tasks.done == over.summary.tasks.total


def test_only_what_a_run_published_is_read_from_its_folder(line: Line, ended: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    (folder / "products").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    for name in ("journal.jsonl", "plan.json"):
        (folder / name).write_bytes((ended / name).read_bytes())
    summary = msgspec.json.decode((ended / "summary.json").read_bytes())
    summary["products"][0]["files"] = ["products/../../secret", "products/link"]
    (folder / "summary.json").write_bytes(msgspec.json.encode(summary))
    (folder / "products" / "link").symlink_to(tmp_path / "secret")
    (folder / "products" / "unlisted").write_text("not published")
    (folder / "report.html").symlink_to(tmp_path / "secret")
    task = driving(line, folder)
    for name in ("products/..%2F..%2Fsecret", "products/link", "products/unlisted", "report", "journal.jsonl"):
        with pytest.raises(CenoteError):
            line.read(f"/runs/{task.id}/{name}")


def test_a_folder_that_no_task_names_is_not_read(line: Line, ended: Path) -> None:
    task = driving(line, "relative/folder")
    for run in (task.id, "nonsense", str(ended).replace("/", "%2F")):
        with pytest.raises(CenoteError):
            line.get(f"/runs/{run}", RunSeen)
