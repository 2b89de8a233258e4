"""Workers that are batch jobs: asked for again, refused, held, and lost with the batch system's own reason."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cenote.engine.messages import (
    AnyEvent,
    FailureInfo,
    JobChanged,
    TaskFailed,
    Warned,
    WorkerJoined,
    WorkerLost,
    WorkerRequested,
)
from cenote.execution.backends.interface import JoinedWorkers
from cenote.execution.launch import LOG, WORKER, Launch
from cenote.execution.runtime.job_queue import BackgroundCalls
from cenote.execution.runtime.worker_jobs import WorkerJobs
from cenote.execution.strategies.htcondor.strategy import HTCondor
from cenote.execution.strategies.interface import JobId, Strategy
from cenote.execution.strategies.slurm.file_transfer import FileTransfers
from cenote.execution.strategies.slurm.strategy import Slurm
from cenote.testing.launches import a_launch
from cenote.testing.scripted_shell import HANGS, AtOnce, Reply, ScriptedShell, complains, scripted_shell

DOWN = complains("sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)")
NEVER = complains("sbatch: error: Batch job submission failed: Requested node configuration is not available")


class Site:
    """A session that hears what the test says, workers from a played batch system, and a clock that the test turns."""

    def __init__(self, folder: Path, strategy: Strategy, errands: BackgroundCalls | None = None) -> None:
        self.now, self.strategy = 1000.0, strategy
        self.heard: list[AnyEvent] = []
        self.dropped: list[str] = []
        self.at_close: BaseException | None = None
        """What comes between when the session inside is closed."""
        walltime = ("--walltime", str(strategy.lifetime.seconds)) if strategy.lifetime else ()
        launch = a_launch("python", "--name", WORKER, "--log", LOG, *walltime, folder=folder)
        self.jobs = WorkerJobs(
            _Told(self),
            {"gpu": (launch, strategy)},
            clock=lambda: self.now,
            calls=errands or BackgroundCalls(AtOnce),
        )

    def events(self, *heard: AnyEvent, after: float = 0.0) -> list[AnyEvent]:
        """What comes out when this goes in, so many seconds later."""
        self.now += after
        self.heard += heard
        return self.jobs.events(0.0)

    def joined(self, worker: str = "gpu-1") -> WorkerJoined:
        return WorkerJoined(at=self.now, worker=worker, pool="gpu", slots=1)

    def gone(self, worker: str = "gpu-1") -> tuple[AnyEvent, AnyEvent]:
        """A worker that vanished, and the task that it had."""
        lost = WorkerLost(at=self.now, worker=worker, pool="gpu", reason="its worker was lost")
        failure = FailureInfo(cause="lost", message="its worker was lost")
        return lost, TaskFailed(at=self.now, task=0, pool="gpu", worker=worker, failure=failure)


class _Told(JoinedWorkers):
    def __init__(self, site: Site) -> None:
        self._site = site

    def events(self, seconds: float) -> list[AnyEvent]:
        del seconds
        heard, self._site.heard = self._site.heard, []
        return heard

    def drop(self, workers: Sequence[str]) -> None:
        self._site.dropped += workers

    def retire(self, workers: Sequence[str]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        if self._site.at_close is not None:
            raise self._site.at_close


@pytest.fixture
def shell() -> Iterator[ScriptedShell]:
    with scripted_shell(sbatch="7\n", squeue="7|RUNNING|None\n", scancel="", condor_submit="7.0 - 7.0\n") as played:
        played.says("condor_rm", "")
        yield played


def test_a_controller_that_is_down_is_asked_again_until_it_is_back(shell: ScriptedShell, tmp_path: Path) -> None:
    site = Site(tmp_path, Slurm())
    shell.says("sbatch", DOWN)
    site.jobs.start_workers("gpu", 1)
    (warning,) = site.events()
    assert isinstance(warning, Warned)
    assert "Unable to contact slurm controller" in warning.message
    for _ in range(12):
        assert site.events(after=5) == []
    shell.says("sbatch", "7\n")
    assert isinstance(site.events(after=5)[0], WorkerRequested)


def test_it_is_not_asked_for_ever(shell: ScriptedShell, tmp_path: Path) -> None:
    site = Site(tmp_path, Slurm())
    shell.says("sbatch", DOWN)
    site.jobs.start_workers("gpu", 1)
    site.events()
    (refused,) = site.events(after=601)
    assert isinstance(refused, WorkerLost)
    assert refused.cause == "refused"


def test_a_refusal_is_told_at_once_and_in_its_own_words(shell: ScriptedShell, tmp_path: Path) -> None:
    site = Site(tmp_path, Slurm())
    shell.says("sbatch", NEVER)
    site.jobs.start_workers("gpu", 2)
    refused = site.events()
    assert [event.cause for event in refused if isinstance(event, WorkerLost)] == ["refused", "refused"]
    assert "Requested node configuration is not available" in str(refused[0])


def test_the_news_of_a_lost_worker_waits_until_slurm_says_why(shell: ScriptedShell, tmp_path: Path) -> None:
    site = Site(tmp_path, Slurm())
    site.jobs.start_workers("gpu", 1)
    site.events(site.joined())
    assert site.events(*site.gone()) == []
    assert site.events(after=0.6) == []
    shell.says("squeue", "7|PREEMPTED|None\n")
    shell.says("scontrol", "JobId=7 JobState=PREEMPTED Reason=None ExitCode=0:15\n")
    lost, failed = [event for event in site.events(after=0.6) if not isinstance(event, JobChanged)]
    assert isinstance(lost, WorkerLost)
    assert (lost.cause, lost.reason) == ("preempted", "Slurm says PREEMPTED")
    assert isinstance(failed, TaskFailed)
    assert "Slurm says PREEMPTED" in failed.failure.message


def test_what_a_lost_worker_wrote_is_fetched_where_nodes_do_not_see_the_runs_folder(
    shell: ScriptedShell, tmp_path: Path
) -> None:
    site = Site(tmp_path, Slurm(transfer_files=True))
    site.strategy._transfers = FileTransfers(lambda: site.now, AtOnce())
    shell.says("squeue", *["7|RUNNING|None\n", "7|7\n"] * 20)
    shell.says("srun", *["here\nstarted\n"] * 7)
    site.jobs.start_workers("gpu", 1)
    site.events(site.joined())
    for _ in range(6):
        site.events(after=60)
    errors = base64.b64encode(b"Bus error\n").decode()
    shell.says("srun", f"here\nstarted\nended\nerr {errors}\n", "")
    assert site.events(*site.gone()) == []
    shell.says("squeue", "7|FAILED|NonZeroExitCode\n")
    shell.says("scontrol", "JobId=7 JobState=FAILED Reason=NonZeroExitCode ExitCode=0:7\n")
    lost, _ = [event for event in site.events(after=0.6) if not isinstance(event, JobChanged)]
    assert isinstance(lost, WorkerLost)
    assert (lost.cause, lost.log) == ("crashed", "Bus error")


def test_a_worker_whose_job_goes_on_without_it_is_told_of_after_a_while_and_its_job_cancelled(
    shell: ScriptedShell, tmp_path: Path
) -> None:
    site = Site(tmp_path, Slurm())
    site.jobs.start_workers("gpu", 1)
    site.events(site.joined())
    assert site.events(*site.gone()) == []
    told = site.events(after=5)
    assert [type(event) for event in told if not isinstance(event, JobChanged)] == [WorkerLost, TaskFailed]
    assert ("scancel", "7") in shell.typed


def test_a_held_job_is_removed_and_its_worker_told_of(shell: ScriptedShell, tmp_path: Path) -> None:
    site = Site(tmp_path, HTCondor())
    site.jobs.start_workers("gpu", 1)
    held = {"ClusterId": 7, "ProcId": 0, "JobStatus": 5, "HoldReason": "disk quota", "HoldReasonCode": 13}
    shell.says("condor_q", Reply(json.dumps([held])))
    told = site.events(after=5)
    assert [type(event) for event in told] == [WorkerRequested, JobChanged, WorkerLost]
    assert "disk quota" in str(told[-1])
    assert ("condor_rm", "7.0") in shell.typed


def test_a_worker_knows_its_walltime_and_the_engine_when_it_will_leave(shell: ScriptedShell, tmp_path: Path) -> None:
    site = Site(tmp_path, Slurm.model_validate({"walltime": "1h"}))
    site.jobs.start_workers("gpu", 1)
    assert "--walltime 3600" in shell.inputs[0]
    joined = next(event for event in site.events(site.joined()) if isinstance(event, WorkerJoined))
    assert joined.leaves == site.now + 3300


def test_a_worker_that_left_before_its_walltime_is_no_failure(shell: ScriptedShell, tmp_path: Path) -> None:
    site = Site(tmp_path, Slurm.model_validate({"walltime": "1h"}))
    site.jobs.start_workers("gpu", 1)
    site.events(site.joined())
    shell.says("squeue", "7|COMPLETED|None\n")
    shell.says("scontrol", "JobId=7 JobState=COMPLETED Reason=None ExitCode=0:0\n")
    gone = WorkerLost(at=site.now, worker="gpu-1", pool="gpu", reason="its walltime is nearly over", cause="walltime")
    lost = next(event for event in site.events(gone) if isinstance(event, WorkerLost))
    assert (lost.cause, lost.reason) == ("walltime", "its walltime is nearly over")


def test_a_worker_that_does_not_answer_is_dropped_and_its_job_cancelled_so_that_it_never_comes_back(
    shell: ScriptedShell, tmp_path: Path
) -> None:
    site = Site(tmp_path, Slurm())
    site.jobs.start_workers("gpu", 1)
    site.events(site.joined())
    site.jobs.end_workers("gpu", ("gpu-1", "never-there"), "it did not answer for 1m")
    told = site.events(*site.gone())
    assert site.dropped == ["gpu-1"]
    assert ("scancel", "7") in shell.typed
    lost, failed = told[-2:]
    assert isinstance(lost, WorkerLost)
    assert (lost.cause, lost.reason) == ("silent", "it did not answer for 1m")
    assert isinstance(failed, TaskFailed)
    assert failed.failure.message == "its worker gpu-1 was lost: it did not answer for 1m"


def test_a_job_that_runs_and_brings_no_worker_is_given_up_with_what_it_wrote(
    shell: ScriptedShell, tmp_path: Path
) -> None:
    site = Site(tmp_path, Slurm.model_validate({"join_timeout": "2m"}))
    site.jobs.start_workers("gpu", 1)
    (tmp_path / "err" / "gpu-1").write_text("waiting for a file system that hangs\n")
    site.events(after=5)
    assert not [event for event in site.events(after=115) if isinstance(event, WorkerLost)]
    (lost,) = [event for event in site.events(after=10) if isinstance(event, WorkerLost)]
    assert lost.reason == "its job 7 has run for 2m, and it has not joined"
    assert lost.log == "waiting for a file system that hangs"
    assert ("scancel", "7") in shell.typed


def test_a_job_whose_walltime_is_over_before_its_worker_joined_is_a_failure_though(
    shell: ScriptedShell, tmp_path: Path
) -> None:
    site = Site(tmp_path, Slurm.model_validate({"walltime": "60s"}))
    site.jobs.start_workers("gpu", 1)
    shell.says("squeue", "7|TIMEOUT|TimeLimit\n")
    shell.says("scontrol", "JobId=7 JobState=TIMEOUT Reason=TimeLimit ExitCode=0:15\n")
    lost = site.events()[-1]
    assert isinstance(lost, WorkerLost)
    assert (lost.cause, lost.reason) == ("died", "it never joined: Slurm says TIMEOUT (TimeLimit)")


def test_a_job_that_waits_in_the_queue_is_not_given_up_for_not_joining(shell: ScriptedShell, tmp_path: Path) -> None:
    site = Site(tmp_path, Slurm.model_validate({"join_timeout": "2m"}))
    shell.says("squeue", "7|PENDING|Priority\n")
    site.jobs.start_workers("gpu", 1)
    for _ in range(20):
        assert not [event for event in site.events(after=60) if isinstance(event, WorkerLost)]


def test_a_batch_system_that_hangs_does_not_stop_the_driver(tmp_path: Path) -> None:
    answer = threading.Event()

    class Slow(Slurm):
        def submit(self, launch: Launch, workers: Sequence[str]) -> list[JobId]:
            answer.wait()
            return super().submit(launch, workers)

    with scripted_shell(sbatch="7\n", squeue="7|RUNNING|None\n", scancel="") as shell:
        site = Site(tmp_path, Slow(), errands=BackgroundCalls())
        site.jobs.start_workers("gpu", 1)
        assert site.events() == []
        answer.set()
        site.jobs.close()
        assert ("scancel", "7") in shell.typed


def test_the_queue_is_not_asked_more_often_than_the_setting_says(shell: ScriptedShell, tmp_path: Path) -> None:
    site = Site(tmp_path, Slurm.model_validate({"poll_every": "10s"}))
    site.jobs.start_workers("gpu", 1)
    for _ in range(100):
        site.events(after=0.25)
    assert shell.times("squeue") == 3


def test_closing_cancels_every_job_that_is_not_known_to_be_over(shell: ScriptedShell, tmp_path: Path) -> None:
    site = Site(tmp_path, Slurm())
    site.jobs.start_workers("gpu", 1)
    site.jobs.close()
    assert ("scancel", "7") in shell.typed


def test_closing_cancels_them_also_when_somebody_presses_ctrl_c_once_more(shell: ScriptedShell, tmp_path: Path) -> None:
    site = Site(tmp_path, Slurm())
    site.jobs.start_workers("gpu", 1)
    site.at_close = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        site.jobs.close()
    assert ("scancel", "7") in shell.typed


def test_at_the_end_nobody_waits_for_the_output_of_workers_that_never_joined(
    shell: ScriptedShell, tmp_path: Path
) -> None:
    shell.says("squeue", "7_1|RUNNING|None\n7_2|PENDING|Priority\n", "", "7_1|COMPLETED|None\n7_2|CANCELLED|None\n")
    shell.says("scontrol", complains("Invalid job id specified"))
    site = Site(tmp_path, Slurm(transfer_files=True))
    site.jobs.start_workers("gpu", 2)
    site.events(site.joined("gpu-1"))
    site.now += 60
    site.jobs.close()
    assert [words for words in shell.typed if words[0] == "scancel"] == [("scancel", "7_2")]


def test_at_the_end_nobody_is_asked_for_any_more(shell: ScriptedShell, tmp_path: Path) -> None:
    ad = {"ClusterId": 7, "ProcId": 0, "JobStatus": 4, "ExitCode": 0}
    down = complains("Failed to connect")
    shell.says("condor_q", down, down, json.dumps([ad]))
    shell.says("condor_submit", "7.0 - 7.0\n", complains("ERROR: Failed to connect to queue manager"))
    site = Site(tmp_path, HTCondor(transfer_files=True))
    site.jobs.start_workers("gpu", 1)
    site.jobs.start_workers("gpu", 1)
    site.events()
    site.now += 60
    site.jobs.close()
    assert shell.times("condor_submit") == 2


def test_a_job_that_was_taken_after_nobody_waited_for_the_answer_any_more_is_found_at_the_end(
    shell: ScriptedShell, tmp_path: Path
) -> None:
    shell.says("sbatch", HANGS)
    shell.says("squeue", "9|PENDING|N/A|cenote-r1-gpu-1|(null)\n8|PENDING|N/A|cenote-r2-gpu-1|(null)\n")
    site = Site(tmp_path, Slurm())
    site.jobs.start_workers("gpu", 1)
    site.events()
    site.jobs.close()
    assert shell.typed[-1] == ("scancel", "9")
