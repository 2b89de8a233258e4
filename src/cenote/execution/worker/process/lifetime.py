"""Divide the time that a batch system gives to a worker: for tasks, for ending them, for handing over."""

from __future__ import annotations

from collections.abc import Mapping

from cenote.common.values import dataclass

STARTED, ENDS = "CENOTE_JOB_STARTED", "CENOTE_JOB_ENDS"
"""Variables in which a job may tell its worker when it started, and when the batch system ends it: seconds since the
epoch. What comes before the worker counts too, and a site may give less time than was asked for."""
GRACE = "CENOTE_JOB_GRACE"
"""Variable in which a job may tell its worker how many seconds it has to hand over its data after SIGTERM."""
_SHORTEST_SPARE, _LONGEST_SPARE = 30, 300
"""Seconds between the last task that a worker begins and the end of its time."""


@dataclass(frozen=True)
class Lifetime:
    """How long a worker may live, in seconds from its start."""

    seconds: int
    """When the batch system ends it."""

    @property
    def leaves(self) -> int:
        """When it begins nothing new, at the latest: a tenth of its time is left, though never more than half."""
        spare = min(_LONGEST_SPARE, max(_SHORTEST_SPARE, self.seconds // 10))
        return max(self.seconds - spare, self.seconds // 2)

    @property
    def gives_up(self) -> int:
        """When it stops waiting for tasks that still run: the rest is for moving its data to others."""
        return self.seconds - (self.seconds - self.leaves) // 3


def lifetime_of_job(walltime: int | None, variables: Mapping[str, str], now: float) -> tuple[Lifetime | None, float]:
    """How long the worker that starts now may live, and how much of that is over: from what was asked for, and from
    what the job tells."""
    started = _seconds(variables.get(STARTED)) or now
    known = [walltime] if walltime else []
    if (ends := _seconds(variables.get(ENDS))) and ends > started:
        known.append(int(ends - started))
    return (Lifetime(min(known)) if known else None), max(0.0, now - started)


def grace_of_job(variables: Mapping[str, str]) -> int | None:
    """Seconds that the worker has after SIGTERM, where its job says so; otherwise it ends at once."""
    return _seconds(variables.get(GRACE))


def _seconds(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
