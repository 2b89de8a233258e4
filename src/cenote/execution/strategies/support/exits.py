"""Say in words how the process of a worker ended, and number workers in series."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from signal import Signals

from cenote.common import shell
from cenote.common.values import dataclass
from cenote.engine.messages import JobState, LossCause
from cenote.execution.start_failures import StartFailure
from cenote.execution.strategies.interface import JobStatus
from cenote.execution.worker.process.memory import EXIT_OUT_OF_MEMORY

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


# Number workers whose names differ in their last digits only: many of them then need one submission.


_THOUSAND = 1000
"""Numbers in a series."""


@dataclass(frozen=True)
class Series:
    """Workers whose names differ in the last digits only: `gpu-1` and `gpu-2`, or `gpu-1001` and `gpu-1002`."""

    prefix: str
    """`gpu-`, or `gpu-1`."""
    numbers: tuple[int, ...]
    """What follows it, from 0 to 999."""
    digits: int
    """How many each number is written with, zeros first; 0 for as many as it needs."""

    def name(self, number: int) -> str:
        """Of the worker with this number."""
        return f"{self.prefix}{number:0{self.digits}}"


def in_thousands(workers: Sequence[str]) -> list[tuple[str, ...]]:
    """Neighbours that are one series; a worker whose name ends in no number is alone."""
    return [tuple(group) for _, group in groupby(workers, key=lambda worker: series_of([worker]).prefix)]


def series_of(workers: Sequence[str]) -> Series:
    """What workers that are one series have in common."""
    split = [_split(worker) for worker in workers]
    prefix, first = split[0]
    numbers = tuple(number % _THOUSAND for _, number in split)
    thousand = first // _THOUSAND
    return Series(f"{prefix}{thousand}", numbers, 3) if thousand else Series(prefix, numbers, 0)


def _split(worker: str) -> tuple[str, int]:
    """`gpu-1002` → `gpu-` and 1002."""
    match = re.fullmatch(r"(.*-)(0|[1-9]\d*)", worker)
    return (match[1], int(match[2])) if match else (worker, 0)


def ranges(numbers: Sequence[int]) -> str:
    """(1, 2, 3, 7) → `1-3,7`."""
    ordered = sorted(numbers)
    runs = groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0])
    spans = [[number for _, number in run] for _, run in runs]
    return ",".join(f"{span[0]}-{span[-1]}" if len(span) > 1 else str(span[0]) for span in spans)
