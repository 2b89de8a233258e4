"""Strategies turn requests for workers into jobs, and report what becomes of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NewType

from cenote.common.values import dataclass
from cenote.engine.messages import JobState, LossCause
from cenote.execution.launch import Launch, RunLocation
from cenote.execution.worker.process.lifetime import Lifetime
from cenote.language.plugins.settings import Plugin

__all__ = ["OVER", "JobId", "JobState", "JobStatus", "LossCause", "Strategy", "TracedJob"]

JobId = NewType("JobId", str)
"""What the batch system calls a job; for processes of this machine, their number."""


OVER = (JobState.ENDED, JobState.FAILED)
"""States after which nothing more happens to a job."""


@dataclass(frozen=True)
class JobStatus:
    """What a strategy knows of a job."""

    state: JobState
    native: str = ""
    """The batch system's own word for the state."""
    reason: str = ""
    """Why it waits, or why it ended, in the batch system's words."""
    cause: LossCause = "unknown"
    """For a job that ended."""
    needs_cancel: bool = False
    """Whether it is over for us but not for the batch system, and so has to be cancelled: a held job."""


@dataclass(frozen=True)
class TracedJob:
    """A job that some run asked for, found again by what was written on it, whether or not the run is still driven."""

    job: JobId
    run: str
    pool: str
    worker: str
    native: str
    """How it is, in the batch system's own word."""
    since: float | None = None
    """When it was asked for, in seconds since the epoch; None where nobody knows."""
    home: RunLocation | None = None


class Strategy(Plugin):
    """Starts workers. Its fields are the settings under a pool's `config`."""

    starts_here: ClassVar[bool] = False
    """Whether its workers are processes of this machine, there at once, instead of jobs that wait in a queue."""

    @property
    def near(self) -> bool:
        """Whether its workers are on this machine, whoever starts them: then they reach the driver by loopback. Asked
        once, when a run begins; raises where that cannot be known and no worker could be started."""
        return self.starts_here

    @property
    def seconds_between_polls(self) -> float:
        """How often `poll` may be called."""
        return 1.0

    @property
    def lifetime(self) -> Lifetime | None:
        """How long a worker may live; None for as long as it is wanted."""
        return None

    @property
    def seconds_to_join(self) -> float:
        """How long a job may run until its worker has joined; after that it is cancelled."""
        return 300.0

    @property
    def seconds_to_end(self) -> float:
        """How long jobs whose worker was let go should be left alone at the end of a run, before they are cancelled."""
        return 0.0

    @abstractmethod
    def render(self, launch: Launch, workers: Sequence[str]) -> list[str]:
        """What would be submitted for these workers, as texts for people to read: pure. One text may start many."""

    @abstractmethod
    def submit(self, launch: Launch, workers: Sequence[str]) -> list[JobId]:
        """Ask for workers of these names: all of them or none.

        Raises `job-refused` with the batch system's words when it does not want them, and `batch-system` when it
        could not be asked, so that it may be asked again.
        """

    @abstractmethod
    def poll(self, jobs: Sequence[JobId]) -> dict[JobId, JobStatus]:
        """How these jobs are. A job that is missing from the answer could not be asked about this time."""

    def workers_left(self, jobs: Sequence[JobId]) -> None:
        """The workers of these jobs have left the run: their jobs should end by themselves. Bring home what they wrote,
        from the next `poll` on, where that takes doing. Called again as long as that is waited for."""
        del jobs

    @abstractmethod
    def cancel(self, jobs: Sequence[JobId]) -> None:
        """Stop these jobs; a job already gone is not an error."""

    def trace(self, run: str | None = None) -> list[TracedJob]:
        """This user's jobs of one run, or of all runs, that are not over: also of drivers that are long gone.

        None where the batch system is not on this machine. Raises `batch-system` when it does not answer.
        """
        del run
        return []

    def close(self) -> None:
        """No more workers will be asked for: let go of what is held to start them. All jobs are over, or cancelled."""
