"""This file says what a strategy is: it turns requests for workers into jobs, and tells what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Literal, NewType

from cenote.language.workflow import Amounts
from cenote.plugins.settings import Settings

JobId = NewType("JobId", str)
"""What the batch system calls a job; for processes of this machine, their number."""


class JobState(Enum):
    """How far a job is. A word that a batch system has and we do not know is UNKNOWN, never "ended"."""

    PENDING = "pending"
    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"
    UNKNOWN = "unknown"


OVER = (JobState.ENDED, JobState.FAILED)
"""States after which nothing more happens to a job."""

EndCause = Literal["died", "preempted", "walltime", "oom", "retired", "refused", "unknown"]


@dataclass(frozen=True)
class JobStatus:
    """What a strategy knows of a job."""

    state: JobState
    native: str = ""
    """The batch system's own word for the state."""
    reason: str = ""
    """Why it waits, or why it ended, in the batch system's words."""
    cause: EndCause = "unknown"
    """For a job that ended."""
    lingers: bool = False
    """Whether it is over for us but not for the batch system, and so has to be cancelled: a held job."""


@dataclass(frozen=True)
class JobRequest:
    """One worker to be started."""

    run: str
    pool: str
    worker: str
    command: tuple[str, ...]
    resources: Amounts
    out: Path
    err: Path
    variables: Mapping[str, str] = field(default_factory=dict)


class Strategy(Settings):
    """Starts workers. Its fields are the settings under a pool's `config`."""

    @property
    def seconds_between_polls(self) -> float:
        """How often `poll` may be called."""
        return 1.0

    @property
    def lifetime(self) -> int | None:
        """Seconds after which a worker leaves by itself, before it is made to; None for never."""
        return None

    def render(self, request: JobRequest) -> str:
        """What would be submitted, as text: pure, for people to read."""
        raise NotImplementedError

    def render_all(self, requests: Sequence[JobRequest]) -> list[str]:
        """The same for several workers: fewer texts where one submission starts many."""
        return [self.render(request) for request in requests]

    def submit(self, requests: Sequence[JobRequest]) -> list[JobId]:
        """Ask for workers: all of them or none.

        Raises `job-refused` with the batch system's words when it does not want them, and `batch-system` when it
        could not be asked, so that it may be asked again.
        """
        raise NotImplementedError

    def poll(self, jobs: Sequence[JobId]) -> dict[JobId, JobStatus]:
        """How these jobs are. A job that is missing from the answer could not be asked about this time."""
        raise NotImplementedError

    def cancel(self, jobs: Sequence[JobId]) -> None:
        """Stop these jobs; a job already gone is not an error."""
        raise NotImplementedError
