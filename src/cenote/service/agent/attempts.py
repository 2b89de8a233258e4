"""Know one attempt from Start until its end is acknowledged: its variables, its time, its end in words."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from cenote.common import storage
from cenote.common.units import format_seconds
from cenote.common.values import dataclass
from cenote.execution.worker.process.lifetime import GRACE, Lifetime, lifetime_of_job
from cenote.execution.worker.process.user_output import tail
from cenote.service.agent.children import ChildEnd
from cenote.service.client.constants import OWN, RESERVED, why_no_constant
from cenote.service.protocol import AttemptEnded, Cause, HeldAttempt, Start, StreamName


@dataclass(frozen=True)
class EndRequest:
    """Somebody wants it to end."""

    cause: Cause
    message: str


@dataclass(eq=False)
class HeldRun:
    """An attempt, and how much of it was told."""

    start: Start
    asked: asyncio.Future[EndRequest]
    pid: int | None = None
    started_at: float = 0.0
    """By the clock of the node, in seconds since the epoch."""
    ended: AttemptEnded | None = None
    sent: dict[StreamName, int] = field(default_factory=lambda: {"stdout": 0, "stderr": 0})
    """Bytes of its output."""
    results: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Name → time of change and size of the results that were sent."""
    results_due: float = 0.0
    """When they are looked at next, by the loop's clock."""
    telling: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One at a time tells of it, so that all is told in order."""

    @property
    def as_held(self) -> HeldAttempt:
        """For Hello."""
        state = "ended" if self.ended else "running" if self.pid else "waiting"
        return HeldAttempt(
            task=self.start.task,
            instance=self.start.instance,
            attempt=self.start.attempt,
            state=state,  # type: ignore[arg-type]  # one of three
            pid=self.pid,
        )

    def ask_to_end(self, cause: Cause, message: str) -> None:
        """The first who asks says why."""
        if not self.asked.done():
            self.asked.set_result(EndRequest(cause, message))

    def end(self, cause: Cause, message: str) -> AttemptEnded:
        """Of one that never ran."""
        return AttemptEnded(
            task=self.start.task,
            instance=self.start.instance,
            attempt=self.start.attempt,
            cause=cause,
            message=message,
        )


# Say in words how an instance ended.


NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit codes of a shell that could not start a command."""
_LONGEST_LINE = 500
_SHELL_SIGNALS = 128


def cause_of(end: ChildEnd) -> Cause:
    """Of an instance that nobody asked to end."""
    if end.exit_code is not None:
        return "exit"
    return "signal" if end.signal is not None else "lost"


def was_asked_to_end(end: ChildEnd) -> bool:
    """Whether somebody sent it a SIGTERM, or a shell says so of its command."""
    return end.signal == signal.SIGTERM or end.exit_code == _SHELL_SIGNALS + signal.SIGTERM


def words_of_end(end: ChildEnd, *, stderr: Path, folder: Path) -> str:
    """What people read first of an instance that failed; nothing of one that succeeded."""
    if end.exit_code == 0:
        return "" if folder.is_dir() else "its working folder was removed while it ran"
    how = ": ".join((_number_in_words(end), *_last_line(stderr)))
    return "; ".join((how, *_surroundings(folder)))


def _number_in_words(end: ChildEnd) -> str:
    if end.signal is not None:
        return f"ended by {signal_name(end.signal)}"
    if end.exit_code is None:
        return "it is unknown how it ended"
    if end.exit_code == NOT_FOUND:
        return f"exit code {NOT_FOUND}, command not found"
    if end.exit_code == NOT_EXECUTABLE:
        return f"exit code {NOT_EXECUTABLE}, command not executable"
    by_signal = end.exit_code - _SHELL_SIGNALS
    known = by_signal in signal.valid_signals() if by_signal > 0 else False
    return f"exit code {end.exit_code}" + (f" ({signal_name(by_signal)})" if known else "")


def signal_name(number: int) -> str:
    """`SIGKILL`, or its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_line(stderr: Path) -> list[str]:
    lines = [line.strip() for line in tail(stderr).splitlines() if line.strip()]
    return [lines[-1][:_LONGEST_LINE]] if lines else []


def _surroundings(folder: Path) -> list[str]:
    try:
        return [f"the disk of {folder} is full"] if is_full(folder) else []
    except OSError:
        return ["its working folder was removed while it ran"]


def is_full(folder: Path) -> bool:
    """Whether nothing can be written there. Raises OSError where it is gone."""
    space = os.statvfs(folder)
    return not space.f_bavail or bool(space.f_files and not space.f_favail)  # some file systems do not count files


def words_of_refusal(problem: OSError, folder: Path) -> str:
    """Why its folder or files could not be made."""
    found = storage.problem_of(problem, problem.filename or folder)
    if found is None:
        return f"{folder}: {problem.strerror or problem}"
    return "; ".join((found.message, *found.details))


# Know when an agent must go: before the walltime of its job is over, and in time to hand over what it has.


class Departure:
    """The time that is left to one agent."""

    nearly_over = "its walltime is nearly over"

    def __init__(self, lifetime: Lifetime, age: float = 0.0) -> None:
        self._lifetime = lifetime
        self._began = time.monotonic() - age
        self.reasons = {self.nearly_over}
        """Why it goes, in words, that were given."""

    @classmethod
    def of_job(cls, walltime: int | None) -> Departure | None:
        """Of the job that this process runs in; None where its time has no end."""
        lifetime, age = lifetime_of_job(walltime, os.environ, time.time())
        return None if lifetime is None else cls(lifetime, age)

    @property
    def leaves_in(self) -> float:
        """Seconds until nothing more is begun."""
        return self._lifetime.leaves - self._age()

    def why_not(self, timeout: float | None) -> str:
        """Why an instance that may take so long is not begun; empty where it is.

        One that would have too little time on every worker is begun: it may well end sooner than it may.
        """
        left = self._lifetime.gives_up - self._age()
        if timeout is None or timeout <= left or timeout > self._lifetime.leaves:
            return ""
        reason = f"an instance may take {format_seconds(timeout)}, and it has {format_seconds(max(0.0, left))} left"
        self.reasons.add(reason)
        return reason

    async def time_to_leave(self) -> None:
        """Wait until nothing more is begun."""
        await asyncio.sleep(max(0.0, self.leaves_in))

    async def time_to_give_up(self) -> None:
        """Wait until what still runs must be ended."""
        await asyncio.sleep(max(0.0, self._lifetime.gives_up - self._age()))

    def _age(self) -> float:
        return time.monotonic() - self._began


# Make the environment of an instance: the agent's own without what is ours, the constants, and who it is.
#
# The agent's was made as that of every worker is (`launch.py`): nothing of the shell that started the service comes
# along unless its pool passes it.


class BadConstantError(ValueError):
    """A constant that cannot be an environment variable, in words."""


def variables_of(start: Start, inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Raises BadConstantError."""
    own = dict(zip(OWN, (str(start.instance), str(start.terms.instances), start.job), strict=True))
    for name, value in start.terms.constants.items():
        if reason := why_no_constant(name, value):
            raise BadConstantError(reason)
    if start.terms.grace is not None:
        own[GRACE] = str(start.terms.grace)
    kept = {name: value for name, value in inherited.items() if not name.startswith(RESERVED)}
    return {**kept, **start.terms.constants, **own}
