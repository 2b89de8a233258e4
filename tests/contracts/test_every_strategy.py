"""Every strategy can be printed, takes workers, tells of jobs it never saw nothing that is wrong, and cancels twice."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cenote.engine.messages import JobState
from cenote.errors import CenoteError
from cenote.language.execution import Amounts
from cenote.launch import WORKER, Launch, Part, RunLocation
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind
from cenote.plugins.settings import meanings
from cenote.strategies.interface import JobId, Strategy
from cenote.testing.launches import a_launch
from cenote.testing.scripted_shell import HANGS, INTERRUPTED, complains, scripted_shell

EVERY = registry.built_in_names(PluginKind.STRATEGY)
IDLE = [{"ClusterId": 7, "ProcId": number, "JobStatus": 1, "NumJobStarts": 0} for number in range(2)]
HOME = RunLocation("login", Path("/some where/out"), "4711")


@contextmanager
def a_calm_batch_system() -> Iterator[None]:
    """Two workers are taken and wait; nothing else is known. A strategy that needs none of it does not ask."""
    with scripted_shell(
        sbatch="7\n",
        squeue="7_1|PENDING|Priority\n7_2|PENDING|Priority\n",
        scontrol=complains("slurm_load_jobs error: Invalid job id specified"),
        scancel="",
        condor_submit="7.0 - 7.1\n",
        condor_q=json.dumps(IDLE),
        condor_history="",
        condor_rm="",
    ):
        yield


@pytest.fixture(params=EVERY)
def strategy(request: pytest.FixtureRequest) -> Strategy:
    made: Strategy = registry.load(PluginKind.STRATEGY, request.param)()
    return made


WORKERS = ["gpu-1", "gpu-2"]


def launch(folder: Path, *command: Part, run: str = "r4nd0m") -> Launch:
    made = a_launch(
        *(command or ("sh", "-c", "sleep 30", WORKER)),
        run=run,
        folder=folder,
        location=HOME,
        resources=Amounts(cpus=3, memory=4_000_000_000, gpus=2),
        variables={"GREETING": 'it\'s a $dollar "day"'},
    )
    made.run.make_folders()
    return made


def test_what_it_submits_can_be_printed_and_printing_does_nothing(strategy: Strategy, tmp_path: Path) -> None:
    wanted = launch(tmp_path)
    with scripted_shell() as shell:
        (text,) = strategy.render(wanted, ["gpu-1"])
        assert strategy.render(wanted, ["gpu-1"]) == [text]
    assert shell.typed == []
    assert "gpu-1" in text
    assert "sleep" in text
    assert "GREETING" in text


def test_a_batch_job_says_whose_it_is_and_what_it_needs(strategy: Strategy, tmp_path: Path) -> None:
    if strategy.seconds_between_polls <= 1:
        pytest.skip("a process of this machine takes what it needs")
    (text,) = strategy.render(launch(tmp_path), ["gpu-1"])
    for words in (
        "r4nd0m",
        "gpu",
        "4711@login:/some%20where/out",
        str(tmp_path / "out" / "gpu-1"),
        str(tmp_path / "err" / "gpu-1"),
        "3815",
    ):
        assert words in text


def test_settings_carry_their_documentation(strategy: Strategy) -> None:
    assert meanings(type(strategy)).keys() == type(strategy).model_fields.keys()


def test_every_worker_gets_an_id_of_its_own_and_can_be_cancelled_twice(strategy: Strategy, tmp_path: Path) -> None:
    with a_calm_batch_system():
        jobs = strategy.submit(launch(tmp_path), WORKERS)
        try:
            assert len(set(jobs)) == 2
            states = {status.state for status in strategy.poll(jobs).values()}
            assert states <= {JobState.PENDING, JobState.RUNNING}
            assert states
        finally:
            strategy.cancel(jobs)
        strategy.cancel(jobs)
        strategy.cancel([])


@contextmanager
def jobs_of_two_runs(run: str) -> Iterator[None]:
    """What another driver left behind: two workers of the run that these tests speak of, and one of another run."""
    ad = {"JobStatus": 1, "QDate": 1_800_000_000, "CenotePool": "gpu", "CenoteHome": str(HOME)}
    ads = [
        {"ClusterId": 7, "ProcId": 0, "CenoteRun": run, "CenoteWorker": "gpu-1", **ad},
        {"ClusterId": 7, "ProcId": 1, "CenoteRun": run, "CenoteWorker": "gpu-2", **ad},
        {"ClusterId": 8, "ProcId": 0, "CenoteRun": "other", "CenoteWorker": "gpu-1", **ad},
    ]
    moment = "2027-01-15T08:00:00"
    with scripted_shell(
        squeue=f"7_1|PENDING|{moment}|cenote-{run}-gpu-1|cenote run={run} pool=gpu home={HOME}\n"
        f"7_2|PENDING|{moment}|cenote-{run}-gpu-1|cenote run={run} pool=gpu home={HOME}\n"
        f"8|PENDING|{moment}|cenote-other-gpu-1|cenote run=other pool=gpu home={HOME}\n"
        f"9|RUNNING|{moment}|somebody-elses|(null)\n",
        scancel="",
        condor_q=json.dumps(ads),
        condor_rm="",
    ):
        yield


def test_jobs_are_found_again_by_somebody_who_did_not_submit_them(strategy: Strategy, tmp_path: Path) -> None:
    another, run = type(strategy)(), uuid.uuid4().hex[:12]
    with a_calm_batch_system():
        wanted = launch(tmp_path, "sleep", "30", run=run)
        submitted = strategy.submit(wanted, WORKERS) if strategy.seconds_between_polls <= 1 else []
    try:
        with jobs_of_two_runs(run):
            found = another.trace(run)
            assert {(job.run, job.pool, job.worker, job.home) for job in found} == {
                (run, "gpu", "gpu-1", HOME),
                (run, "gpu", "gpu-2", HOME),
            }
            assert all(job.native and job.since for job in found)
            assert len({job.job for job in found}) == len(found)
            assert {job.job for job in found} <= {job.job for job in another.trace()}
            another.cancel([job.job for job in found])
    finally:
        with scripted_shell():
            strategy.cancel(submitted)
    if submitted:
        assert another.trace(run) == []


def test_a_batch_system_that_is_not_here_has_no_jobs_and_one_that_is_silent_is_told(strategy: Strategy) -> None:
    with scripted_shell():
        assert strategy.trace("no such run") == []
    if strategy.seconds_between_polls > 1:
        with scripted_shell(squeue=HANGS, condor_q=HANGS), pytest.raises(CenoteError, match="did not answer") as caught:
            strategy.trace()
        assert caught.value.problems[0].kind.name == "batch-system"


def test_a_job_that_it_never_saw_is_not_called_finished(strategy: Strategy) -> None:
    stranger = JobId("99999999.0" if type(strategy).__name__ == "HTCondor" else "99999999")
    with a_calm_batch_system():
        found = strategy.poll([stranger])
        strategy.cancel([stranger])
    assert {status.state for status in found.values()} <= {JobState.UNKNOWN}


def test_no_jobs_need_no_question(strategy: Strategy) -> None:
    with scripted_shell() as shell:
        assert strategy.poll([]) == {}
    assert shell.typed == []


def test_a_program_that_is_not_there_is_said_so_and_not_a_crash(strategy: Strategy, tmp_path: Path) -> None:
    if strategy.seconds_between_polls <= 1:
        pytest.skip("it calls no other program")
    with scripted_shell(), pytest.raises(CenoteError, match="on this machine") as caught:
        strategy.submit(launch(tmp_path), WORKERS)
    assert caught.value.problems[0].kind.name == "job-refused"
    with scripted_shell():
        assert strategy.poll([JobId("1")]) == {}
        strategy.cancel([JobId("1")])


def test_what_was_submitted_when_something_came_between_is_taken_back(strategy: Strategy, tmp_path: Path) -> None:
    run = uuid.uuid4().hex
    wanted = launch(tmp_path, "sleep", "30", run=run)
    with (
        scripted_shell(sbatch=INTERRUPTED, scancel="", condor_submit=INTERRUPTED, condor_rm="") as shell,
        pytest.raises((KeyboardInterrupt, FileNotFoundError)),
    ):
        strategy.submit(wanted, ["gpu-1", "no such folder/gpu-2"])
    if shell.typed:
        assert shell.typed[-1][0] in ("scancel", "condor_rm")
        assert run in shell.typed[-1][-1]
    else:
        assert strategy.trace(run) == []
