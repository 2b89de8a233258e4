"""Decide which workers on Dask do not answer: by their heartbeats, and by how their processes are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from cenote.backends.dask.messages import AnswersAgain, StopsAnswering
from cenote.backends.support.process_state import VitalSigns

LOOK_EVERY = 1.0
_QUIET = 10.0
"""Seconds without a heartbeat after which a worker counts as silent: they come every half second, or every few on a
machine with more to do than it can."""
_MISSED = 10
"""Heartbeats that are missing by then at the least: where there are many workers, they come less often."""
_STANDSTILL = 2.0
"""If this process itself did not look for so long, it could not hear anybody."""


class Heartbeats:
    """Remembers when each worker was last known to live."""

    def __init__(self, patience: float) -> None:
        self._quiet = min(_QUIET, patience / 2)
        self._looked: float | None = None
        self._excused: dict[str, float] = {}
        """Workers → until when their silence does not count: they computed, or we did not listen."""
        self._computed: dict[str, int] = {}
        self._silent: set[str] = set()

    def look(
        self, now: float, heard: Mapping[str, float], signs: Callable[[str], VitalSigns | None], *, every: float
    ) -> Iterator[StopsAnswering | AnswersAgain]:
        """What has changed; `heard` is when each worker was last heard of, `every` how often that should be.

        A worker of this machine that computes is not silent: user code may hold Python's lock for minutes.
        """
        if self._looked is None or now - self._looked > LOOK_EVERY + _STANDSTILL:
            self._excused = dict.fromkeys(heard, now)
        self._looked = now
        self._silent &= heard.keys()
        limit = max(self._quiet, _MISSED * every) if self._quiet == _QUIET else self._quiet
        for worker, last in heard.items():
            silence = now - max(last, self._excused.get(worker, last))
            if silence > limit / 2 and self._computes(worker, signs):
                self._excused[worker], silence = now, 0.0
            if silence > limit and worker not in self._silent:
                self._silent.add(worker)
                yield StopsAnswering(worker, silence)
            elif silence <= limit and worker in self._silent:
                self._silent.discard(worker)
                yield AnswersAgain(worker)

    def _computes(self, worker: str, signs: Callable[[str], VitalSigns | None]) -> bool:
        """Whether it has had a core since it was last looked at."""
        found = signs(worker)
        if found is None or found.stopped:
            return False
        before = self._computed.get(worker, -1)  # looked at for the first time, it has the benefit of the doubt
        self._computed[worker] = found.computed
        return found.computed > before
