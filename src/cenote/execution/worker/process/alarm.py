"""Let the system end this process when a stage is past its time limit and keeps Python from noticing."""

from __future__ import annotations

import signal
from collections.abc import Iterable

GRACE = 3.0
"""Seconds past the limit: where Python's lock is free, a thread has ended the process by then, with a word to the
driver. Code that holds the lock, such as a long call into C, is ended by SIGALRM, and the driver knows what that means.
"""


def end_when_over(seconds: Iterable[float]) -> None:
    """In place of all that was said before: stages have so much time left. None have a limit where there are none."""
    signal.setitimer(signal.ITIMER_REAL, max(0.0, min(seconds, default=-GRACE) + GRACE))


def listen_to_alarm() -> None:
    """At the start of a process, in its main thread: whatever started it may have been deaf to SIGALRM."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
