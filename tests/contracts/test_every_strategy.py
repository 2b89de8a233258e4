"""Every strategy can be printed, takes workers, tells of jobs it never saw nothing that is wrong, and cancels twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cenote.errors import CenoteError
from cenote.language.workflow import Amounts
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind
from cenote.strategies.interface import JobId, JobRequest, JobState, Strategy
from cenote.testing.scripted_shell import complains, scripted_shell

EVERY = registry.built_in_names(PluginKind.STRATEGY)
IDLE = [{"ClusterId": 7, "ProcId": number, "JobStatus": 1, "NumJobStarts": 0} for number in range(2)]


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


def requests(folder: Path, count: int = 2, **changes: Any) -> list[JobRequest]:
    for name in ("out", "err", "logs"):
        (folder / name).mkdir(exist_ok=True)
    return [
        JobRequest(
            **{
                "run": "r4nd0m",
                "pool": "gpu",
                "worker": f"gpu-{number}",
                "command": ("sh", "-c", "sleep 30", f"gpu-{number}"),
                "resources": Amounts(cpus=3, memory=4_000_000_000, gpus=2),
                "out": folder / "out" / f"gpu-{number}",
                "err": folder / "err" / f"gpu-{number}",
                "variables": {"GREETING": 'it\'s a $dollar "day"'},
                **changes,
            }
        )
        for number in range(1, count + 1)
    ]


def test_what_it_submits_can_be_printed_and_printing_does_nothing(strategy: Strategy, tmp_path: Path) -> None:
    (request,) = requests(tmp_path, 1)
    with scripted_shell() as shell:
        text = strategy.render(request)
        assert strategy.render(request) == text
        assert strategy.render_all([request]) == [text]
    assert shell.typed == []
    assert "gpu-1" in text
    assert "sleep" in text
    assert "GREETING" in text


def test_a_batch_job_says_whose_it_is_and_what_it_needs(strategy: Strategy, tmp_path: Path) -> None:
    if strategy.seconds_between_polls <= 1:
        pytest.skip("a process of this machine takes what it needs")
    text = strategy.render(requests(tmp_path, 1)[0])
    for words in ("r4nd0m", "gpu", str(tmp_path / "out" / "gpu-1"), str(tmp_path / "err" / "gpu-1"), "3815"):
        assert words in text


def test_settings_carry_their_documentation(strategy: Strategy) -> None:
    for name, field in type(strategy).model_fields.items():
        assert field.description, name


def test_every_worker_gets_an_id_of_its_own_and_can_be_cancelled_twice(strategy: Strategy, tmp_path: Path) -> None:
    with a_calm_batch_system():
        jobs = strategy.submit(requests(tmp_path))
        try:
            assert len(set(jobs)) == 2
            states = {status.state for status in strategy.poll(jobs).values()}
            assert states <= {JobState.PENDING, JobState.RUNNING}
            assert states
        finally:
            strategy.cancel(jobs)
        strategy.cancel(jobs)
        strategy.cancel([])


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
        strategy.submit(requests(tmp_path))
    assert caught.value.problems[0].kind.name == "job-refused"
    with scripted_shell():
        assert strategy.poll([JobId("1")]) == {}
        strategy.cancel([JobId("1")])
