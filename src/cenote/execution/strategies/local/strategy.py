"""The local strategy: workers are processes of this machine."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import ClassVar

from pydantic import PrivateAttr

from cenote.common.machine import GPU_VARIABLE, visible_gpus
from cenote.common.shell import ProcessGroup, RunningProcess, end_processes, start_process
from cenote.engine.messages import JobState
from cenote.execution.launch import Launch
from cenote.execution.strategies.interface import JobId, JobStatus, Strategy, TracedJob
from cenote.execution.strategies.local.marked_processes import end_marked, marked_processes, marks
from cenote.execution.strategies.support.exits import exit_status
from cenote.execution.worker.process.forking import ForkedOutput, NoForkError
from cenote.execution.worker.process.warm_processes import TEMPLATE_LOG, WarmProcesses

_A_MOMENT = 5.0


class LocalStrategy(Strategy):
    """Starts workers as processes of this machine; they end with the run.

    A worker of a pool with GPUs sees its own GPUs of this machine and no others; one without sees none.
    """

    starts_here: ClassVar[bool] = True
    example: ClassVar[str] = """
    execution:
      backend: dask
      strategy: local
      pools:
        default: {workers: 4}
    """

    _processes: dict[JobId, RunningProcess] = PrivateAttr(default_factory=dict)
    _gpus: dict[JobId, tuple[str, ...]] = PrivateAttr(default_factory=dict)
    """The GPUs of workers that were started, of all pools that share this strategy."""
    _warm: WarmProcesses | None = PrivateAttr(default=None)
    """Those that workers are forked from, once one was started."""
    _traced: set[JobId] = PrivateAttr(default_factory=set)
    """Processes that another driver started, and that were found here."""

    def render(self, launch: Launch, workers: Sequence[str]) -> list[str]:
        """The commands, as one would type them."""
        return [
            " ".join([*(f"{name}={shlex.quote(value)}" for name, value in own.items()), shlex.join(command)])
            for command, own in (_own(launch, worker) for worker in workers)
        ]

    def submit(self, launch: Launch, workers: Sequence[str]) -> list[JobId]:
        """Start the processes; when one cannot be started, none stays."""
        jobs: list[JobId] = []
        try:
            for worker in workers:
                jobs.append(self._start(launch, worker))  # noqa: PERF401  # those before one that fails are known
        except BaseException:
            self.cancel(jobs)
            raise
        return jobs

    def _start(self, launch: Launch, worker: str) -> JobId:
        here = visible_gpus()
        taken = [gpu for job, gpus in self._gpus.items() if self._processes[job].poll() is None for gpu in gpus]
        gpus = gpus_for(launch.resources.gpus or 0, here, taken)
        told = here and GPU_VARIABLE not in launch.variables
        own = {**marks(launch, worker), **({GPU_VARIABLE: ",".join(gpus)} if told else {})}
        process = self._forked(launch, worker, own) or _started(launch, worker, own)
        job = JobId(str(process.pid))
        self._processes[job], self._gpus[job] = process, gpus
        return job

    def _forked(self, launch: Launch, worker: str, own: Mapping[str, str]) -> RunningProcess | None:
        """A worker from the warm process; None where it has to be started in full."""
        if (ready := launch.forked_here(worker)) is None:
            return None
        words, variables = ready
        if self._warm is None:
            self._warm = WarmProcesses()
        template = self._warm.of(launch.warm, variables, launch.run.folder("err") / TEMPLATE_LOG)
        if template is None:
            return None
        with suppress(NoForkError):
            return template.fork(
                words,
                variables={**variables, **own},
                output=_output(launch, worker),
                shown=tuple(marks(launch, worker)),
            )
        return None

    def poll(self, jobs: Sequence[JobId]) -> dict[JobId, JobStatus]:
        """Which of them still run, and how the others ended."""
        ours = {job: _status(self._processes[job].poll()) for job in jobs if job in self._processes}
        others = self._traced.intersection(jobs).difference(ours)
        if not others:
            return ours
        alive = {traced.job for traced in marked_processes()}
        gone = JobStatus(JobState.ENDED, "gone", "its process is gone")
        return {**ours, **{job: _status(None) if job in alive else gone for job in others}}

    def cancel(self, jobs: Sequence[JobId]) -> None:
        """End them now, also those that another driver left behind; one that cleans up after itself gets a moment."""
        end_processes([self._processes[job] for job in jobs if job in self._processes], patience=_A_MOMENT)
        end_marked([job for job in jobs if job not in self._processes], patience=_A_MOMENT)

    def close(self) -> None:
        """End the warm processes."""
        if self._warm is not None:
            self._warm.close()

    def trace(self, run: str | None = None) -> list[TracedJob]:
        """Processes of this machine that carry the marks of a run."""
        found = [job for job in marked_processes() if run in (None, job.run)]
        self._traced.update(job.job for job in found)
        return found


def _own(launch: Launch, worker: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """The command of a worker, and what the launch sets of its environment."""
    command, environment = launch.here(worker)
    return command, {name: environment[name] for name in launch.variables if name in environment}


def _started(launch: Launch, worker: str, own: Mapping[str, str]) -> RunningProcess:
    command, environment = launch.here(worker)
    output = _output(launch, worker)
    made = {**environment, **own}
    return ProcessGroup(start_process(command, environment=made, stdout=output.stdout, stderr=output.stderr))


def _output(launch: Launch, worker: str) -> ForkedOutput:
    return ForkedOutput(launch.run.folder("out") / worker, launch.run.folder("err") / worker)


def gpus_for(wanted: int, here: Sequence[str], taken: Iterable[str]) -> tuple[str, ...]:
    """Which GPUs of this machine a worker gets: those that the fewest others have, in their order."""
    users = Counter(taken)
    chosen = sorted(here, key=lambda gpu: (users[gpu], here.index(gpu)))[:wanted]
    return tuple(gpu for gpu in here if gpu in chosen)


def _status(code: int | None) -> JobStatus:
    if code is None:
        return JobStatus(JobState.RUNNING, "running")
    return exit_status(max(code, 0), max(-code, 0), f"exit {code}")
