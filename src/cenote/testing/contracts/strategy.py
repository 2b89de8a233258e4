"""Check strategies: what they submit can be read first, jobs are never lost or invented, and no answer is no crash."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cenote.common.errors import BATCH_SYSTEM, JOB_REFUSED, CenoteError
from cenote.common.values import dataclass
from cenote.execution.launch import WORKER, Launch, Part, RunLocation
from cenote.execution.strategies.interface import JobId, JobState, Strategy
from cenote.language.execution import Amounts
from cenote.testing.contracts.plugin import PluginContract
from cenote.testing.launches import a_launch
from cenote.testing.scripted_shell import HANGS, INTERRUPTED, Reply, ScriptedShell, scripted_shell

LOCATION = RunLocation("login", Path("/some where/out"), "4711")
WORKERS = ("gpu-1", "gpu-2")
_GONE_WITHIN = 60.0
"""Seconds after which a job that was cancelled is not there any more."""


@dataclass(frozen=True)
class BatchScript:
    """What the commands of a batch system answer in a test: for each program a text, `{err: …, code: 1}`, or a list of
    these for one call after the other."""

    submits: str
    """The program that takes jobs."""
    lists: str
    """The program that tells which jobs there are."""
    cancels: str
    """The program that ends jobs."""
    waiting: Mapping[str, Any]
    """Answers when workers `gpu-1` and `gpu-2` are asked for: both are taken, and wait in the queue."""
    left_behind: Mapping[str, Any]
    """Answers when somebody looks for jobs that a run left: the same two workers of pool `gpu` of run RUN, whose
    location is LOCATION, one worker `gpu-1` of the run `other`, and what strangers have."""
    unknown_job: str
    """The id of a job that there is not, as the batch system writes ids."""

    @contextmanager
    def answering(self, answers: Mapping[str, Any], run: str = "") -> Iterator[ScriptedShell]:
        """Play the batch system."""
        with scripted_shell(**{program: list(_replies(written, run)) for program, written in answers.items()}) as shell:
            yield shell


def _replies(written: Any, run: str) -> Iterator[Reply | str]:  # Any: as people write it in YAML
    for one in written if isinstance(written, list) else [written]:
        yield Reply(**one) if isinstance(one, dict) else one.replace("RUN", run).replace("LOCATION", str(LOCATION))


class StrategyContract(PluginContract):
    """`plugin` is the strategy; `batch` plays its batch system. Without one, workers are started on this machine."""

    plugin: ClassVar[type[Strategy]]
    batch: ClassVar[BatchScript | None] = None

    def settings_in(self, example: Any) -> Mapping[str, Any]:
        """The `config` of the only pool."""
        (pool,) = example["execution"]["pools"].values()
        return dict(pool.get("config", {}))

    def launch(self, folder: Path, *command: Part, run: str = "r4nd0m") -> Launch:
        """Workers that sleep."""
        made = a_launch(
            *(command or ("sh", "-c", "sleep 30", WORKER)),
            run=run,
            folder=folder,
            location=LOCATION,
            resources=Amounts(cpus=3, memory=4_000_000_000, gpus=2),
            variables={"GREETING": 'it\'s a $dollar "day"'},
        )
        made.run.make_folders()
        return made

    @property
    def script(self) -> BatchScript:
        """The batch system; a test that needs one is skipped where there is none."""
        if self.batch is None:
            pytest.skip("it starts workers on this machine, without a batch system")
        return self.batch

    @contextmanager
    def two_waiting(self) -> Iterator[None]:
        """Two workers are taken; a strategy without a batch system takes them by itself."""
        if self.batch is None:
            yield
        else:
            with self.batch.answering(self.batch.waiting):
                yield

    def test_it_says_whether_workers_start_here_or_wait_in_a_queue(self) -> None:
        assert self.plugin.starts_here is (self.batch is None)

    def test_what_it_submits_can_be_printed_and_printing_does_nothing(self, made: Strategy, tmp_path: Path) -> None:
        wanted = self.launch(tmp_path)
        with scripted_shell() as shell:
            (text,) = made.render(wanted, ["gpu-1"])
            assert made.render(wanted, ["gpu-1"]) == [text]
        assert shell.typed == []
        for words in ("gpu-1", "sleep", "GREETING"):
            assert words in text

    def test_what_must_not_come_along_is_unset_before_anything_is_set(self, made: Strategy, tmp_path: Path) -> None:
        wanted = replace(self.launch(tmp_path), unset=("PYTHONPATH", "CONDA_*"))
        (text,) = made.render(wanted, ["gpu-1"])
        assert text.index("unset PYTHONPATH") < text.index("CONDA_") < text.index("export GREETING")

    def test_a_batch_job_says_whose_it_is_and_what_it_needs(self, made: Strategy, tmp_path: Path) -> None:
        assert self.script.submits
        (text,) = made.render(self.launch(tmp_path), ["gpu-1"])
        for words in ("r4nd0m", "gpu", str(LOCATION), "3815"):
            assert words in text

    def test_a_batch_job_prints_where_the_run_looks_for_it(self, made: Strategy, tmp_path: Path) -> None:
        assert self.script.submits
        if getattr(made, "transfer_files", False):
            pytest.skip("its nodes do not see the run's folder")
        (text,) = made.render(self.launch(tmp_path), ["gpu-1"])
        assert str(tmp_path / "out") in text
        assert str(tmp_path / "err") in text

    def test_every_worker_gets_an_id_of_its_own_and_can_be_cancelled_twice(
        self, made: Strategy, tmp_path: Path
    ) -> None:
        with self.two_waiting():
            jobs = made.submit(self.launch(tmp_path), WORKERS)
            try:
                assert len(set(jobs)) == 2
                states = {status.state for status in made.poll(jobs).values()}
                assert states <= {JobState.PENDING, JobState.RUNNING}
                assert states
            finally:
                made.cancel(jobs)
            made.cancel(jobs)
            made.cancel([])

    def test_jobs_are_found_again_by_somebody_who_did_not_submit_them(self, made: Strategy, tmp_path: Path) -> None:
        run = uuid.uuid4().hex[:12]
        if self.batch is not None:
            with self.batch.answering(self.batch.left_behind, run):
                self._find(run)
            return
        jobs = made.submit(self.launch(tmp_path, "sleep", "30", run=run), WORKERS)
        try:
            self._find(run)
        finally:
            made.cancel(jobs)
        deadline = time.monotonic() + _GONE_WITHIN
        while (left := self.plugin().trace(run)) and time.monotonic() < deadline:
            time.sleep(0.05)  # what was told to end may take a moment
        assert left == []

    def _find(self, run: str) -> None:
        another = self.plugin()
        found = another.trace(run)
        assert sorted((job.run, job.pool, job.worker, job.home) for job in found) == [
            (run, "gpu", worker, LOCATION) for worker in WORKERS
        ]
        assert all(job.native and job.since for job in found)
        assert len({job.job for job in found}) == len(found)
        assert {job.job for job in found} <= {job.job for job in another.trace()}
        another.cancel([job.job for job in found])

    def test_a_batch_system_that_is_not_here_has_no_jobs(self, made: Strategy) -> None:
        with scripted_shell():
            assert made.trace("no such run") == []

    def test_a_batch_system_that_does_not_answer_is_an_error(self, made: Strategy) -> None:
        with scripted_shell(**{self.script.lists: HANGS}), pytest.raises(CenoteError) as caught:
            made.trace()
        assert caught.value.problems[0].kind is BATCH_SYSTEM

    def test_a_job_that_it_never_saw_is_not_called_finished(self, made: Strategy) -> None:
        unknown = JobId(self.batch.unknown_job if self.batch else "99999999")
        with self.two_waiting():
            found = made.poll([unknown])
            made.cancel([unknown])
        assert {status.state for status in found.values()} <= {JobState.UNKNOWN}

    def test_no_jobs_need_no_question(self, made: Strategy) -> None:
        with scripted_shell() as shell:
            assert made.poll([]) == {}
        assert shell.typed == []

    def test_a_program_that_is_not_there_is_an_error_and_not_a_crash(self, made: Strategy, tmp_path: Path) -> None:
        job = JobId(self.script.unknown_job)
        with scripted_shell():
            with pytest.raises(CenoteError) as caught:
                made.submit(self.launch(tmp_path), WORKERS)
            assert made.poll([job]) == {}
            made.cancel([job])
        assert caught.value.problems[0].kind is JOB_REFUSED

    def test_what_was_submitted_when_something_came_between_is_taken_back(self, made: Strategy, tmp_path: Path) -> None:
        run = uuid.uuid4().hex
        wanted, workers = self.launch(tmp_path, "sleep", "30", run=run), ("gpu-1", "no such folder/gpu-2")
        if self.batch is None:
            with pytest.raises(FileNotFoundError):
                made.submit(wanted, workers)
            assert made.trace(run) == []
            return
        interrupted: dict[str, Reply | str] = {self.batch.submits: INTERRUPTED, self.batch.cancels: ""}
        with scripted_shell(**interrupted) as shell, pytest.raises(KeyboardInterrupt):
            made.submit(wanted, workers)
        assert shell.typed[-1][0] == self.batch.cancels
        assert run in shell.typed[-1][-1]
