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

    def render(self, request: JobRequest) -> str:
        """What would be submitted, as text: pure, for people to read."""
        raise NotImplementedError

    def submit(self, requests: Sequence[JobRequest]) -> list[JobId]:
        """Ask for workers. Raises `batch-system` with the batch system's words when they are refused."""
        raise NotImplementedError

    def poll(self, jobs: Sequence[JobId]) -> dict[JobId, JobStatus]:
        """How these jobs are. A job that is missing from the answer could not be asked about this time."""
        raise NotImplementedError

    def cancel(self, jobs: Sequence[JobId]) -> None:
        """Stop these jobs; a job already gone is not an error."""
        raise NotImplementedError
