"""Find jobs of runs whose driver is gone, and half-written files, and take them away.

A job says which run it belongs to and where that run lives. Whether the run still goes on is seen in its folder.
"""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from enum import Enum
from pathlib import Path

from cenote.common import storage
from cenote.common.errors import CenoteError, Problem
from cenote.common.values import dataclass
from cenote.execution.launch import RunLocation
from cenote.execution.runs.folder import RunFolder, has_pulse, is_alive, is_locked, lock_owner
from cenote.execution.runs.follow import read_if_whole
from cenote.execution.runs.journal import JournalReader, runs_in
from cenote.execution.strategies.interface import Strategy, TracedJob
from cenote.execution.worker.process.scratch import scratch_of_the_dead
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.planning.record import PlanRecord

_PATIENCE = 10.0
"""Seconds that jobs get to be gone once they were cancelled."""
_LOOK_EVERY = 0.5


class DriverStatus(Enum):
    """Whether the run of a job still goes on."""

    OVER = "over"
    DRIVEN = "driven"
    UNKNOWN = "unknown"
    """Its folder cannot be seen from here, and another machine drove it."""


@dataclass(frozen=True)
class Leftover:
    """A job, and how its run is."""

    job: TracedJob
    system: str
    """The name of its strategy."""
    driver: DriverStatus


@dataclass(frozen=True)
class Search:
    """Whose jobs are looked for: those of one folder, of one run, or all."""

    folder: Path | None = None
    run: str | None = None

    @property
    def named(self) -> bool:
        """Whether somebody said which run."""
        return self.folder is not None or self.run is not None


@dataclass(frozen=True)
class LeftBehind:
    """What there is."""

    jobs: tuple[Leftover, ...] = ()
    files: tuple[Path, ...] = ()
    """Half-written ones, of runs that are over."""
    scratch: tuple[Path, ...] = ()
    """Folders of workers that were killed on this machine: temporary files, data, credentials."""
    silent: Mapping[str, Problem] = field(default_factory=dict)
    """Batch systems that may have had jobs and did not answer, and what they said instead."""

    def of(self, *statuses: DriverStatus) -> tuple[Leftover, ...]:
        """The jobs whose runs are so."""
        return tuple(one for one in self.jobs if one.driver in statuses)


def find_left_behind(search: Search, *, strategies: Mapping[str, Strategy] | None = None) -> LeftBehind:
    """Ask every batch system of this machine, and look into the folders of the runs."""
    asked = all_strategies() if strategies is None else strategies
    wanted = _runs_of(search)
    jobs: list[Leftover] = []
    silent: dict[str, Problem] = {}
    statuses: dict[tuple[str, RunLocation | None], DriverStatus] = {}
    for name, strategy in asked.items():
        try:
            traced = strategy.trace()
        except CenoteError as problem:
            silent[name] = problem.problems[0]
            continue
        chosen = [job for job in traced if wanted is None or job.run in wanted or _lives_in(job, search.folder)]
        for job in chosen:
            whose = (job.run, _home(job, search, wanted or ()))
            if whose not in statuses:
                statuses[whose] = driver_status(*whose, now=time.time())
            jobs.append(Leftover(job, name, statuses[whose]))
    used = _systems_of(search)
    missed = {name: problem for name, problem in silent.items() if used is None or name in used}
    scratch = () if search.named else scratch_of_the_dead(Path(tempfile.gettempdir()))
    files = _half_written(search, jobs, now=time.time())
    return LeftBehind(tuple(sorted(jobs, key=_order)), tuple(files), tuple(scratch), missed)


def remove_jobs(
    jobs: Sequence[Leftover],
    *,
    strategies: Mapping[str, Strategy] | None = None,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Leftover, ...]:
    """Cancel these jobs and wait for their end; comes back with those that are still as they were."""
    asked = all_strategies() if strategies is None else strategies
    there = _as_they_are(jobs, asked)  # somebody may have thought about it for an hour
    for name in {one.system for one in there}:
        asked[name].cancel([one.job.job for one in there if one.system == name])
    deadline = clock() + _PATIENCE
    while (left := _unmoved(there, asked)) and clock() < deadline:
        pause(_LOOK_EVERY)
    return left


def driver_status(run: str, home: RunLocation | None, *, now: float) -> DriverStatus:
    """Whether something drives this run, as far as its folder shows it to this machine."""
    if home is None:
        return DriverStatus.UNKNOWN
    runs = runs_in(home.folder)
    if run not in runs:  # another file system of the same name, a folder that was removed or used again, or a probe
        if home.host != socket.gethostname():
            return DriverStatus.UNKNOWN
        return DriverStatus.DRIVEN if home.process.isdecimal() and is_alive(int(home.process)) else DriverStatus.OVER
    if runs[-1] != run:
        return DriverStatus.OVER  # it was resumed: the folder belongs to another one now
    return DriverStatus.DRIVEN if _driven(home.folder, now=now) else DriverStatus.OVER


def _driven(folder: Path, *, now: float) -> bool:
    """By the lock; on file systems that do not share locks, by the pulse of a driver on another machine."""
    if is_locked(folder):
        return True
    owner = lock_owner(folder)
    return owner is not None and not owner.is_here and has_pulse(folder, now=now)


def all_strategies() -> dict[str, Strategy]:
    """Every one that works without settings."""
    found: dict[str, Strategy] = {}
    for name in registry.names(PluginKind.STRATEGY):
        with suppress(CenoteError):
            found[name] = registry.make(PluginKind.STRATEGY, name, {})
    return found


def _as_they_are(jobs: Sequence[Leftover], asked: Mapping[str, Strategy]) -> tuple[Leftover, ...]:
    """Those that are still there, as they are now; where nobody can tell, as they were."""
    found: list[Leftover] = []
    for name in sorted({one.system for one in jobs}):
        before = [one for one in jobs if one.system == name]
        try:
            now = {(job.job, job.run): job for job in asked[name].trace()}
        except CenoteError:
            found += before
            continue
        for one in before:
            if (job := now.get((one.job.job, one.job.run))) is not None:
                found.append(replace(one, job=job))
    return tuple(found)


def _unmoved(jobs: Sequence[Leftover], asked: Mapping[str, Strategy]) -> tuple[Leftover, ...]:
    """Jobs that do not care: one that is on its way out is in another state than before."""
    before = {(one.system, one.job.job): one.job.native for one in jobs}
    return tuple(one for one in _as_they_are(jobs, asked) if before[one.system, one.job.job] == one.job.native)


def _runs_of(search: Search) -> set[str] | None:
    """The ids that are looked for; None for any. Raises `no-run` for a folder that holds none."""
    if search.folder is None:
        return {search.run} if search.run else None
    JournalReader(search.folder)
    return set(runs_in(search.folder))


def _systems_of(search: Search) -> frozenset[str] | None:
    """Where the run of a folder has its workers; None where that is not known, so that every system counts."""
    plan = None if search.folder is None else read_if_whole(RunFolder(search.folder).plan, PlanRecord)
    return None if plan is None else frozenset(pool.strategy for pool in plan.pools)


def _lives_in(job: TracedJob, folder: Path | None) -> bool:
    return folder is not None and job.home is not None and storage.resolved(job.home.folder) == storage.resolved(folder)


def _home(job: TracedJob, search: Search, wanted: Collection[str]) -> RunLocation | None:
    """Where to look for the run: in the folder that somebody named, which may have moved since."""
    if search.folder is None or job.run not in wanted:
        return job.home
    return replace(job.home, folder=search.folder) if job.home else RunLocation("", search.folder)


def _half_written(search: Search, jobs: Iterable[Leftover], *, now: float) -> list[Path]:
    """Files of runs that are over, which were begun and never became whole."""
    named = {search.folder.absolute()} if search.folder is not None else set()
    folders = named | {one.job.home.folder for one in jobs if one.job.home and one.driver is DriverStatus.OVER}
    found: list[Path] = []
    for folder in sorted(folder for folder in folders if not _driven(folder, now=now)):
        found += storage.unfinished(folder)
    return found


def _order(one: Leftover) -> tuple[str, str, str, int, str]:
    return one.job.run, one.system, one.job.pool, len(one.job.worker), one.job.worker
