"""List the lines of code that hold most memory, with tracemalloc."""

from __future__ import annotations

import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cenote.modifiers.interface import StageCall
from cenote.modifiers.profile.names import file_of_process
from cenote.units import format_bytes

MOST_LINES = 30
DEPTH = 16
"""Frames that are kept of each allocation: enough to find who called a library."""
_INSTALLED = ("/site-packages/", "/dist-packages/", str(Path(__file__).parents[2]), "<")
"""Where lines are that users did not write; `<` begins names that are no files."""


class Allocations:
    """The calls of one stage in this process, added up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes: Counter[str] = Counter()
        self._blocks: Counter[str] = Counter()
        self._calls = 0

    @contextmanager
    def around(self, call: StageCall) -> Iterator[None]:
        """Trace one call, and leave the table of all calls so far."""
        with _TRACING.on():
            tracemalloc.reset_peak()
            before, held = tracemalloc.take_snapshot(), tracemalloc.get_traced_memory()[0]
            blocks = sys.getallocatedblocks()
            yield
            blocks = sys.getallocatedblocks() - blocks
            call.note(allocated=max(0, tracemalloc.get_traced_memory()[1] - held), blocks=blocks)
            after = tracemalloc.take_snapshot()
        with self._lock:
            self._add(before, after)
            call.attach(file_of_process(call.stages, "allocations.txt"), self._table())

    def _add(self, before: tracemalloc.Snapshot, after: tracemalloc.Snapshot) -> None:
        own = [tracemalloc.Filter(inclusive=False, filename_pattern=tracemalloc.__file__)]
        for found in after.filter_traces(own).compare_to(before.filter_traces(own), "traceback"):
            if found.size_diff > 0:
                place = _place(found.traceback)
                self._bytes[place] += found.size_diff
                self._blocks[place] += max(0, found.count_diff)
        self._calls += 1

    def _table(self) -> str:
        rows = [
            f"{format_bytes(size):>10}  {self._blocks[place]:>10,}  {place}"
            for place, size in self._bytes.most_common(MOST_LINES)
        ]
        head = f"{self._calls} calls of the stage in this process: memory still in use when they ended, added up"
        return "\n".join([head, f"{'memory':>10}  {'blocks':>10}  line", *rows, ""])


def _place(trace: tracemalloc.Traceback) -> str:
    """The innermost line outside installed packages, and of those alone the innermost one."""
    own = [frame for frame in trace if not any(folder in frame.filename for folder in _INSTALLED)]
    frame = (own or trace)[-1]
    return f"{frame.filename}:{frame.lineno}"


class _Tracing:
    """Tracing is one for the process: it ends with the last of its users, unless it was on before the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0

    @contextmanager
    def on(self) -> Iterator[None]:
        """While this lasts."""
        with self._lock:
            if not tracemalloc.is_tracing():
                tracemalloc.start(DEPTH)
                self._users = 0
            elif self._users == 0:
                self._users = 1  # somebody else's
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    tracemalloc.stop()


_TRACING = _Tracing()
