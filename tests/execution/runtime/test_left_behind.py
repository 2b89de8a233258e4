"""Jobs are told from those of runs that go on: by the lock, by the driver's pulse, and by who owns the folder now."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pydantic import PrivateAttr

from cenote.common.errors import BATCH_SYSTEM, CenoteError, error
from cenote.engine.messages import RunStarted
from cenote.execution.launch import Launch, RunLocation
from cenote.execution.runs.driver.left_behind import (
    DriverStatus,
    Leftover,
    Search,
    driver_status,
    find_left_behind,
    remove_jobs,
)
from cenote.execution.runs.folder import LOCK, PULSE_SECONDS, Pulse, RunFolder, last_beat
from cenote.execution.runs.journal import Journal
from cenote.execution.strategies.interface import JobId, JobStatus, Strategy, TracedJob

HERE = socket.gethostname()
NOW = time.time()


@pytest.fixture(scope="module")
def dead() -> str:
    """The number of a process that is gone."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return str(process.pid)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run, and then it was resumed; nothing drives it now."""
    folder = RunFolder(tmp_path / "out")
    folder.prepare()
    for run in ("first", "second"):
        started(folder.path, run)
    folder.lock().close()
    return folder.path


def started(folder: Path, run: str) -> None:
    journal = Journal(folder)
    journal.write([RunStarted(at=1.0, run=run, tasks=1)])
    journal.close()


def driven_from_afar(folder: Path, *, ago: float) -> None:
    """The lock of another machine is not seen here, its pulse is."""
    (folder / LOCK).write_text("4711 on elsewhere")
    os.utime(folder / LOCK, (NOW - ago, NOW - ago))


def standing(run: str, home: RunLocation) -> DriverStatus:
    return driver_status(run, home, now=NOW)


def test_a_run_whose_lock_is_held_goes_on(folder: Path, dead: str) -> None:
    with RunFolder(folder).lock():
        assert standing("second", RunLocation(HERE, folder, dead)) is DriverStatus.DRIVEN
    assert standing("second", RunLocation(HERE, folder, dead)) is DriverStatus.OVER


def test_jobs_of_a_run_that_was_resumed_do_not_belong_to_the_one_that_goes_on(folder: Path, dead: str) -> None:
    with RunFolder(folder).lock():
        assert standing("first", RunLocation(HERE, folder, dead)) is DriverStatus.OVER


def test_a_driver_on_another_machine_is_alive_as_long_as_its_pulse_beats(folder: Path) -> None:
    home = RunLocation("elsewhere", folder, "4711")
    driven_from_afar(folder, ago=PULSE_SECONDS)
    assert standing("second", home) is DriverStatus.DRIVEN
    driven_from_afar(folder, ago=100 * PULSE_SECONDS)
    assert standing("second", home) is DriverStatus.OVER


def test_a_folder_that_is_not_seen_from_here_tells_nothing(tmp_path: Path, folder: Path) -> None:
    assert standing("second", RunLocation("elsewhere", tmp_path / "not here", "4711")) is DriverStatus.UNKNOWN
    assert standing("another of this name", RunLocation("elsewhere", folder, "4711")) is DriverStatus.UNKNOWN
    assert driver_status("second", None, now=NOW) is DriverStatus.UNKNOWN


def test_a_folder_of_this_machine_that_is_gone_leaves_the_process_to_ask_for(tmp_path: Path, dead: str) -> None:
    gone = tmp_path / "removed"
    assert standing("second", RunLocation(HERE, gone, dead)) is DriverStatus.OVER
    assert standing("second", RunLocation(HERE, gone, str(os.getpid()))) is DriverStatus.DRIVEN


def test_the_pulse_beats_now_and_then(folder: Path) -> None:
    times = iter([0.0, 1.0, PULSE_SECONDS, PULSE_SECONDS, PULSE_SECONDS + 1.0])
    driven_from_afar(folder, ago=500.0)
    pulse = Pulse(RunFolder(folder), lambda: next(times))
    pulse()
    assert last_beat(folder) == pytest.approx(NOW - 500.0)
    pulse()
    beat = last_beat(folder)
    assert beat is not None
    assert beat > NOW - 60.0


class Desk(Strategy):
    """A batch system with these jobs; those called `stubborn` stay, those called `slow` are on their way out."""

    jobs: tuple[TracedJob, ...] = ()
    silent: bool = False

    _gone: list[JobId] = PrivateAttr(default_factory=list)

    def trace(self, run: str | None = None) -> list[TracedJob]:
        if self.silent:
            raise error(BATCH_SYSTEM, "it does not answer")
        return [job for job in self._now() if run in (None, job.run)]

    def _now(self) -> Iterator[TracedJob]:
        for job in self.jobs:
            if job.job not in self._gone or job.worker == "stubborn":
                yield job
            elif job.worker == "slow":
                yield TracedJob(job.job, job.run, job.pool, job.worker, "COMPLETING", home=job.home)

    def cancel(self, jobs: Sequence[JobId]) -> None:
        self._gone.extend(jobs)

    def render(self, launch: Launch, workers: Sequence[str]) -> list[str]:
        raise NotImplementedError

    def submit(self, launch: Launch, workers: Sequence[str]) -> list[JobId]:
        raise NotImplementedError

    def poll(self, jobs: Sequence[JobId]) -> dict[JobId, JobStatus]:
        raise NotImplementedError


def a_job(number: int, run: str, folder: Path, *, worker: str = "cpu-1", host: str = HERE) -> TracedJob:
    return TracedJob(JobId(str(number)), run, "cpu", worker, "PENDING", 1.0, RunLocation(host, folder, ""))


def ids(jobs: tuple[Leftover, ...]) -> list[str]:
    return [one.job.job for one in jobs]


def test_a_folder_finds_its_jobs_of_all_its_runs_also_when_it_was_moved_or_used_again(folder: Path) -> None:
    moved = folder.rename(folder.with_name("moved"))
    strategy = Desk(
        jobs=(
            a_job(1, "first", folder),
            a_job(2, "second", folder),
            a_job(3, "replaced since", moved),
            a_job(4, "another", folder.with_name("other")),
        )
    )
    found = find_left_behind(Search(moved), strategies={"desk": strategy})
    assert sorted(ids(found.of(DriverStatus.OVER))) == ["1", "2", "3"]
    assert ids(find_left_behind(Search(run="second"), strategies={"desk": strategy}).jobs) == ["2"]
    assert len(find_left_behind(Search(), strategies={"desk": strategy}).jobs) == 4


def test_a_folder_without_a_run_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(CenoteError, match="holds no run"):
        find_left_behind(Search(tmp_path), strategies={})


def test_a_silent_batch_system_does_not_hide_what_the_others_know(folder: Path) -> None:
    strategies = {"down": Desk(silent=True), "up": Desk(jobs=(a_job(1, "second", folder),))}
    found = find_left_behind(Search(), strategies=strategies)
    assert ids(found.jobs) == ["1"]
    assert found.silent["down"].message == "it does not answer"


def torn_writes(folder: Path) -> list[Path]:
    """What processes leave that are killed while they write, each in its own way."""
    script = (
        "import os, signal, sys; from pathlib import Path; from cenote import storage\n"
        "target = Path(sys.argv[1]); target.parent.mkdir(parents=True, exist_ok=True)\n"
        "with storage.appearing(target, under_its_name=bool(sys.argv[2])) as path:\n"
        "    path.write_text('half'); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    targets = [("summary.json", ""), ("report.html", ""), ("work/ab/abcd", ""), ("products/skim/0.root", "yes")]
    for name, own in targets:
        subprocess.run([sys.executable, "-c", script, str(folder / name), own], check=False)
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.read_bytes() == b"half")


def test_half_written_files_of_a_run_that_is_over_are_found_and_those_of_one_that_goes_on_are_not(folder: Path) -> None:
    torn = torn_writes(folder)
    for file in (folder / "work" / "ab" / "abcd", folder / "products" / "Pt.json", folder / "products" / ".hidden"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    strategies = {"desk": Desk(jobs=(a_job(1, "first", folder),))}
    assert list(find_left_behind(Search(folder), strategies={}).files) == torn
    assert list(find_left_behind(Search(), strategies=strategies).files) == torn
    with RunFolder(folder).lock():
        assert find_left_behind(Search(folder), strategies={}).files == ()
        assert find_left_behind(Search(), strategies=strategies).files == ()


def test_removing_comes_back_with_jobs_that_do_not_care(folder: Path) -> None:
    strategy = Desk(
        jobs=(
            a_job(1, "second", folder),
            a_job(2, "second", folder, worker="stubborn"),
            a_job(3, "second", folder, worker="slow"),
        )
    )
    found = find_left_behind(Search(folder), strategies={"desk": strategy})
    moments = iter(range(0, 1000, 5))
    stayed = remove_jobs(
        found.jobs, strategies={"desk": strategy}, pause=lambda _: None, clock=lambda: float(next(moments))
    )
    assert ids(stayed) == ["2"]
    assert sorted(strategy._gone) == ["1", "2", "3"]


def test_a_number_that_went_to_the_job_of_another_run_is_left_alone(folder: Path) -> None:
    strategy = Desk(jobs=(a_job(1, "third", folder),))
    shown = Leftover(a_job(1, "second", folder), "desk", DriverStatus.OVER)
    assert remove_jobs([shown], strategies={"desk": strategy}) == ()
    assert strategy._gone == []


def test_scratch_folders_of_killed_workers_are_found_unless_a_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / f"cenote-{HERE}-gpu-1-abcd"
    left.mkdir()
    os.utime(left, (NOW - 3600, NOW - 3600))
    assert find_left_behind(Search(), strategies={}).scratch == (left,)
    assert find_left_behind(Search(folder), strategies={}).scratch == ()
