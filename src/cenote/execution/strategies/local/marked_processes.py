"""Mark processes of this machine with the run that they belong to, find them again, and end them.

The marks are environment variables, which /proc shows to the same user; where there is no /proc, nothing is found.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from cenote.execution.launch import Launch, RunLocation
from cenote.execution.strategies.interface import JobId, TracedJob
from cenote.execution.worker.process.whereabouts import HOME, POOL, RUN, WORKER

_PROCESSES = Path("/proc")
_STATES = {"T": "stopped", "t": "stopped", "D": "waiting for a disk"}
"""Letters of /proc/…/stat; with every other one a process counts as running."""
_DEAD = "ZX"


def marks(launch: Launch, worker: str) -> dict[str, str]:
    """What the environment of a worker says."""
    home = {HOME: str(launch.run.location)} if launch.run.location else {}
    return {RUN: launch.run.id, POOL: launch.pool, WORKER: worker, **home}


def marked_processes() -> Iterator[TracedJob]:
    """Those of this user that carry marks: workers, and whatever they started."""
    entries = _PROCESSES.iterdir() if _PROCESSES.is_dir() else iter(())
    for entry in entries:
        if entry.name.isdigit() and (found := _marked(entry)) is not None:
            yield found


def end_marked(jobs: Iterable[JobId], *, patience: float) -> None:
    """End these processes, killing those that take longer than `patience` seconds.

    One that is gone is fine, and one that carries no marks is left alone: its number went to another.
    """
    with ExitStack() as stack:
        handles = [handle for job in jobs if (handle := _held(job, stack)) is not None]
        for handle in handles:
            _send(handle, signal.SIGTERM)
        deadline = time.monotonic() + patience
        for handle in handles:
            over, _, _ = select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
            if not over:
                _send(handle, signal.SIGKILL)


def _held(job: JobId, stack: ExitStack) -> int | None:
    """A handle of a process with marks: as long as it is open, the process is the same, whatever becomes of its
    number."""
    if not job.isdecimal():
        return None
    try:
        handle = os.pidfd_open(int(job))
    except OSError:
        return None
    stack.callback(os.close, handle)
    return handle if _marked(_PROCESSES / job) is not None else None


def _send(handle: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, number)


def _marked(entry: Path) -> TracedJob | None:
    try:
        if entry.stat().st_uid != os.geteuid():
            return None
        words = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
        facts = (entry / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    found = dict(word.split("=", 1) for word in words if word.startswith("CENOTE_") and "=" in word)
    if not found.keys() >= {RUN, POOL, WORKER} or facts[0] in _DEAD:
        return None
    return TracedJob(
        job=JobId(entry.name),
        run=found[RUN],
        pool=found[POOL],
        worker=found[WORKER],
        native=_STATES.get(facts[0], "running"),
        since=_started(int(facts[19])),
        home=RunLocation.read(found.get(HOME, "")),
    )


def _started(ticks: int) -> float | None:
    """Seconds since the epoch, from ticks since the machine was started."""
    try:
        up = float((_PROCESSES / "uptime").read_text().split()[0])
    except OSError:
        return None
    return time.time() - up + ticks / os.sysconf("SC_CLK_TCK")
