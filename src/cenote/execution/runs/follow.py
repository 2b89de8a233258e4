"""Read the records of a run and follow it through its folder, without disturbing it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from cenote.common import errors
from cenote.common.errors import CenoteError
from cenote.common.units import format_seconds
from cenote.engine.messages import AnyEvent, Tick
from cenote.execution.runs.driver.socket import DriverSilentError, ForeignDriverError, NoSocketError, ask
from cenote.execution.runs.folder import STILL_SECONDS, RunFolder, is_locked, last_beat, lock_owner
from cenote.execution.runs.journal import JournalReader
from cenote.execution.runs.summary import Summary
from cenote.execution.runs.view.view import RunView
from cenote.planning.probes.cache import ProbeHistory, as_seen_by
from cenote.planning.probes.result import Probed
from cenote.planning.record import PlanRecord

# Read the records that a run left, and say so where one is damaged.


AnyRecord = TypeVar("AnyRecord", bound=msgspec.Struct)


def read_plan(folder: RunFolder) -> PlanRecord:
    """The plan that was run. Raises `damaged-run` where there is none."""
    return _read(folder.plan, PlanRecord, unreadable=OSError)


def read_summary(folder: RunFolder) -> Summary | None:
    """None while the run is in progress. Raises `damaged-run` for anything but a summary."""
    try:
        return _read(folder.summary, Summary, unreadable=IsADirectoryError)
    except FileNotFoundError:
        return None


def read_if_whole(path: Path, kind: type[AnyRecord]) -> AnyRecord | None:
    """The record in this file; None where there is none, or where it is damaged."""
    try:
        return _read(path, kind, unreadable=OSError)
    except CenoteError:
        return None


def _read(path: Path, kind: type[AnyRecord], *, unreadable: type[OSError]) -> AnyRecord:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (ValueError, unreadable) as problem:
        raise damaged(path, problem) from problem


def damaged(path: Path, problem: Exception) -> CenoteError:
    """The error for a file of a run that is not what a run writes."""
    return errors.error(
        errors.DAMAGED_RUN,
        f"{path} is damaged: {problem}",
        hint="`cenote run … --resume` writes it anew; what is finished is not repeated",
    )


STALLED_SECONDS = 60.0
"""Without a turn of its loop, after which a driver counts as hung, although its socket answers."""


class FollowedRun:
    """A run in a folder; `catch_up` reads what was written since the last time, and only that."""

    def __init__(self, folder: Path, *, watch: Callable[[AnyEvent], None] = lambda _: None) -> None:
        """`watch` sees every event as well."""
        self.folder, self._watch = RunFolder(folder), watch
        self.silence: str | None = None
        """That the driver did not answer, in words, when it was last asked (`catch_up_to_now`)."""
        self._begin()

    def _begin(self) -> None:
        self._journal = JournalReader(self.folder.path)
        plan = read_plan(self.folder)
        self.view = RunView(plan, _probes(plan))

    def catch_up(self) -> RunView:
        """The view after everything that stands in the journal by now."""
        if self._journal.was_replaced:
            self._begin()
        for event in self._journal.news():
            self.view.apply(event)
            self._watch(event)
        if self.view.run is None and self._journal.damage is not None:
            raise damaged(self._journal.path, self._journal.damage)
        return self.view

    def catch_up_to_now(self) -> RunView:
        """The same, with the time that has passed: a run that waits writes nothing. Its driver is asked to answer."""
        view = self.catch_up()
        self.silence = _silence(self.folder.path) if self.driven else None
        if self.driven:
            view.apply(Tick(at=time.time()))
        elif self.silence:  # it ended while it was asked
            self.silence = None
            view = self.catch_up()
        return view

    @property
    def status(self) -> str:
        """The view's own word, `interrupted` for a run that has neither an end nor a driver, or `unresponsive`."""
        if self.view.finished:
            return self.view.status
        if not self.driven:
            return "interrupted"
        return "unresponsive" if self.silence else self.view.status

    @property
    def driven(self) -> bool:
        """Whether a process is driving the run now; without one, a run that has no end was cut off."""
        return is_locked(self.folder.path)


def _silence(folder: Path) -> str | None:
    """Ask the driver, where this user can, and look at its pulse elsewhere; None where it shows that it works."""
    owner, now = lock_owner(folder), time.time()
    who = f"the driver ({owner})" if owner else "the driver"
    beat = last_beat(folder) or now
    if owner is not None and owner.is_here and owner.socket is not None:
        try:
            idle = ask(owner.socket, "answer").idle
        except (NoSocketError, ForeignDriverError):
            pass  # its pulse tells
        except DriverSilentError:
            return f"{who} does not answer; its last sign of life is {format_seconds(max(0.0, now - beat))} old"
        else:
            return f"{who} has not moved for {format_seconds(idle)}" if idle > STALLED_SECONDS else None
    return f"{who} has shown no sign of life for {format_seconds(now - beat)}" if now - beat > STILL_SECONDS else None


def _probes(plan: PlanRecord) -> dict[str, Probed]:
    """Pool → its last probe, which may be younger than the run."""
    known = ProbeHistory().of(pool.probe.key for pool in plan.pools if pool.probe.key)
    return {
        pool.name: as_seen_by(known[pool.probe.key], plan.workflow) for pool in plan.pools if pool.probe.key in known
    }
