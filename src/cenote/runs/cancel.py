"""End a run that another process drives: ask the driver, as Ctrl-C would, and wait for the end."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cenote import errors
from cenote.errors import CenoteError
from cenote.runs.folder import LOCK, lock_owner
from cenote.runs.follow import FollowedRun
from cenote.runs.view import RunView
from cenote.text import RUN_STATUSES

PATIENCE = 60.0
"""Seconds that a driver gets to end its workers and write down how far it came."""
_POLL_EVERY = 0.1


@dataclass(frozen=True)
class Ended:
    """What became of a run that was asked to end."""

    view: RunView
    seconds: float
    """From the question to the end."""


def cancel_run(folder: Path, *, patience: float = PATIENCE) -> Ended:
    """Ask the driver of this run to end, and come back when it has.

    Raises `not-running` when nothing drives the run, and `still-running` when it has not ended in time.
    """
    run = FollowedRun(folder)
    if not run.driven:
        raise _nothing_runs(run)
    _interrupt(folder)
    return _ended(run, patience)


def _ended(run: FollowedRun, patience: float) -> Ended:
    asked = time.monotonic()
    while run.driven:
        if time.monotonic() - asked > patience:
            raise _goes_on(run.folder.path, patience)
        time.sleep(_POLL_EVERY)
    return Ended(run.catch_up(), time.monotonic() - asked)


def _interrupt(folder: Path) -> None:
    """Send the driver what Ctrl-C sends, once it is certain that it is the driver."""
    process, host = lock_owner(folder)
    if host and host != socket.gethostname():
        raise errors.error(
            errors.NOT_RUNNING,
            f"the run in {folder} has its driver on another machine: process {process} on {host}",
            hint=f"run `cenote cancel` on {host}",
        )
    if process is None or not _holds(process, folder / LOCK):
        raise errors.error(
            errors.NOT_RUNNING,
            f"{folder / LOCK} is locked, but not by the process that it names" + (f" ({process})" if process else ""),
            hint="the run may just have started or ended: try again",
        )
    try:
        os.kill(process, signal.SIGINT)
    except ProcessLookupError:
        return  # it ended just now
    except PermissionError:
        raise errors.error(
            errors.NOT_RUNNING, f"the run in {folder} belongs to another user: process {process} may not be signalled"
        ) from None


def _holds(process: int, lock: Path) -> bool:
    """Whether the process has the lock file open: a number that was given to another process must not be hit.

    Where nobody can tell (no /proc, or the process of another user), the lock and the number must do.
    """
    try:
        descriptors = list(Path(f"/proc/{process}/fd").iterdir())
    except FileNotFoundError:
        return not Path("/proc/self/fd").exists()
    except PermissionError:
        return True
    for descriptor in descriptors:
        with suppress(OSError):  # closed meanwhile
            if descriptor.samefile(lock):
                return True
    return False


def _nothing_runs(run: FollowedRun) -> CenoteError:
    view = run.catch_up()
    if view.finished:
        return errors.error(errors.NOT_RUNNING, f"the run in {run.folder.path} is over: it {RUN_STATUSES[view.status]}")
    return errors.error(
        errors.NOT_RUNNING,
        f"the run in {run.folder.path} has no driver: it was interrupted before its end",
        hint="`cenote run …` continues it",
    )


def _goes_on(folder: Path, patience: float) -> CenoteError:
    process, _ = lock_owner(folder)
    return errors.error(
        errors.STILL_RUNNING,
        f"the run in {folder} was asked to end and is still running after {patience:g} s",
        hint=f"wait for it with `cenote status {folder} --follow`; `kill -9 {process}` ends it at once, "
        "its workers follow, and `cenote run …` finds everything that was finished",
    )
