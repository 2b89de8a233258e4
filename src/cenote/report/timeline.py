"""Lay out when each pool was busy, and what every slot of every worker ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from cenote.common.text import plural
from cenote.common.units import format_seconds
from cenote.common.values import dataclass
from cenote.execution.runs.view.task_names import MERGE, TaskNames
from cenote.execution.runs.view.timeline import TaskSpan, Timeline, WorkerSlot

WIDTH, LANE, LEFT, GAP = 960.0, 44.0, 130.0, 10.0


@dataclass(frozen=True)
class PoolLane:
    """One pool: its name, the outline of its work, the line it stands on, and the most tasks at once."""

    pool: str
    points: str
    base: float
    most: float


@dataclass(frozen=True)
class PoolLanes:
    """The picture, in points."""

    title: str
    seconds: float
    lanes: tuple[PoolLane, ...]
    left: float = LEFT
    width: float = WIDTH
    lane: float = LANE

    @property
    def height(self) -> float:
        """With a line for the times below."""
        return len(self.lanes) * (LANE + GAP) + 26


def timeline(work: Timeline) -> PoolLanes | None:
    """None for a run of which no task is known."""
    if not work.pools:
        return None
    highest = ", ".join(f"{pool} up to {max(running):.3g}" for pool, running in work.pools)
    title = f"Tasks running at once over {format_seconds(work.seconds)}: {highest}"
    lanes = tuple(_lane(pool, running, index) for index, (pool, running) in enumerate(work.pools))
    return PoolLanes(title, work.seconds, lanes)


def _lane(pool: str, running: tuple[float, ...], index: int) -> PoolLane:
    base = index * (LANE + GAP) + LANE + 4
    most = max(running) or 1.0
    step = (WIDTH - LEFT) / len(running)
    points = [f"{LEFT:.1f},{base:.1f}"]
    for place, value in enumerate(running):
        y = base - LANE * value / most
        points += [f"{LEFT + place * step:.1f},{y:.1f}", f"{LEFT + (place + 1) * step:.1f},{y:.1f}"]
    points.append(f"{WIDTH:.1f},{base:.1f}")
    return PoolLane(pool, " ".join(points), base, most)


# Lay out what every slot of every worker ran and when: a bar for each task; of very many, bars are joined.


MOST_LANES = 60
"""Slots that are drawn; of more, those that were busy the longest."""
MOST_BARS = 4000
"""Bars of the whole picture; with more tasks, neighbours in a slot are joined."""
FEWEST_BARS = 40
"""Bars that a slot has room for, whatever the others need."""
COLOURS = 5
HEIGHT, TASK_GAP, POOL_GAP, FOOT = 12.0, 3.0, 12.0, 22.0
NARROWEST = 0.8
"""Points that the shortest task is wide."""
MOST_MESSAGE = 200


@dataclass(frozen=True)
class Bar:
    """What is drawn as one: a task, or several in a row."""

    spans: tuple[TaskSpan, ...]

    @property
    def start(self) -> float:
        """Seconds."""
        return self.spans[0].start

    @property
    def end(self) -> float:
        """Seconds."""
        return max(span.end for span in self.spans)


@dataclass(frozen=True)
class TaskBar:
    """A bar of the picture, and what a pointer over it shows."""

    x: float
    y: float
    width: float
    kind: str
    """Its classes."""
    words: str


@dataclass(frozen=True)
class WorkerLabel:
    """The name of a worker beside its first lane."""

    y: float
    words: str


@dataclass(frozen=True)
class TaskLanes:
    """The picture, in points: a lane for each slot."""

    title: str
    caption: str
    seconds: float
    bottom: float
    """Where the lanes end, and the times begin."""
    workers: tuple[WorkerLabel, ...]
    bars: tuple[TaskBar, ...]
    legend: tuple[tuple[str, str], ...]
    """(class, words)"""
    left: float = LEFT
    width: float = WIDTH
    bar_height: float = HEIGHT
    foot: float = FOOT


def task_timeline(work: Timeline, names: TaskNames) -> TaskLanes | None:
    """None for a run of which no task is known."""
    if not work.slots or work.seconds <= 0:
        return None
    lanes = shown_slots(work.slots)
    shortest = work.seconds / max(FEWEST_BARS, MOST_BARS // len(lanes))
    tasks = sum(len(slot.spans) for slot in work.slots)
    joins = sum(len(slot.spans) for slot in lanes) > MOST_BARS
    bars = [bars_of(slot, shortest) if joins else [Bar((span,)) for span in slot.spans] for slot in lanes]
    tops = list(_tops(lanes))
    colours = _colours(names, lanes)
    remarks = [f"{plural(tasks, 'task')}, each in the slot of the worker that ran it.", *_remarks(work, lanes, bars)]
    return TaskLanes(
        title=f"What {plural(len(work.slots), 'slot')} of workers ran over {format_seconds(work.seconds)}",
        caption=" ".join(remarks),
        seconds=work.seconds,
        bottom=tops[-1] + HEIGHT,
        workers=tuple(_workers(lanes, tops)),
        bars=tuple(
            _bar(bar, slot, top, work.seconds, names, colours)
            for slot, found, top in zip(lanes, bars, tops, strict=True)
            for bar in found
        ),
        legend=tuple(_legend(names, colours, lanes)),
    )


def shown_slots(slots: Sequence[WorkerSlot]) -> list[WorkerSlot]:
    """All if they fit, else those that were busy the longest; in their order."""
    if len(slots) <= MOST_LANES:
        return list(slots)
    busy = [sum(span.end - span.start for span in slot.spans) for slot in slots]
    chosen = sorted(sorted(range(len(slots)), key=lambda place: -busy[place])[:MOST_LANES])
    return [slots[place] for place in chosen]


def bars_of(slot: WorkerSlot, shortest: float) -> list[Bar]:
    """Neighbours joined until each bar is so long; long tasks stand alone, and so do those that failed."""
    bars: list[Bar] = []
    together: list[TaskSpan] = []
    for span in slot.spans:
        alone = span.failure is not None or span.cut_off or span.end - span.start >= shortest
        if together and (alone or together[-1].end - together[0].start >= shortest):
            bars.append(Bar(tuple(together)))
            together = []
        if alone:
            bars.append(Bar((span,)))
        else:
            together.append(span)
    return [*bars, Bar(tuple(together))] if together else bars


def _tops(lanes: Sequence[WorkerSlot]) -> Iterator[float]:
    """Where each lane begins: a little apart where another pool does."""
    top, pool = 4.0, lanes[0].pool
    for slot in lanes:
        top += POOL_GAP if slot.pool != pool else 0.0
        pool = slot.pool
        yield top
        top += HEIGHT + TASK_GAP


def _workers(lanes: Iterable[WorkerSlot], tops: Iterable[float]) -> Iterator[WorkerLabel]:
    """The name of each worker at its first lane."""
    before = None
    for slot, top in zip(lanes, tops, strict=True):
        if (slot.pool, slot.worker) != before:
            words = slot.worker if len(slot.worker) <= 18 else f"{slot.worker[:8]}…{slot.worker[-9:]}"
            yield WorkerLabel(top + HEIGHT - 2, words)
        before = slot.pool, slot.worker


def _bar(bar: Bar, slot: WorkerSlot, top: float, seconds: float, names: TaskNames, colours: dict[int, str]) -> TaskBar:
    scale = (WIDTH - LEFT) / seconds
    start = LEFT + max(0.0, bar.start) * scale
    width = max(NARROWEST, (bar.end - max(0.0, bar.start)) * scale)
    return TaskBar(min(start, WIDTH - NARROWEST), top, width, _class(bar, names, colours), _words(bar, slot, names))


def _class(bar: Bar, names: TaskNames, colours: dict[int, str]) -> str:
    if bar.spans[0].failure is not None:
        return "task failed-task"
    most = Counter(names.segment(span.task) for span in bar.spans).most_common(1)[0][0]
    return f"task {colours[most]}" + (" cut-off" if bar.spans[0].cut_off else "")


def _words(bar: Bar, slot: WorkerSlot, names: TaskNames) -> str:
    """What a pointer over the bar shows."""
    when = f"{format_seconds(max(0.0, bar.start))} to {format_seconds(bar.end)}"
    where = f"{slot.worker} of pool {slot.pool}, {when}"
    if len(bar.spans) > 1:
        kinds = Counter(names.stages(names.segment(span.task)) for span in bar.spans)
        busy = sum(span.end - span.start for span in bar.spans)
        lines = [f"{len(bar.spans)} tasks, {format_seconds(busy)} together", where]
        return "\n".join([*lines, *(f"{stages}: {count}" for stages, count in kinds.most_common(5))])
    span = bar.spans[0]
    lines = [f"task {span.task}: {names.stages(names.segment(span.task))}", names.partition(span.task), where]
    lines.append(f"took {format_seconds(span.end - span.start)}" if not span.cut_off else "its end was not reported")
    if span.failure is not None:
        lines.append(f"failed: {span.failure[:MOST_MESSAGE]}")
    return "\n".join(filter(None, lines))


def _colours(names: TaskNames, lanes: Iterable[WorkerSlot]) -> dict[int, str]:
    """Segment → its class; merges are pale."""
    found = sorted({names.segment(span.task) for slot in lanes for span in slot.spans})
    return {segment: "merge" if segment == MERGE else f"lane{segment % COLOURS}" for segment in found}


def _legend(names: TaskNames, colours: dict[int, str], lanes: Iterable[WorkerSlot]) -> Iterator[tuple[str, str]]:
    yield from [(colour, names.stages(segment)) for segment, colour in colours.items() if segment != MERGE][:12]
    spans = [span for slot in lanes for span in slot.spans]
    if MERGE in colours:
        yield "merge", "merges"
    if any(span.failure is not None for span in spans):
        yield "failed-task", "failed"
    if any(span.cut_off for span in spans):
        yield "cut-off", "cut off"


def _remarks(work: Timeline, lanes: Sequence[WorkerSlot], bars: Sequence[Sequence[Bar]]) -> Iterator[str]:
    if any(len(bar.spans) > 1 for found in bars for bar in found):
        yield "There are more tasks than fit: neighbours in a slot are drawn as one bar."
    if len(lanes) < len(work.slots):
        yield f"The {len(lanes)} slots that were busy the longest are drawn, of {len(work.slots):,}."
    yield "Point at a bar for its stages, data, worker and time."
