"""List the functions that take most time, with cProfile."""

from __future__ import annotations

import cProfile
import io
import pstats
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cenote.modifiers.interface import StageCall
from cenote.modifiers.profile.names import file_of_process

BUSY = "another profiler is active, so that it lists no functions; its other measurements are complete"
_OURS = (str(Path(__file__).parent.parent), str(Path(__file__).parents[2] / "worker" / "modified.py"))
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
