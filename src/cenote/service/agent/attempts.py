"""Hold what an agent knows of one attempt, from Start until its end is acknowledged."""

from __future__ import annotations

import asyncio
from dataclasses import field

from cenote.service.protocol import AttemptEnded, Cause, HeldAttempt, Start, StreamName
from cenote.values import dataclass


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

    def end(self, cause: Cause, message: str, *, exit_code: int | None = None) -> AttemptEnded:
        """Of one that never ran."""
        return AttemptEnded(
            task=self.start.task,
            instance=self.start.instance,
            attempt=self.start.attempt,
            cause=cause,
            message=message,
            exit_code=exit_code,
        )
