"""End a run that another process drives: ask its driver, which then does what Ctrl-C does, and wait for the end."""

from __future__ import annotations

import time
from pathlib import Path

from cenote.common import errors
from cenote.common.errors import CenoteError
from cenote.common.text import RUN_STATUSES
from cenote.common.values import dataclass
from cenote.execution.runs.driver.socket import DriverSilentError, ForeignDriverError, NoSocketError, ask
from cenote.execution.runs.folder import lock_owner
from cenote.execution.runs.follow import FollowedRun
from cenote.execution.runs.view.view import RunView

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
    """Ask the driver of this run to end, and come back when it has. To ask once more is to ask for haste.

    Raises `not-running` when nothing drives the run or it cannot be asked, and `still-running` when it has not ended in
    time.
    """
    run = FollowedRun(folder)
    if not run.driven:
        raise _nothing_runs(run)
    try:
        _ask_to_end(folder)
    except DriverSilentError as silent:
        if run.driven:
            why = "its socket is gone" if isinstance(silent, NoSocketError) else "its driver does not answer"
            raise _unreachable(folder, why) from None
    return _ended(run, patience)


def _ended(run: FollowedRun, patience: float) -> Ended:
    asked = time.monotonic()
    while run.driven:
        if time.monotonic() - asked > patience:
            raise _goes_on(run.folder.path, patience)
        time.sleep(_POLL_EVERY)
    return Ended(run.catch_up(), time.monotonic() - asked)


def _ask_to_end(folder: Path) -> None:
    owner = lock_owner(folder)
    if owner is not None and not owner.is_here:
        raise errors.error(
            errors.NOT_RUNNING,
            f"the run in {folder} has its driver on another machine: {owner}",
            hint=f"run `cenote cancel` on {owner.host}",
        )
    if owner is None or owner.socket is None:
        raise _unreachable(folder, "its driver has no socket")
    try:
        ask(owner.socket, "cancel")
    except ForeignDriverError:
        raise errors.error(
            errors.NOT_RUNNING, f"the run in {folder} belongs to another user: only its owner can cancel it ({owner})"
        ) from None


def _unreachable(folder: Path, why: str) -> CenoteError:
    owner = lock_owner(folder)
    by_signal = f"`kill -INT {owner.process}` on {owner.host} ends it" if owner else "end it by Ctrl-C where it runs"
    return errors.error(
        errors.NOT_RUNNING,
        f"the run in {folder} cannot be asked to end: {why}",
        hint=f"the run may just have started or ended: try again; otherwise {by_signal}",
    )


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
    owner = lock_owner(folder)
    return errors.error(
        errors.STILL_RUNNING,
        f"the run in {folder} was asked to end and is still running after {patience:g} s",
        hint=f"wait for it with `cenote status {folder} --follow`, or cancel it again, for haste; "
        f"`kill -9 {owner.process if owner else 'PID'}` ends it at once, and `cenote run …` reuses what was finished",
    )
