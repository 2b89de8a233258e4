"""Draw what every slot of every worker ran and when, a bar for each task; of very many, bars are joined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cenote.report.markup import Markup, element, joined
from cenote.report.run_record import SlotRecord, TaskSpan, Timeline
from cenote.report.task_names import MERGE, TaskNames
from cenote.report.timeline import LEFT, WIDTH, label
from cenote.units import format_seconds

MOST_LANES = 60
"""Slots that are drawn; of more, those that were busy the longest."""
MOST_BARS = 4000
"""Bars of the whole picture; with more tasks, neighbours in a slot are joined."""
FEWEST_BARS = 40
"""Bars that a slot has room for, whatever the others need."""
COLOURS = 5
HEIGHT, GAP, POOL_GAP, FOOT = 12.0, 3.0, 12.0, 22.0
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


def task_timeline(work: Timeline, names: TaskNames) -> Markup | None:
    """A figure; None for a run of which no task is known."""
    if not work.slots or work.seconds <= 0:
        return None
    lanes = shown_slots(work.slots)
    shortest = work.seconds / max(FEWEST_BARS, MOST_BARS // len(lanes))
    tasks = sum(len(slot.spans) for slot in work.slots)
    joins = sum(len(slot.spans) for slot in lanes) > MOST_BARS
    bars = [bars_of(slot, shortest) if joins else _one_each(slot) for slot in lanes]
    tops = list(_tops(lanes))
    height = tops[-1] + HEIGHT + FOOT
    title = f"What {_counted(len(work.slots), 'slot')} of workers ran over {format_seconds(work.seconds)}"
    colours = _colours(names, lanes)
    drawing = element(
        "svg",
        element("title", title),
        _grid(work.seconds, height - FOOT),
        _workers(lanes, tops),
        (
            _bar(bar, slot, top, work.seconds, names, colours)
            for slot, found, top in zip(lanes, bars, tops, strict=True)
            for bar in found
        ),
        viewBox=f"0 0 {WIDTH:.0f} {height:.0f}",
        role="img",
        aria_label=title,
    )
    caption = element(
        "figcaption",
        f"{_counted(tasks, 'task')}, each in the slot of the worker that ran it. ",
        *_remarks(work, lanes, bars),
    )
    return element("figure", drawing, _legend(names, colours, lanes), caption, class_="timeline tasks")


def shown_slots(slots: Sequence[SlotRecord]) -> list[SlotRecord]:
    """All if they fit, else those that were busy the longest; in their order."""
    if len(slots) <= MOST_LANES:
        return list(slots)
    busy = [sum(span.end - span.start for span in slot.spans) for slot in slots]
    chosen = sorted(sorted(range(len(slots)), key=lambda place: -busy[place])[:MOST_LANES])
    return [slots[place] for place in chosen]


def _one_each(slot: SlotRecord) -> list[Bar]:
    return [Bar((span,)) for span in slot.spans]


def bars_of(slot: SlotRecord, shortest: float) -> list[Bar]:
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


def _tops(lanes: Sequence[SlotRecord]) -> Iterator[float]:
    """Where each lane begins: a little apart where another pool does."""
    top, pool = 4.0, lanes[0].pool
    for slot in lanes:
        top += POOL_GAP if slot.pool != pool else 0.0
        pool = slot.pool
        yield top
        top += HEIGHT + GAP


def _grid(seconds: float, bottom: float) -> Iterator[Markup]:
    """Lines at quarters of the time."""
    for quarter in range(5):
        x = LEFT + (WIDTH - LEFT) * quarter / 4
        yield element("line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1="0", y2=f"{bottom:.1f}", class_="grid")
        anchor = {0: "start", 4: "end"}.get(quarter, "middle")
        yield label(x, bottom + 15, format_seconds(seconds * quarter / 4) if quarter else "0", anchor)


def _workers(lanes: Iterable[SlotRecord], tops: Iterable[float]) -> Iterator[Markup]:
    """The name of each worker at its first lane."""
    before = None
    for slot, top in zip(lanes, tops, strict=True):
        if (slot.pool, slot.worker) != before:
            words = slot.worker if len(slot.worker) <= 18 else f"{slot.worker[:8]}…{slot.worker[-9:]}"
            yield label(LEFT - 8, top + HEIGHT - 2, words, "end", class_="quiet")
        before = slot.pool, slot.worker


def _bar(bar: Bar, slot: SlotRecord, top: float, seconds: float, names: TaskNames, colours: dict[int, str]) -> Markup:
    scale = (WIDTH - LEFT) / seconds
    start = LEFT + max(0.0, bar.start) * scale
    width = max(NARROWEST, (bar.end - max(0.0, bar.start)) * scale)
    return element(
        "rect",
        element("title", _told(bar, slot, names)),
        x=f"{min(start, WIDTH - NARROWEST):.1f}",
        y=f"{top:.1f}",
        width=f"{width:.1f}",
        height=f"{HEIGHT:.0f}",
        class_=_class(bar, names, colours),
    )


def _class(bar: Bar, names: TaskNames, colours: dict[int, str]) -> str:
    if bar.spans[0].failure is not None:
        return "task failed-task"
    most = Counter(names.segment(span.task) for span in bar.spans).most_common(1)[0][0]
    return f"task {colours[most]}" + (" cut-off" if bar.spans[0].cut_off else "")


def _told(bar: Bar, slot: SlotRecord, names: TaskNames) -> str:
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
    lines.append(
        f"took {format_seconds(span.end - span.start)}" if not span.cut_off else "nothing was heard of its end"
    )
    if span.failure is not None:
        lines.append(f"failed: {span.failure[:MOST_MESSAGE]}")
    return "\n".join(filter(None, lines))


def _colours(names: TaskNames, lanes: Iterable[SlotRecord]) -> dict[int, str]:
    """Segment → its class; merges are pale."""
    found = sorted({names.segment(span.task) for slot in lanes for span in slot.spans})
    return {segment: "merge" if segment == MERGE else f"lane{segment % COLOURS}" for segment in found}


def _legend(names: TaskNames, colours: dict[int, str], lanes: Iterable[SlotRecord]) -> Markup:
    entries = [(colour, names.stages(segment)) for segment, colour in colours.items() if segment != MERGE][:12]
    entries += [("merge", "merges")] if MERGE in colours else []
    spans = [span for slot in lanes for span in slot.spans]
    entries += [("failed-task", "failed")] if any(span.failure is not None for span in spans) else []
    entries += [("cut-off", "cut off")] if any(span.cut_off for span in spans) else []
    return element(
        "ul",
        (element("li", element("span", class_=f"key {colour}"), text) for colour, text in entries),
        class_="legend",
    )


def _remarks(work: Timeline, lanes: Sequence[SlotRecord], bars: Sequence[Sequence[Bar]]) -> Iterator[Markup]:
    if any(len(bar.spans) > 1 for found in bars for bar in found):
        yield joined("There are more tasks than fit: neighbours in a slot are drawn as one bar. ")
    if len(lanes) < len(work.slots):
        yield joined(f"The {len(lanes)} slots that were busy the longest are drawn, of {len(work.slots):,}. ")
    yield joined("Point at a bar for its stages, data, worker and time.")


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}" + ("" if count == 1 else "s")
