"""What strategies for batch systems share: calls with time limits, and patience with jobs out of sight."""

from __future__ import annotations

import re
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, PrivateAttr

from cenote.common import shell
from cenote.common.errors import BATCH_SYSTEM, JOB_REFUSED, error
from cenote.common.values import dataclass
from cenote.engine.messages import JobState, LossCause
from cenote.execution.strategies.interface import JobId, JobStatus, Strategy, TracedJob
from cenote.execution.worker.process.lifetime import Lifetime
from cenote.execution.worker.process.user_output import tail
from cenote.language.plugins.settings import Seconds

SUBMIT_SECONDS, POLL_SECONDS, CANCEL_SECONDS = 60.0, 10.0, 20.0
"""How long a command of a batch system may take."""
SHORTEST_WALLTIME = 60
"""Seconds; a worker needs some of them to start, and some to hand its data over."""
QUIET_SECONDS = 30.0
"""After a question that was not answered in time, nothing is asked for so long: the run must not stand still."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_MOST_IDS = 500
"""Jobs named in one command: its line has a limit."""


class NoAnswerError(Exception):
    """A command of the batch system failed or took too long; what it said."""


class NoProgramError(NoAnswerError):
    """The command is not on this machine."""


@dataclass(frozen=True)
class CommandAnswer:
    """What a batch system said of jobs."""

    found: Mapping[JobId, JobStatus]
    whole: bool = True
    """Whether all of it was understood, so that a job that is not in it is not there."""


def _long_enough(walltime: int) -> int:
    if walltime < SHORTEST_WALLTIME:
        raise ValueError(
            f"{walltime} seconds are too short for a worker: write minutes as 10m or 00:10:00, hours as 4h, at least 1m"
        )
    return walltime


class BatchStrategy(Strategy):
    """Workers as jobs of a batch system: what a strategy for another one, here or in your package, derives from.

    It has the settings that all share (`walltime`, `join_timeout`, `poll_every`), waits out a batch system that does
    not answer, and gives up a job only when it is out of sight twice. A subclass says `system`, and defines

    - `render(launch, workers)`: the text to submit, pure; `launch.filled(launch.blanks(worker))` has no blanks left,
    - `submit(launch, workers)`: hand the text to the batch system by `hand_in`; all workers or none,
    - `cancel(jobs)`: by `cancel_with`,
    - `_poll(jobs)`: ask about jobs by `ask`, and say with a table of `NativeStates` what its words mean,
    - `_traced()`: the jobs of this user that carry our marks, from any run.
    """

    system: ClassVar[str]
    """What people call it."""
    set_up_nowhere: ClassVar[tuple[str, ...]] = ()
    """What its commands say on a machine that has them, and no cluster: there are no jobs then."""

    walltime: Annotated[Seconds, AfterValidator(_long_enough)] | None = None
    """How long a worker may live: `04:00:00`, `4h`, at least a minute. It takes no task that would not finish by then,
    hands over its data and leaves shortly before; its replacement is submitted in time."""
    join_timeout: Seconds = Field(default=300, ge=1)
    """How long a job may run until its worker has joined the run; then it is cancelled and replaced."""
    poll_every: Seconds = Field(default=5, ge=1)
    """Seconds between two polls of the queue."""

    _clock: Callable[[], float] = PrivateAttr(default=time.monotonic)
    _quiet_until: float = PrivateAttr(default=0.0)
    _out_of_sight: dict[JobId, float] = PrivateAttr(default_factory=dict)
    """Jobs that the batch system did not know when asked → since when."""

    @property
    def seconds_between_polls(self) -> float:
        """As the setting says."""
        return float(self.poll_every)

    @property
    def lifetime(self) -> Lifetime | None:
        """The walltime."""
        return None if self.walltime is None else Lifetime(self.walltime)

    @property
    def seconds_to_join(self) -> float:
        """As the setting says."""
        return float(self.join_timeout)

    def poll(self, jobs: Sequence[JobId]) -> dict[JobId, JobStatus]:
        """How these jobs are; nothing at all while the batch system does not answer."""
        if not jobs or self._clock() < self._quiet_until:
            return {}
        try:
            answer = self._poll(jobs)
        except TimeoutError:
            self._quiet_until = self._clock() + QUIET_SECONDS
            return {}
        except NoAnswerError:
            return {}
        found = {job: answer.found[job] for job in jobs if job in answer.found}
        for job in found:
            self._out_of_sight.pop(job, None)
        unseen = {job: self._unseen(job) for job in jobs if job not in found} if answer.whole else {}
        return found | unseen

    @abstractmethod
    def _poll(self, jobs: Sequence[JobId]) -> CommandAnswer:
        """Ask the batch system; raises NoAnswerError or TimeoutError."""

    def trace(self, run: str | None = None) -> list[TracedJob]:
        """Ask the batch system, if it is here."""
        try:
            return [job for job in self._traced() if run in (None, job.run)]
        except NoProgramError:
            return []
        except (NoAnswerError, TimeoutError) as problem:
            if any(words in str(problem) for words in self.set_up_nowhere):
                return []
            raise error(BATCH_SYSTEM, f"{self.system} does not answer: {problem}") from problem

    @abstractmethod
    def _traced(self) -> list[TracedJob]:
        """Jobs of this user that carry our marks; raises NoAnswerError or TimeoutError."""

    def _unseen(self, job: JobId) -> JobStatus:
        """A job that is nowhere to be seen: it counts as lost only when it is not there the next time either."""
        since = self._out_of_sight.setdefault(job, self._clock())
        if self._clock() - since < self.poll_every:
            return JobStatus(JobState.UNKNOWN, "", f"{self.system} does not know it yet: asking again")
        return JobStatus(JobState.FAILED, "", f"{self.system} no longer knows it")


def one_line(system: str, key: str, value: str) -> str:
    """A value of a job's description as it is. Raises where it holds a line break: the rest would be read as a line of
    its own, which could say anything."""
    if _CONTROL.search(value):
        words = f"{system} cannot take a line break or another control character, as {key} has: {value!r}"
        raise error(JOB_REFUSED, words, hint="choose a folder for the run, names and settings without them")
    return value


def ask(command: Sequence[str], *, seconds: float = POLL_SECONDS, given: str = "") -> str:
    """What a command prints; `given` is its input. Raises NoAnswerError with its complaint, TimeoutError too late."""
    try:
        done = shell.run_command(command, seconds=seconds, given=given, hears_ctrl_c=False)
    except OSError as problem:
        if isinstance(problem, TimeoutError):
            raise
        kind = NoProgramError if isinstance(problem, FileNotFoundError) else NoAnswerError
        raise kind(str(problem)) from problem
    if done.returncode != 0:
        raise NoAnswerError(said(done.stderr) or said(done.stdout) or f"{command[0]} ended with {done.returncode}")
    return done.stdout


def hand_in(command: Sequence[str], text: str, *, passing: Iterable[str]) -> str:
    """Submit; what the command prints. A complaint with one of the `passing` words may be different a minute later.

    Raises `batch-system` for those, and for silence; `job-refused` for every other complaint.
    """
    program = command[0]
    try:
        done = shell.run_command(command, seconds=SUBMIT_SECONDS, given=text, hears_ctrl_c=False)
    except FileNotFoundError as problem:
        hint = "run it where jobs can be submitted, or choose the strategy `local`"
        raise error(JOB_REFUSED, f"there is no {program} on this machine", hint=hint) from problem
    except OSError as problem:  # it took too long, or this machine takes no more processes
        raise error(BATCH_SYSTEM, str(problem)) from problem
    if done.returncode == 0:
        return done.stdout
    words = said(done.stderr) or said(done.stdout) or f"it ended with exit code {done.returncode}"
    kind = BATCH_SYSTEM if any(word.lower() in words.lower() for word in passing) else JOB_REFUSED
    raise error(kind, words if words.startswith(program) else f"{program}: {words}")


def cancel_with(command: Sequence[str], jobs: Sequence[JobId]) -> None:
    """Stop jobs, however many."""
    for start in range(0, len(jobs), _MOST_IDS):
        try_to([*command, *jobs[start : start + _MOST_IDS]])


def try_to(command: Sequence[str]) -> None:
    """Stop jobs. Complaints are of no use: a job that is gone is fine, and one that stays ends with its scheduler."""
    with suppress(OSError):
        shell.run_command(command, seconds=CANCEL_SECONDS, hears_ctrl_c=False)


def said(text: str) -> str:
    """What a command complained about, on one line."""
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())


def killed_for_memory(err: Path | None, words: Sequence[str]) -> bool:
    """Whether the batch system wrote into the job's errors that memory was the reason."""
    if err is None:
        return False
    text = tail(err)[-4000:].lower()
    return any(word in text for word in words)


def mebibytes(amount: int) -> int:
    """Bytes as batch systems count memory, rounded up."""
    return -(-amount // 2**20)


NativeStates = Mapping[str, tuple[JobState, LossCause]]
"""A batch system's word → what it means here."""
