"""Bring files to Slurm jobs on nodes that do not see this machine's, and what their workers printed back.

Jobs that begin are visited beside the driver's own work: by `srun` for what is small, by `sbcast` for archives.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cenote.execution.launch import Launch
from cenote.execution.strategies.interface import JobId
from cenote.execution.strategies.slurm.node_shell import (
    Visit,
    WantedFile,
    answering_script,
    bringing_script,
    leaving_script,
    read_visit,
)
from cenote.execution.strategies.support.batch import NoAnswerError, NoProgramError, ask

QUICK_POLLS = 1.0
"""Seconds between two polls while jobs may begin, or wait for files."""
_SOON_BEGUN = 30.0
"""Seconds after a submission in which jobs are likely to begin."""
_VISIT_SECONDS = 30.0
_SLOWEST = 1_000_000
"""Bytes in a second at which an archive must get to a node."""
_PATIENCE = 60.0
"""Seconds in which visits to a job may fail."""
_ATTEMPTS = 2
"""To send an archive."""
_LOOKS_AGAIN = (2.0, 4.0, 8.0, 12.0, 12.0, 12.0)
"""Seconds between visits to a job whose worker has started: most workers that fail do it in their first minute."""
_THREADS = 8
_OF_CLUSTER = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT")
"""Variables by which commands find Slurm, and by which it knows them."""


@dataclass
class _Transfer:
    """What is between this machine and one job."""

    worker: str
    launch: Launch
    visit: Future[Visit] | None = None
    """The one under way."""
    due: float = 0.0
    """When the next one is."""
    brought: bool = False
    started: bool = False
    ended: bool = False
    """Whether all that its worker printed is here."""
    looks: int = 0
    """Visits since the worker was seen to have started."""
    left: bool = False
    """Whether the worker has left the run, so that its job waits for a visit."""
    failing: float | None = None
    """Since when visits fail."""
    problem: str = ""
    """Why the job cannot be helped."""


class FileTransfers:
    """The transfers of all jobs of a strategy. What they found is heard when `advance` is called."""

    def __init__(self, clock: Callable[[], float], executor: Executor | None = None) -> None:
        self._clock = clock
        self._executor = executor or _Daemons()
        self._transfers: dict[JobId, _Transfer] = {}
        self._quick_until = 0.0

    @property
    def in_hurry(self) -> bool:
        """Whether jobs should be looked at soon."""
        return self._clock() < self._quick_until

    def expect(self, jobs: Sequence[JobId], workers: Sequence[str], launch: Launch) -> None:
        """Jobs were submitted."""
        self._transfers.update({job: _Transfer(name, launch) for job, name in zip(jobs, workers, strict=True)})
        self._quick_until = self._clock() + _SOON_BEGUN

    def end(self, jobs: Iterable[JobId]) -> None:
        """Workers have left the run: their output is fetched as soon as they have ended."""
        for transfer in [self._transfers[job] for job in jobs if job in self._transfers]:
            transfer.due = 0.0 if not transfer.ended else transfer.due
            transfer.left = True
            self._quick_until = self._clock() + 2 * QUICK_POLLS

    def forget(self, jobs: Iterable[JobId]) -> None:
        """Jobs are over, or to be."""
        for job in jobs:
            self._transfers.pop(job, None)

    def awaited(self, running: Iterable[JobId]) -> list[JobId]:
        """Those of the running jobs that are to be visited now, or were a moment ago."""
        now = self._clock()
        mine = [(job, self._transfers[job]) for job in running if job in self._transfers]
        return [job for job, transfer in mine if transfer.visit or (transfer.due <= now and not transfer.problem)]

    def advance(self, numbers: Mapping[JobId, str]) -> None:
        """Hear of the visits that are over and send out those that are due; `numbers` has Slurm's own of each job."""
        for job, number in numbers.items():
            transfer = self._transfers.get(job)
            if transfer is None:
                continue
            self._hear(transfer)
            if transfer.visit is None and not transfer.problem and transfer.due <= self._clock():
                transfer.visit = self._executor.submit(
                    _visit, transfer.launch, transfer.worker, number, transfer.brought
                )
                self._hear(transfer)
            if (not transfer.started or transfer.left) and not transfer.ended and not transfer.problem:
                self._quick_until = self._clock() + 2 * QUICK_POLLS

    def problem(self, job: JobId) -> str:
        """Why a job cannot get its files, if so."""
        transfer = self._transfers.get(job)
        return transfer.problem if transfer else ""

    def _hear(self, transfer: _Transfer) -> None:
        if transfer.visit is None or not transfer.visit.done():
            return
        future, transfer.visit = transfer.visit, None
        try:
            found = future.result()
        except (NoAnswerError, OSError) as problem:
            self._failed(transfer, problem)
            return
        transfer.failing = None
        transfer.brought |= found.begun
        transfer.started |= found.started
        if found.foreign:
            transfer.problem = "another user has made the folder of its files on the node"
        transfer.ended |= found.ended
        if transfer.ended:
            transfer.due = float("inf")
        elif transfer.started and not transfer.left:
            pauses = _LOOKS_AGAIN[transfer.looks :]
            transfer.due = self._clock() + pauses[0] if pauses else float("inf")
            transfer.looks += 1

    def _failed(self, transfer: _Transfer, problem: Exception) -> None:
        now = self._clock()
        transfer.failing = transfer.failing or now
        if isinstance(problem, NoProgramError) or now - transfer.failing >= _PATIENCE:
            transfer.problem = f"its files cannot be sent to its node: {problem}"
        if transfer.started:  # it has its files, and may well do without us
            transfer.due, transfer.problem = float("inf"), ""


def _visit(launch: Launch, worker: str, number: str, brought: bool) -> Visit:  # of a thread
    """Bring what a job needs, as long as it wants more; what it printed is written where the run looks for it."""
    run = launch.run.id
    small = () if brought else [file for file in launch.files if not file.on_demand]
    script = (
        answering_script(run, number, ())
        if brought
        else bringing_script(run, number, {file.name: file.source.read_bytes() for file in small})
    )
    found = read_visit(_on_node(number, script))
    while found.wanted:
        answers = [(wanted, _sent(launch, number, wanted)) for wanted in found.wanted]
        found = read_visit(_on_node(number, answering_script(run, number, answers)))
    for stream, content in found.output.items():
        with suppress(OSError):
            (launch.run.folder(stream) / worker).write_bytes(content)
    if found.ended:
        _on_node(number, leaving_script(run, number))
    return found


def _on_node(number: str, script: str) -> str:
    """What a shell in the job prints for this script."""
    step = [f"--jobid={number}", "--overlap", "--nodes=1", "--ntasks=1", "--cpus-per-task=1", "--gres=none"]
    command = ["srun", *step, "--quiet", "--export=NONE", "--chdir=/", "/bin/sh", "-s"]
    return ask([*_outside_jobs(), *command], seconds=_VISIT_SECONDS, given=script)


def _sent(launch: Launch, number: str, wanted: WantedFile) -> str:
    """Send an archive. What went wrong, if something did."""
    known = {str(file.source): file.source for file in launch.files if file.on_demand}
    if wanted.source not in known:
        return f"{wanted.source} is not a file of this pool"
    problem = ""
    for _ in range(_ATTEMPTS):
        try:
            return _cast(known[wanted.source], number, wanted.destination)
        except (NoAnswerError, OSError) as caught:
            problem = " ".join(str(caught).split())
    return problem


def _cast(file: Path, number: str, destination: str) -> str:
    seconds = _VISIT_SECONDS + file.stat().st_size / _SLOWEST
    ask([*_outside_jobs(), "sbcast", f"--jobid={number}", "--force", str(file), destination], seconds=seconds)
    return ""


def _outside_jobs() -> list[str]:
    """A driver may itself be a job, whose variables would speak for the step."""
    own = sorted(name for name in os.environ if name.startswith("SLURM_") and name not in _OF_CLUSTER)
    return ["env", *(f"--unset={name}" for name in own)] if own else []


class _Daemons(Executor):
    """Threads that nobody waits for at the end of the program: what they do is of no use then."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._threads = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As soon as a thread is free."""
        future: Future[Any] = Future()
        self._calls.put((future, lambda: fn(*args, **kwargs)))
        if self._threads < _THREADS:
            self._threads += 1
            threading.Thread(target=self._work, name="file-transfer", daemon=True).start()
        return future

    def _work(self) -> None:
        while True:
            future, call = self._calls.get()
            try:
                future.set_result(call())
            except BaseException as problem:  # whatever it is, it belongs to the future
                future.set_exception(problem)
