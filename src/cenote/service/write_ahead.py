"""Have events in the log before anything is done about them; where the log cannot be written, both wait."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from cenote import errors
from cenote.errors import CenoteError
from cenote.service.allocator.messages import ServiceEvent
from cenote.service.log import ServiceLog

_LOG = logging.getLogger("cenote.service")
_MAY_PASS = (errors.DISK_FULL, errors.NO_ACCESS, errors.BROKEN_STORAGE, errors.STILL_RUNNING)
"""Kinds of errors after which the log may be written later: somebody makes room, a file system comes back."""


class WriteAhead:
    """What is to be written, and what is to be done then, in one order."""

    def __init__(self, log: ServiceLog) -> None:
        self._log = log
        self._events: list[ServiceEvent] = []
        self._acts: deque[Callable[[], None]] = deque()
        self._turns = 0
        self.trouble = ""
        """Why nothing can be written just now; empty where it can."""

    def add(self, events: Iterable[ServiceEvent], act: Callable[[], None]) -> None:
        """Write these, then do that: at the end of the turn, or as soon as the log can be written."""
        self._events += events
        self._acts.append(act)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """What is added in here is written at its end, in one piece; turns within turns end with the outermost."""
        self._turns += 1
        try:
            yield
        finally:
            self._turns -= 1
            if not self._turns:
                self.flush()

    def flush(self) -> None:
        """Write and do what waits. What cannot be written waits on, with all that comes after it."""
        try:
            while self._events or self._acts:
                if self._events:
                    self._log.append(self._events)
                    self._events.clear()
                self._acts[0]()
                self._acts.popleft()
        except CenoteError as problem:
            first = problem.problems[0]
            if first.kind not in _MAY_PASS:
                raise
            if not self.trouble:
                _LOG.warning("the log cannot be written, and nothing new is begun: %s", first.message)
            self.trouble = first.message
            return
        if self.trouble:
            _LOG.warning("the log can be written again")
            self.trouble = ""

    def refuse_if_stuck(self) -> None:
        """Raise where what is asked for could not be written down."""
        if self.trouble:
            raise errors.error(
                errors.DISK_FULL,
                f"the service cannot write its log: {self.trouble}",
                hint="nothing was changed; make room, then ask again",
            )
