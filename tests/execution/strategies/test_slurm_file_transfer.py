"""Slurm nodes that do not see the files of this machine: they are brought there, and what workers printed comes back.

The jobs' own shell runs here, for real; only Slurm's commands are played.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cenote.common import shell
from cenote.common.shell import FinishedProcess
from cenote.execution.launch import LOG, WORKER, Launch, NodeVariable, Part, Sent, SentFile, Word
from cenote.execution.start_failures import StartFailure
from cenote.execution.strategies.interface import OVER, JobId, JobState, JobStatus
from cenote.execution.strategies.slurm import file_transfer, node_shell
from cenote.execution.strategies.slurm.file_transfer import FileTransfers
from cenote.execution.strategies.slurm.node_shell import folder_of
from cenote.execution.strategies.slurm.strategy import Slurm
from cenote.testing.launches import a_launch
from cenote.testing.scripted_shell import HANGS, AtOnce, Reply, complains, scripted_shell

SECRET = "-----BEGIN PRIVATE KEY-----"
FIRST = 4711
RUNNING = {"sbatch": "7\n", "squeue": ["7|RUNNING|None\n", "7|7\n"] * 200, "scancel": ""}


class PlayedSlurm:
    """A cluster whose only node is this machine."""

    def __init__(self) -> None:
        self.jobs: dict[str, subprocess.Popen[bytes]] = {}
        self.typed: list[tuple[str, ...]] = []

    def run_command(self, command: Sequence[str], *, given: str = "", **_: Any) -> FinishedProcess:
        """Takes the place of the real one."""
        self.typed.append(tuple(command))
        answer: Callable[[Sequence[str], str], FinishedProcess] = getattr(self, command[0])
        return answer(command, given)

    def sbatch(self, command: Sequence[str], given: str) -> FinishedProcess:
        del command
        (array,) = [line.partition("=1-")[2] for line in given.splitlines() if "--array" in line] or [""]
        for index in range(int(array or 1)):
            number = str(FIRST + index)
            of_slurm = {"SLURM_JOB_ID": number, "SLURM_ARRAY_TASK_ID": str(index + 1)}
            quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            self.jobs[f"{FIRST}_{index + 1}" if array else number] = subprocess.Popen(
                ["bash", "-c", given], env={**os.environ, **of_slurm}, start_new_session=True, cwd="/", **quiet
            )
        return said(f"{FIRST}\n")

    def squeue(self, command: Sequence[str], given: str) -> FinishedProcess:
        del given
        running = [job for job, process in self.jobs.items() if process.poll() is None]
        if "--format=%i|%A" in command:
            return said("".join(f"{job}|{self.number(job)}\n" for job in running))
        return said("".join(f"{job}|RUNNING|None\n" for job in running))

    def scontrol(self, command: Sequence[str], given: str) -> FinishedProcess:
        del command, given
        lines = []
        for job, process in self.jobs.items():
            code = process.returncode
            if code is not None:
                array = f" ArrayJobId={FIRST} ArrayTaskId={job.partition('_')[2]}" if "_" in job else ""
                state, ended = "FAILED" if code else "COMPLETED", f"{max(code, 0)}:{max(-code, 0)}"
                lines.append(f"JobId={self.number(job)}{array} JobState={state} Reason=None ExitCode={ended}")
        return said("\n".join(lines))

    def scancel(self, command: Sequence[str], given: str) -> FinishedProcess:
        del command, given
        for process in self.jobs.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        return said("")

    def srun(self, command: Sequence[str], given: str) -> FinishedProcess:
        assert f"--jobid={FIRST}" in command or "_" not in command[1]
        return subprocess.run(command[-2:], input=given, capture_output=True, text=True, timeout=20, check=False)

    def sbcast(self, command: Sequence[str], given: str) -> FinishedProcess:
        del given
        shutil.copyfile(*command[-2:])
        return said("")

    def number(self, job: str) -> str:
        """The one that a job has for itself."""
        return str(FIRST + int(job.partition("_")[2]) - 1) if "_" in job else job

    def end(self) -> None:
        """Nothing is left."""
        for process in self.jobs.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def said(text: str) -> FinishedProcess:
    return FinishedProcess([], 0, text, "")


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedSlurm]:
    slurm = PlayedSlurm()
    monkeypatch.setattr(shell, "run_command", slurm.run_command)
    yield slurm
    slurm.end()


@pytest.fixture
def run() -> Iterator[str]:
    """The id of a run, whose folders on the node are gone afterwards."""
    run = uuid.uuid4().hex[:12]
    yield run
    for left in Path("/tmp").glob(f"cenote-job-{run}-*"):
        shutil.rmtree(left)


def launch(folder: Path, run: str, program: str, *more: Part | Word, setup: str = ":") -> Launch:
    """Workers that are a shell: `$0` is their name, `$1` the secret file, `$2` their log."""
    identity, archive = folder / f"{run}.pem", folder / "environment.tar.zst"
    identity.write_text(SECRET)
    identity.chmod(0o600)
    archive.write_bytes(bytes(range(256)) * 1000)
    made = a_launch(
        *("/bin/sh", "-c", program, WORKER, Sent(identity.name), LOG),
        *more,
        run=run,
        folder=folder,
        setup=((setup,),),
        variables={"ARCHIVE": str(archive)},
        files=(SentFile(identity), SentFile(archive, on_demand=True)),
    )
    made.run.make_folders()
    return made


def strategy(**settings: object) -> Slurm:
    return Slurm.model_validate({"transfer_files": True, **settings})


def until_over(made: Slurm, jobs: Sequence[JobId]) -> dict[JobId, JobStatus]:
    """Poll until all jobs are over."""
    found: dict[JobId, JobStatus] = {}
    for _ in range(300):
        found |= made.poll(jobs)
        if found and all(status.state in OVER for status in found.values()):
            return found
        time.sleep(0.1)
    raise AssertionError(found)


def printed(launch: Launch, worker: str) -> dict[str, str]:
    files = {stream: launch.run.folder(stream) / worker for stream in ("out", "err", "logs")}
    return {stream: file.read_text() for stream, file in files.items() if file.exists()}


def until(true: Callable[[], bool]) -> None:
    for _ in range(300):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError


@pytest.mark.usefixtures("played")
def test_a_worker_finds_its_files_and_what_it_printed_comes_back_if_it_fails(tmp_path: Path, run: str) -> None:
    made = strategy()
    wanted = launch(tmp_path, run, 'echo "$0 $PWD"; cat "$1"; ls -l "$1" >&2; echo logged >"$2"; exit 3')
    (job,) = made.submit(wanted, ["gpu-1"])
    status = until_over(made, [job])[job]
    assert status.reason == "it ended with exit code 3"
    there = folder_of(run, job)
    assert printed(wanted, "gpu-1")["out"] == f"gpu-1 {there}/work\n{SECRET}"
    assert printed(wanted, "gpu-1")["err"].startswith("-rw------- ")
    assert printed(wanted, "gpu-1")["logs"] == "logged\n"
    assert not Path(there).exists()


@pytest.mark.usefixtures("played")
def test_what_a_worker_printed_that_left_the_run_comes_back(tmp_path: Path, run: str) -> None:
    made = strategy()
    wanted = launch(tmp_path, run, 'echo begins; until [ -e "$3" ]; do sleep 0.1; done; echo ends', (f"{tmp_path}/go",))
    (job,) = made.submit(wanted, ["gpu-1"])
    until(lambda: bool(made.poll([job])) and printed(wanted, "gpu-1").get("out") == "begins\n")
    made.workers_left([job])
    assert made.seconds_between_polls == 1
    (tmp_path / "go").touch()
    assert until_over(made, [job])[job].state is JobState.ENDED
    assert printed(wanted, "gpu-1") == {"out": "begins\nends\n", "err": ""}


def test_a_worker_that_was_killed_by_a_signal_ends_so(tmp_path: Path, run: str, played: PlayedSlurm) -> None:
    made = strategy()
    (job,) = made.submit(launch(tmp_path, run, "echo so far >&2; kill -9 $$"), ["gpu-1"])
    assert until_over(made, [job])[job].reason == "it was killed by SIGKILL"
    assert played.jobs[job].returncode == -9
    assert (tmp_path / "err" / "gpu-1").read_text() == "so far\n"


def test_secrets_are_neither_in_a_script_nor_on_a_command_line(tmp_path: Path, run: str, played: PlayedSlurm) -> None:
    made = strategy()
    wanted = launch(tmp_path, run, "exit 0")
    until_over(made, made.submit(wanted, ["gpu-1"]))
    assert SECRET not in "".join(made.render(wanted, ["gpu-1"]))
    assert SECRET not in str(played.typed)
    assert played.typed


def test_each_worker_of_an_array_is_visited_by_its_own_number(tmp_path: Path, run: str, played: PlayedSlurm) -> None:
    made = strategy()
    wanted = launch(tmp_path, run, 'echo "$0"; exit 3')
    names = ["gpu-1", "gpu-2", "gpu-3"]
    until_over(made, made.submit(wanted, names))
    assert [printed(wanted, name)["out"] for name in names] == ["gpu-1\n", "gpu-2\n", "gpu-3\n"]
    visited = {word for words in played.typed for word in words if word.startswith("--jobid=")}
    assert visited == {f"--jobid={FIRST + index}" for index in range(3)}


def test_what_is_fetched_on_demand_is_sent_when_a_job_asks_and_not_before(
    tmp_path: Path, run: str, played: PlayedSlurm
) -> None:
    made, here = strategy(), tmp_path / "on the node"
    (job,) = made.submit(launch(tmp_path, run, "exit 0"), ["gpu-1"])
    until_over(made, [job])
    assert "sbcast" not in {words[0] for words in played.typed}
    fetch = f'eval "$CENOTE_FETCH \\"\\$ARCHIVE\\" \\"{here}\\"" || exit 81'
    (job,) = made.submit(launch(tmp_path, run, "exit 0", setup=fetch), ["gpu-1"])
    assert until_over(made, [job])[job].state is JobState.ENDED
    assert here.read_bytes() == (tmp_path / "environment.tar.zst").read_bytes()
    (sent,) = [words for words in played.typed if words[0] == "sbcast"]
    assert sent == ("sbcast", f"--jobid={FIRST}", "--force", str(tmp_path / "environment.tar.zst"), str(here))


def test_an_archive_that_cannot_be_sent_is_told_on_the_node(
    tmp_path: Path, run: str, played: PlayedSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = "sbcast: error: REQUEST_FILE_BCAST(n1): No space left on device"
    monkeypatch.setattr(played, "sbcast", lambda *_: FinishedProcess([], 1, "", full))
    wanted = launch(tmp_path, run, "exit 0", setup='eval "$CENOTE_FETCH \\"\\$ARCHIVE\\" here" || exit 81')
    made = strategy()
    (job,) = made.submit(wanted, ["gpu-1"])
    assert StartFailure.NO_ARCHIVE.value.words in until_over(made, [job])[job].reason
    assert printed(wanted, "gpu-1")["err"] == f"{full}\n"
    assert [words[0] for words in played.typed].count("sbcast") == 2


def test_a_job_waits_for_an_archive_no_longer_than_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "fetch").write_text(node_shell._FETCH)
    command = ["sh", str(tmp_path / "fetch"), "1", "/environment.tar.zst", "here"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (1, "it was not brought within 1 s\n")


@pytest.mark.usefixtures("played")
def test_a_job_gets_no_other_file_than_those_of_its_pool(tmp_path: Path, run: str) -> None:
    (tmp_path / "diary").write_text("mine")
    wanted = launch(tmp_path, run, "exit 0", setup=f'eval "$CENOTE_FETCH {tmp_path}/diary here" || exit 81')
    made = strategy()
    (job,) = made.submit(wanted, ["gpu-1"])
    until_over(made, [job])
    assert printed(wanted, "gpu-1")["err"] == f"{tmp_path}/diary is not a file of this pool\n"


def test_a_cancelled_job_leaves_nothing_on_its_node(tmp_path: Path, run: str, played: PlayedSlurm) -> None:
    made, begun = strategy(), tmp_path / "begun"
    wanted = launch(tmp_path, run, ': >"$3"; exec sleep 60', (str(begun),))
    (job,) = made.submit(wanted, ["gpu-1"])
    until(lambda: bool(made.poll([job])) and begun.exists())
    made.cancel([job])
    assert played.jobs[job].wait(timeout=20) == -signal.SIGTERM
    assert not Path(folder_of(run, job)).exists()


def test_a_job_that_waits_for_files_can_be_cancelled(tmp_path: Path, run: str, played: PlayedSlurm) -> None:
    made = strategy()
    (job,) = made.submit(launch(tmp_path, run, "exit 0"), ["gpu-1"])
    until(Path(folder_of(run, job), "lock").exists)
    made.cancel([job])
    played.jobs[job].wait(timeout=20)
    assert not Path(folder_of(run, job)).exists()


def test_a_folder_that_somebody_made_before_is_not_trusted(tmp_path: Path, run: str, played: PlayedSlurm) -> None:
    Path(folder_of(run, str(FIRST))).mkdir()
    made = strategy()
    (job,) = made.submit(launch(tmp_path, run, "exit 0"), ["gpu-1"])
    assert played.jobs[job].wait(timeout=20) == StartFailure.NO_JOB_FOLDER.value.code
    assert StartFailure.NO_JOB_FOLDER.value.words in made.poll([job])[job].reason


def test_what_a_killed_job_left_is_removed_by_the_next_one(tmp_path: Path, run: str, played: PlayedSlurm) -> None:
    made, begun = strategy(), tmp_path / "begun"
    wanted = launch(tmp_path, run, ': >"$3"; exec sleep 60', (str(begun),))
    left = made.submit(wanted, ["gpu-1", "gpu-2"])
    until(lambda: bool(made.poll(left)) and Path(folder_of(run, str(FIRST)), "started").exists())
    os.killpg(played.jobs[left[0]].pid, signal.SIGKILL)
    played.jobs[left[0]].wait()
    assert stat.S_IMODE(Path(folder_of(run, str(FIRST))).stat().st_mode) == 0o700
    of_slurm = {"SLURM_JOB_ID": "9999"}
    (text,) = made.render(wanted, ["gpu-3"])
    third = subprocess.Popen(["bash", "-c", text], env={**os.environ, **of_slurm}, cwd="/", start_new_session=True)
    until(lambda: not Path(folder_of(run, str(FIRST))).exists())
    assert Path(folder_of(run, str(FIRST + 1))).exists()  # that one is at work
    third.terminate()
    third.wait(timeout=20)


def test_a_job_waits_for_its_files_no_longer_than_workers_may_take_to_join(tmp_path: Path, run: str) -> None:
    (text,) = strategy(join_timeout="1s").render(launch(tmp_path, run, "exit 0"), ["gpu-1"])
    done = subprocess.run(["bash", "-c", text], env={**os.environ, "SLURM_JOB_ID": "1"}, timeout=30, check=False)
    assert done.returncode == StartFailure.NO_FILES.value.code


# what Slurm's commands may do


class Clock:
    """A clock that somebody else turns."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def with_clock(**settings: object) -> tuple[Slurm, Clock]:
    made, clock = strategy(**settings), Clock()
    made._clock = clock
    made._transfers = FileTransfers(clock, AtOnce())
    return made, clock


@pytest.mark.parametrize("broken", [HANGS, complains("srun: error: Unable to create step: Access denied")])
def test_a_job_that_cannot_be_visited_is_given_up_after_a_minute(tmp_path: Path, broken: Reply) -> None:
    made, clock = with_clock()
    with scripted_shell(**RUNNING, srun=broken) as typed:
        (job,) = made.submit(launch(tmp_path, "r1", "exit 0"), ["gpu-1"])
        assert made.poll([job])[job].state is JobState.RUNNING
        clock.now += 59
        assert made.poll([job])[job].state is JobState.RUNNING
        clock.now += 2
        status = made.poll([job])[job]
    assert status.state is JobState.FAILED
    assert status.needs_cancel
    assert status.reason.startswith("its files cannot be sent to its node: srun")
    assert typed.times("srun") == 3


def test_a_machine_without_srun_sends_nothing_and_says_so_at_once(tmp_path: Path) -> None:
    made, _ = with_clock()
    with scripted_shell(**RUNNING):
        (job,) = made.submit(launch(tmp_path, "r1", "exit 0"), ["gpu-1"])
        status = made.poll([job])[job]
    assert (status.state, status.needs_cancel) == (JobState.FAILED, True)
    assert "srun" in status.reason


def test_somebody_elses_folder_gets_no_secret(tmp_path: Path) -> None:
    made, _ = with_clock()
    with scripted_shell(**RUNNING, srun="foreign\n"):
        (job,) = made.submit(launch(tmp_path, "r1", "exit 0"), ["gpu-1"])
        status = made.poll([job])[job]
    assert status.needs_cancel
    assert "another user" in status.reason


def test_jobs_that_wait_for_files_are_looked_at_often_and_others_as_the_setting_says(tmp_path: Path) -> None:
    made, clock = with_clock(poll_every="7s")
    assert made.seconds_between_polls == 7
    with scripted_shell(**RUNNING, srun=["absent\n", "here\n", "here\nstarted\n"]) as typed:
        (job,) = made.submit(launch(tmp_path, "r1", "exit 0"), ["gpu-1"])
        assert made.seconds_between_polls == 1
        clock.now += 1000
        assert made.seconds_between_polls == 7
        for _ in range(2):
            made.poll([job])
            assert made.seconds_between_polls == 1
        made.poll([job])
        clock.now += 2
        assert made.seconds_between_polls == 7
        for _ in range(100):
            clock.now += 7
            made.poll([job])
        assert typed.times("srun") == 9


def test_a_driver_that_is_a_job_itself_visits_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_NTASKS", "12")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    made, _ = with_clock()
    with scripted_shell(**RUNNING, env="here\nstarted\n") as typed:
        (job,) = made.submit(launch(tmp_path, "r1", "exit 0"), ["gpu-1"])
        made.poll([job])
    (visit,) = [words for words in typed.typed if words[0] == "env"]
    assert visit[:3] == ("env", "--unset=SLURM_NTASKS", "srun")


def test_calls_that_take_long_do_not_keep_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_transfer, "_THREADS", 2)
    calls = file_transfer._Daemons()
    assert [calls.submit(abs, -number).result(20) for number in range(5)] == list(range(5))
    with pytest.raises(ZeroDivisionError):
        calls.submit(divmod, 1, 0).result(20)


def test_names_of_variables_are_those_of_the_node(tmp_path: Path) -> None:
    (text,) = strategy().render(launch(tmp_path, "r1", "exit 0", NodeVariable("HOME")), ["gpu-1"])
    assert '"${CENOTE_JOB}"/files/r1.pem "${CENOTE_JOB}"/log "${HOME}"' in text
    assert str(tmp_path / "out") not in text
