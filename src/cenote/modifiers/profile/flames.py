"""Sample the stack of a stage with pyinstrument, and draw what all processes sampled as one flame graph."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from cenote.modifiers.interface import FinishedRun, StageCall
from cenote.modifiers.profile.flame_graph import flame_graph
from cenote.modifiers.profile.names import file_of_process, stage_name
from cenote.operations.support import own_code
from cenote.text import compiled_together

INTERVAL = 0.001
"""Seconds between samples."""
MISSING = "there is no flame graph, because a worker lacks pyinstrument: pip install 'cenote[profile]'"
BUSY = "another profiler is active, so that there is no flame graph of some calls; other measurements are complete"
_INSTALLED = (
    "site-packages/",
    "dist-packages/",
    f"python{sys.version_info[0]}.{sys.version_info[1]}/",
    f"{Path(own_code.__file__).parents[3]}/",
)
"""After which a path tells people something."""
_KIND = "folded"
_OURS = str(Path(own_code.__file__).parent)
"""Where the frames between an operation and somebody's function come from."""

Folded = Mapping[str, int]
"""Stack, the outermost frame first and `;` in between → microseconds."""


class Flames:
    """The calls of one stage in this process, added up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stacks: Counter[str] = Counter()

    @contextmanager
    def around(self, call: StageCall) -> Iterator[None]:
        """Sample this thread during one call, and leave the sum of all calls so far."""
        try:
            from pyinstrument import Profiler
        except ImportError:
            call.warn(MISSING)
            yield
            return
        if sys.getprofile() is not None:
            call.warn(BUSY)
            yield
            return
        profiler = Profiler(interval=INTERVAL, async_mode="disabled")
        profiler.start()
        try:
            yield
        finally:
            session = profiler.stop()
        entry = _entry(call)
        with self._lock:
            for stack, seconds in session.frame_records:
                frames = _within(stack, entry)
                if frames is not None:
                    self._stacks[";".join([call.stage, *map(_label, frames)])] += round(seconds * 1e6)
            call.attach(file_of_process(call.stages, _KIND), folded_text(self._stacks))


def _entry(call: StageCall) -> str:
    """The frame in which the operation runs, as samples have it."""
    code = getattr(type(call.operation).run, "__code__", None)
    return f"{code.co_name}\0{code.co_filename}\0{code.co_firstlineno}" if code else ""


def _within(stack: Sequence[str], entry: str) -> Sequence[str] | None:
    """The frames inside the operation; None where the sample is of what is around it."""
    place = next((n for n, frame in enumerate(stack) if frame.partition("\x01")[0] == entry), None)
    if place is None:
        return None
    place += 1
    while place < len(stack) and stack[place].split("\0")[1].startswith(_OURS):
        place += 1
    return stack[place:]


def _label(frame: str) -> str:
    """`select (ops.py:12)`, `ndarray.sort (built-in)`; `;` and line breaks would end a frame or a stack."""
    function, _, place = frame.partition("\x01")[0].partition("\0")
    file, _, line = place.partition("\0")
    for folder in _INSTALLED:
        file = file.rpartition(folder)[2]
    file = Path(file).name if file.startswith("/") else file
    where = file.strip("<>") if file.startswith("<") else f"{file}:{line}"
    return " ".join(f"{function} ({where})".replace(";", ",").split())


def folded_text(stacks: Folded) -> str:
    """One line per stack, as other programs for flame graphs read it."""
    return "".join(f"{stack} {spent}\n" for stack, spent in sorted(stacks.items()))


def read_folded(texts: Iterable[str]) -> Folded:
    """Several such texts, added up."""
    found: Counter[str] = Counter()
    for text in texts:
        for line in text.splitlines():
            stack, _, spent = line.rpartition(" ")
            found[stack] += int(spent)
    return found


def write_flames(run: FinishedRun) -> None:
    """One file of stacks and one picture for each stage, or for those that were compiled together."""
    for stages in (*((stage,) for stage in run.stages), *run.groups):
        name = stage_name(stages)
        files = sorted((run.folder / name).glob(f"*.{_KIND}"))
        stacks = read_folded(file.read_text(encoding="utf-8") for file in files)
        if stacks:
            run.write(f"{name}.{_KIND}", folded_text(stacks))
            run.write(
                f"{name}.svg", flame_graph(stacks, title=stages[0] if len(stages) == 1 else compiled_together(stages))
            )
