"""Sample the stack of a stage with pyinstrument, and draw what all processes sampled as one flame graph."""

from __future__ import annotations

import os
import platform
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from html import escape
from pathlib import Path

import cenote
from cenote.analysis.modifiers.interface import FinishedRun, StageCall
from cenote.analysis.operations.support import own_code
from cenote.common.text import compiled_together, plain_name
from cenote.common.units import format_seconds

# Draw stacks as a flame graph: an SVG picture that needs nothing else, and names every frame under the mouse.


WIDTH = 1200
MARGIN = 12
ROW = 18
HEAD = 44
"""Room for the title."""
LETTER = 6.6
"""Width of one letter."""
NARROWEST = 0.4
"""Frames below this width are left out: nobody could see them."""
_WIDE = "as wide as the time that it took"
_FONT = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="11"'
_STYLE = "<style>g:hover rect { stroke: #222; stroke-width: 1 } text { fill: #1c1c1c; pointer-events: none }</style>"
_HUES = {"python": 28, "compiled": 205}
"""Colours tell compiled code from Python; the shade tells files apart."""


@dataclass
class _Frame:
    """A function, with those that it called."""

    name: str
    spent: int = 0
    inner: dict[str, _Frame] = field(default_factory=dict)


def flame_graph(stacks: Mapping[str, int], *, title: str) -> str:
    """Of stacks, the outermost frame first and `;` in between, with the microseconds that each took."""
    root = _tree(stacks)
    scale = (WIDTH - 2 * MARGIN) / max(1, root.spent)
    boxes = list(_boxes(root, MARGIN, 0, scale, root.spent))
    height = HEAD + ROW * (1 + max((row for row, _ in boxes), default=0)) + MARGIN
    size = f'width="{WIDTH}" height="{height}"'
    about = f"{format_seconds(root.spent / 1e6)} of samples; each box is a function above those that it calls, {_WIDE}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {size} {_FONT}>',
            _STYLE,
            f'<rect {size} fill="#fffdf9"/>',
            f'<text x="{MARGIN}" y="20" font-size="14" font-weight="bold">{escape(title)}</text>',
            f'<text x="{MARGIN}" y="36">{about}</text>',
            *(box for _, box in boxes),
            "</svg>",
            "",
        ]
    )


def _tree(stacks: Mapping[str, int]) -> _Frame:
    root = _Frame("all")
    for stack, spent in stacks.items():
        root.spent += spent
        here = root
        for name in stack.split(";"):
            here = here.inner.setdefault(name, _Frame(name))
            here.spent += spent
    return next(iter(root.inner.values())) if len(root.inner) == 1 else root


def _boxes(frame: _Frame, left: float, row: int, scale: float, whole: int) -> Iterator[tuple[int, str]]:
    """Each box with its row, those that are called below the one that calls."""
    pending = [(frame, left, row)]
    while pending:
        frame, left, row = pending.pop()
        width = frame.spent * scale
        if width < NARROWEST:
            continue
        yield row, _box(frame, left, HEAD + ROW * row, width, whole)
        for inner in sorted(frame.inner.values(), key=lambda one: one.name):
            pending.append((inner, left, row + 1))
            left += inner.spent * scale


def _box(frame: _Frame, left: float, top: int, width: float, whole: int) -> str:
    share = 100 * frame.spent / max(1, whole)
    told = f"{frame.name}: {format_seconds(frame.spent / 1e6)}, {share:.1f}%"
    room = int((width - 6) / LETTER)
    words = frame.name if len(frame.name) <= room else f"{frame.name[: room - 1]}…" if room >= 3 else ""
    text = f'<text x="{left + 3:.1f}" y="{top + 13}">{escape(words)}</text>' if words else ""
    return (
        f"<g><title>{escape(told)}</title>"
        f'<rect x="{left:.1f}" y="{top}" width="{max(width - 0.5, NARROWEST):.1f}" height="{ROW - 1}" rx="2" '
        f'fill="{_colour(frame.name)}"/>{text}</g>'
    )


def _colour(name: str) -> str:
    """The same for the functions of one file."""
    _, _, place = name.rpartition(" (")
    file = place.partition(":")[0]
    hue = _HUES["python" if file.endswith(".py") else "compiled"]
    digest = blake2b(file.encode(), digest_size=2).digest()
    return f"hsl({hue + digest[0] % 24 - 12}, {55 + digest[1] % 20}%, {72 + digest[0] % 12}%)"


# Name the files of a stage.


def stage_name(stages: Sequence[str]) -> str:
    """As files are named after a stage, or after those that are compiled together: `Slow`, `Pairs+Hardest+Pt`."""
    return plain_name("+".join(stages))


def file_of_process(stages: Sequence[str], kind: str) -> str:
    """`Slow/node7-4711.functions.txt`: processes of several machines leave theirs in one folder."""
    return f"{stage_name(stages)}/{plain_name(platform.node() or 'host')}-{os.getpid()}.{kind}"


INTERVAL = 0.001
"""Seconds between samples."""
MISSING = "there is no flame graph, because a worker lacks pyinstrument: pip install 'cenote[profile]'"
BUSY = "another profiler is active, so that there is no flame graph of some calls; other measurements are complete"
_INSTALLED = (
    "site-packages/",
    "dist-packages/",
    f"python{sys.version_info[0]}.{sys.version_info[1]}/",
    f"{Path(cenote.__file__).parents[1]}/",
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
