"""A disk that is full, wherever something is written: an error of its own, nothing half-written, a run that goes on."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cenote
from cenote.common import errors, storage
from cenote.common.errors import CenoteError
from cenote.execution.runs.folder import RunFolder

from ..conftest import Desk

OPS = """
    import os
    import resource
    import sys
    from pathlib import Path
    from typing import ClassVar
    from cenote import operation
    from cenote.analysis.renderers.interface import Renderer

    HERE = Path(__file__).parent

    def leave_room(place):
        "From here on no file may become larger, in this process."
        for file in HERE.glob(f"full-{place}-*"):
            room = int(file.name.rpartition("-")[2])
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))

    @operation("custom.own", reads=["MET_pt"], adds=["own"])
    def own(events):
        leave_room("task")
        return {"own": events["MET_pt"] * 2}

    class OwnPicture(Renderer):
        "Draws, and writes more than there is room for."
        cenote_plugin: ClassVar = ("renderer", "own_picture")
        draws: ClassVar = ("histogram",)

        def draw(self, product, target, context):
            leave_room("plots")
            if (HERE / "broken-plots").exists():
                raise OSError(5, "Input/output error")
            picture = target.with_suffix(".txt")
            picture.write_text("x" * 10)
            return [picture]
"""
FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: ["*.root"]}]}
    sources: {events: {kind: root_tree, chunk_size: 1000}}
    analysis:
      stages:
        - {id: Own, op: custom.own, write: {kind: parquet, path: skim.parquet}}
        - id: H
          op: hep.hist
          params: {axes: [{name: x, type: regular, source: own, bins: {nbins: 20, low: 0, high: 200}}]}
          render: {op: own_picture}
    execution: {pools: {default: {workers: 1}}}
"""
RUN = "{python} -m cenote run flow.yaml --out full --quiet"


@pytest.fixture
def flow(desk: Desk) -> Path:
    desk.muons("a.root", events=3000)
    desk.write("ops.py", OPS)
    return desk.write("flow.yaml", FLOW)


def left_over(folder: Path) -> list[str]:
    """What somebody began to write and did not finish."""
    return [str(file) for file in folder.rglob(".*") if file.name != ".lock"]


def on_a_small_disk(desk: Desk, size: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run with its folder on a disk of this size, then again with more room; afterwards the folders are `a` and `b`."""
    run = " ".join([RUN.format(python=sys.executable), *words])
    script = f"""
        mkdir full; mount -t tmpfs -o size={size} none full || exit 99
        {run}; code=$?; cp -r full a
        mount -o remount,size=50m full; {run} --resume; again=$?; cp -r full b
        echo $code $again
    """
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        cwd=desk.folder, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip("only root may mount a small disk")
    return done


needs_root = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="mounts a small disk")


@needs_root
@pytest.mark.parametrize("size", ["8k", "24k", "48k", "100k"])
def test_a_run_on_a_disk_that_becomes_full_says_so_and_goes_on_when_there_is_room(
    desk: Desk, flow: Path, size: str
) -> None:
    assert flow.exists()
    done = on_a_small_disk(desk, size)
    assert done.stdout.split()[-2:] == ["31", "0"], done.stderr
    assert "no space left on device" in done.stderr
    assert "are free there" in done.stderr
    first, second = desk.folder / "a", desk.folder / "b"
    assert left_over(first) == []
    if (first / "summary.json").exists():
        summary = json.loads((first / "summary.json").read_text())
        assert summary["status"] == "failed"
        assert {failure["kind"] for failure in summary["failures"]} == {"disk-full"}
    assert json.loads((second / "summary.json").read_text())["status"] == "succeeded"


@needs_root
@pytest.mark.parametrize("words", [("--workers", "2"), ("--backend", "dask")])
def test_also_where_workers_write(desk: Desk, flow: Path, words: tuple[str, ...]) -> None:
    assert flow.exists()
    done = on_a_small_disk(desk, "64k", *words)
    assert done.stdout.split()[-2:] == ["31", "0"], done.stderr
    assert left_over(desk.folder / "a") == []


@pytest.mark.parametrize("place", ["task-100", "plots-200"])
def test_wherever_it_becomes_full_no_run_has_succeeded(desk: Desk, flow: Path, place: str) -> None:
    (desk.folder / f"full-{place}").touch()
    typed = desk.cenote("run", str(flow), "--out", "out", "--quiet")
    out = desk.folder / "out"
    assert typed.returncode == 31, typed.stderr
    assert "may not become larger" in typed.stderr
    assert left_over(out) == []
    if (out / "summary.json").exists():
        assert json.loads((out / "summary.json").read_text())["status"] == "failed"
    (desk.folder / f"full-{place}").unlink()
    assert cenote.load(flow).run(out, resume=True).status == "succeeded"


def test_publishing_that_fails_leaves_no_summary_of_a_success(desk: Desk, flow: Path) -> None:
    (desk.folder / "broken-plots").touch()
    out = desk.folder / "out"
    with pytest.raises(CenoteError, match="input/output error") as caught:
        cenote.load(flow).run(out)
    assert caught.value.exit_code == 33
    assert cenote.open_run(out).status == "failed"
    assert cenote.open_run(out).exit_code == 33
    (desk.folder / "broken-plots").unlink()
    assert cenote.load(flow).run(out, resume=True).status == "succeeded"


def test_what_was_a_success_is_none_while_the_next_attempt_goes_on(desk: Desk, flow: Path) -> None:
    out = desk.folder / "out"
    assert cenote.load(flow).run(out).status == "succeeded"
    (desk.folder / "broken-plots").touch()
    with pytest.raises(CenoteError):
        cenote.load(flow).run(out, resume=True)
    assert cenote.open_run(out).status == "failed"


def test_a_file_that_cannot_be_finished_leaves_nothing(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(CenoteError, match=r"big\.json") as caught, storage.appearing(tmp_path / "big.json") as file:
            file.write_text("x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.problems[0].kind is errors.DISK_FULL
    assert list(tmp_path.iterdir()) == []


def test_an_operation_that_goes_elsewhere_takes_nothing_along(desk: Desk, flow: Path) -> None:
    elsewhere = desk.folder / "elsewhere"
    elsewhere.mkdir()
    desk.write("ops.py", OPS.replace('leave_room("task")', f"os.chdir({str(elsewhere)!r})"))
    typed = desk.cenote("run", flow.name, "--out", "out")
    assert typed.returncode == 0, typed.stderr
    assert "out/report.html" in typed.stdout
    assert list(elsewhere.iterdir()) == []
    here = Path.cwd()
    assert cenote.load(flow).run(desk.folder / "again").status == "succeeded"
    assert Path.cwd() == here
    assert RunFolder(desk.folder / "again").summary.is_file()


def test_a_disk_without_inodes_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    plenty = storage.problem_of(full, tmp_path / "new.json")
    real = os.statvfs(tmp_path)
    none_left = os.statvfs_result((*real[:5], 4096, 0, 0, *real[8:]))  # files, free ones, free ones for us
    monkeypatch.setattr(os, "statvfs", lambda _path: none_left)
    used_up = storage.problem_of(full, tmp_path / "new.json")
    assert plenty is not None
    assert used_up is not None
    assert plenty.details[0].endswith(" are free there")
    assert "inodes" not in plenty.details[0]
    assert used_up.details[0].startswith("there are no inodes left for another file (4096 are in use), though ")
