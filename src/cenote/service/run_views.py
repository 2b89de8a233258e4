"""Look at the runs whose folders tasks of the service name, and at no other folder.

What a journal says is folded event by event, in a thread, and only what is new since the last look.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections import OrderedDict
from pathlib import Path

import msgspec
from msgspec.structs import replace

from cenote.common import errors
from cenote.common.errors import CenoteError
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.follow import FollowedRun, read_if_whole
from cenote.execution.runs.summary import Summary
from cenote.execution.runs.view.timeline import PoolWork
from cenote.service.client.records import QueuedTaskRecord
from cenote.service.server.requests import ServiceRequests

_MOST_FOLLOWED = 8
"""Runs whose fold is kept between two looks."""
_MOST_FAILURES = 50
"""That are shown; the report has them all."""
_MOST_RUNS = 100
_LARGEST_REPORT = 256 << 20
"""Bytes."""


class WorkOfPool(msgspec.Struct, frozen=True, kw_only=True):
    """How many tasks a pool ran at once, in steps of equal length from the start of the run until now."""

    pool: str
    running: tuple[float, ...]


class RunSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A run that the service drives, as it is now or as it ended."""

    task: QueuedTaskRecord
    """The one that drives it."""
    status: str = "waiting"
    """As `cenote status` has it; `waiting` before its journal is there."""
    silence: str | None = None
    """That its driver does not answer."""
    summary: Summary | None = None
    """With its first failures; None before its plan is there."""
    timeline: tuple[WorkOfPool, ...] = ()
    report: bool = False
    """Whether its report can be read."""


class KnownRuns:
    """The runs of a service."""

    def __init__(self, requests: ServiceRequests) -> None:
        self._requests = requests
        self._followed: OrderedDict[tuple[str, str], _Followed] = OrderedDict()

    async def all(self) -> list[QueuedTaskRecord]:
        """The tasks that drive runs, the latest first."""
        return [one async for one in self._requests.tasks(runs=True, most=_MOST_RUNS)]

    async def look(self, run: str) -> RunSeen:
        """One run, by the id of its task."""
        task, folder = self._known(run)
        key = task.id, task.run
        followed = self._followed.setdefault(key, _Followed(folder.path))
        self._followed.move_to_end(key)
        while len(self._followed) > _MOST_FOLLOWED:
            self._followed.popitem(last=False)
        async with followed.lock:
            return await asyncio.to_thread(followed.look, task)

    async def report(self, run: str) -> bytes:
        """The page that it wrote at its end."""
        _, folder = self._known(run)
        return await asyncio.to_thread(_read_report, folder)

    async def product(self, run: str, name: str) -> Path:
        """A file that it published, by its name in the summary."""
        _, folder = self._known(run)
        return await asyncio.to_thread(_published, folder, name)

    def _known(self, run: str) -> tuple[QueuedTaskRecord, RunFolder]:
        task = self._requests.task(run)
        if not task.run or not Path(task.run).is_absolute():
            raise errors.error(errors.NO_RUN, f"task {task.id} drives no run")
        return task, RunFolder(Path(task.run))


class _Followed:
    """One run, and what was read of it so far."""

    def __init__(self, folder: Path) -> None:
        self._folder = RunFolder(folder)
        self._work = PoolWork()
        self._run: FollowedRun | None = None
        self.lock = asyncio.Lock()
        """One look at a time."""

    def look(self, task: QueuedTaskRecord) -> RunSeen:
        """What there is by now; a run that has not begun to write is waiting."""
        if not self._folder.holds_run or not self._folder.plan.is_file():
            return RunSeen(task=task, status=str(task.state) if task.state.is_over else "waiting")
        if self._run is None:
            self._run = FollowedRun(self._folder.path, watch=self._work.apply)
        view = self._run.catch_up_to_now()
        ended = read_if_whole(self._folder.summary, Summary) if view.finished else None
        summary = ended or view.summary()
        now = view.clock if view.finished or not self._run.driven else time.time()
        return RunSeen(
            task=task,
            status=self._run.status,
            silence=self._run.silence,
            summary=replace(summary, failures=summary.failures[:_MOST_FAILURES]),
            timeline=tuple(WorkOfPool(pool=pool, running=running) for pool, running in self._work.lanes(now)),
            report=view.finished and self._folder.report.is_file(),
        )


def _read_report(folder: RunFolder) -> bytes:
    try:
        opened = os.open(folder.report, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as problem:
        raise errors.error(
            errors.NO_RUN,
            f"there is no report in {folder.path}: {problem.strerror}",
            hint="it is written when the run is over; `cenote report FOLDER` writes it anew",
        ) from problem
    with os.fdopen(opened, "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LARGEST_REPORT:
            raise errors.error(errors.NO_RUN, f"{folder.report} is not a report")
        return file.read()


def _published(folder: RunFolder, name: str) -> Path:
    """Only what the summary lists, and only inside the folder."""
    summary = read_if_whole(folder.summary, Summary)
    listed = {file for one in summary.products for file in (*one.files, *one.plots)} if summary else set()
    root = folder.path.resolve()
    file = (root / name).resolve()
    if name not in listed or not file.is_relative_to(root) or not file.is_file():
        raise CenoteError(
            errors.unknown_name(errors.MISSING_FILE, f"the run published no file '{name}'", name, listed, what="files")
        )
    return file
