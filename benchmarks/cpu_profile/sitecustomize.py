"""Sample the stack of every Python process by its CPU time, and keep the samples in a folder.

Python imports this file by its name, in every process that has its folder in PYTHONPATH.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import FrameType

_EVERY = 0.005
_WRITE_AFTER = 100
"""Samples after which they are written: a process may be killed."""
_stacks: Counter[tuple[str, ...]] = Counter()


def _sample(_signal: int, frame: FrameType | None) -> None:
    stack = []
    while frame is not None:
        stack.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")
        frame = frame.f_back
    _stacks[tuple(stack)] += 1
    if _stacks.total() % _WRITE_AFTER == 0:
        _write()


def _write() -> None:
    used = os.times()
    found = {"command": sys.argv[:3], "cpu": used.user + used.system, "stacks": list(_stacks.items())}
    file = Path(os.environ["CPU_PROFILE"], f"{os.getpid()}.json")
    unfinished = file.with_suffix(".part")
    unfinished.write_text(json.dumps(found), encoding="utf-8")
    unfinished.rename(file)


def _start() -> None:
    _stacks.clear()
    signal.signal(signal.SIGPROF, _sample)
    signal.setitimer(signal.ITIMER_PROF, _EVERY, _EVERY)


def _end() -> None:
    signal.setitimer(signal.ITIMER_PROF, 0)
    with suppress(OSError):
        _write()


if "CPU_PROFILE" in os.environ:
    _start()
    atexit.register(_end)
    os.register_at_fork(after_in_child=_start)
