"""Say in words how the process of a worker ended: the one home of what exit codes and signals mean."""

from __future__ import annotations

from signal import Signals

from cenote import shell
from cenote.engine.messages import JobState, LossCause
from cenote.start_failures import StartFailure
from cenote.strategies.interface import JobStatus
from cenote.worker.process.memory import EXIT_OUT_OF_MEMORY

_CAUSES: dict[StartFailure, LossCause] = {
    StartFailure.OTHER_SOFTWARE: "unfit",
    StartFailure.NO_DRIVER: "unreachable",
}
"""Those that the engine treats in a way of their own."""


def exit_status(code: int, signal: int, native: str) -> JobStatus:
    """How a program ended that nobody stopped; `signal` is 0 for one that ended by itself."""
    ended = -signal or code
    cause: LossCause = "crashed" if shell.is_fault(ended) else "overdue" if shell.is_overdue(ended) else "died"
    if signal:
        return JobStatus(JobState.FAILED, native, f"it was killed by {_name(signal)}", cause)
    if code == 0:
        return JobStatus(JobState.ENDED, native, "it exited", "retired")
    if code == EXIT_OUT_OF_MEMORY:
        return JobStatus(JobState.FAILED, native, "it exceeded its memory limit", "oom")
    if (failure := StartFailure.of(code)) is not None:
        return JobStatus(JobState.FAILED, native, str(failure), _CAUSES.get(failure, cause))
    return JobStatus(JobState.FAILED, native, f"it ended with exit code {code}", cause)


def _name(signal: int) -> str:
    return Signals(signal).name if signal in {known.value for known in Signals} else f"signal {signal}"
