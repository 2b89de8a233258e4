"""List the functions that take most time, with cProfile, and the lines that allocate most, with tracemalloc."""

from __future__ import annotations

import cProfile
import io
import pstats
import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path

import cenote
from cenote.analysis.modifiers.interface import StageCall
from cenote.analysis.modifiers.profile.flames import Flames, file_of_process
from cenote.common.units import format_bytes
from cenote.common.values import dataclass

BUSY = "another profiler is active, so that it lists no functions; its other measurements are complete"
_CENOTE = Path(cenote.__file__).parent
_OURS = (str(_CENOTE / "analysis" / "modifiers"), str(_CENOTE / "execution" / "worker" / "modified.py"))
"""Where the frames between the profiler and the stage come from."""


class Functions:
    """The calls of one stage in this process, added up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sum: pstats.Stats | None = None
        self._calls = self._events = 0

    @contextmanager
    def around(self, call: StageCall, *, most: int) -> Iterator[None]:
        """Watch one call, and leave the table of all calls so far."""
        profiler = cProfile.Profile()
        if not _enabled(profiler):
            call.warn(BUSY)
            yield
            return
        try:
            yield
        finally:
            profiler.disable()
        with self._lock:
            self._add(profiler)
            call.attach(file_of_process(call.stages, "functions.txt"), self._table(most))

    def _add(self, profiler: cProfile.Profile) -> None:
        found = pstats.Stats(profiler)
        found.stats = {key: value for key, value in found.stats.items() if not _is_ours(key)}  # type: ignore[attr-defined]  # documented by its use in `pstats`
        self._sum = found if self._sum is None else self._sum.add(found)
        self._calls += 1

    def _table(self, most: int) -> str:
        assert self._sum is not None
        text = io.StringIO()
        self._sum.stream = text  # type: ignore[attr-defined]  # as above
        self._sum.sort_stats("cumulative").print_stats(most)
        return f"{self._calls} calls of the stage in this process\n{text.getvalue().rstrip()}\n"


def _enabled(profiler: cProfile.Profile) -> bool:
    """Whether it watches now. Up to Python 3.11 it would push another profiler aside; later ones refuse."""
    if sys.getprofile() is not None:
        return False
    try:
        profiler.enable()
    except ValueError:
        return False
    return True


def _is_ours(key: tuple[str, int, str]) -> bool:
    return key[0].startswith(_OURS) or "_lsprof.Profiler" in key[2]


# List the lines of code that hold most memory, with tracemalloc.


MOST_LINES = 30
DEPTH = 16
"""Frames that are kept of each allocation: enough to find who called a library."""
_INSTALLED = ("/site-packages/", "/dist-packages/", str(_CENOTE), "<")
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


# Hold what looks closer at the calls of a stage: imported where the settings ask for it alone.


@dataclass(frozen=True)
class Tools:
    """What adds up the calls of one stage."""

    functions: Functions = field(default_factory=Functions)
    flames: Flames = field(default_factory=Flames)
    allocations: Allocations = field(default_factory=Allocations)
