"""Thin what is known of a pool over time: many points become few, which have the same means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace


class SlotPoint(msgspec.Struct, frozen=True, kw_only=True):
    """How a pool is from this moment on, until the next point; on average, where several were thinned to one."""

    at: float
    """Seconds since the epoch."""
    busy: float = 0
    """Slots in use."""
    free: float = 0
    awaited: float = 0
    """Workers that were asked for, and are not there yet."""
    waiting: float = 0
    """Instances that wait for a slot."""
    known: bool = True
    """False where nobody looked from here on: the service did not run."""

    def is_like(self, other: SlotPoint) -> bool:
        """Whether nothing but the time differs."""
        return replace(self, at=other.at) == other


def thinned(points: Sequence[SlotPoint], *, width: float, until: float) -> list[SlotPoint]:
    """At most one point in each `width` seconds, besides those where knowledge ends or begins again.

    The points are in order of time, and the last one holds until `until`.
    """
    found: list[SlotPoint] = []
    group: list[SlotPoint] = []
    for point in points:
        if group and not _together(group[-1], point, width):
            closed, carried = _closed(group, width, point.at)
            found.append(closed)
            group = []
            if carried is not None and _together(carried, point, width):
                group = [carried]
            elif carried is not None:
                found.append(carried)
        group.append(point)
    if group:
        closed, carried = _closed(group, width, until)
        found += [closed] if carried is None else [closed, carried]
    return [one for place, one in enumerate(found) if place == 0 or not one.is_like(found[place - 1])]


def window(points: Sequence[SlotPoint], *, start: float) -> list[SlotPoint]:
    """Those from `start` on; the one that holds at that moment begins there."""
    before = [one for one in points if one.at <= start]
    return [replace(one, at=start) for one in before[-1:]] + [one for one in points if one.at > start]


def mean(points: Sequence[SlotPoint], *, until: float) -> SlotPoint:
    """One for all of these, by how long each of them held; at the time of the first."""
    ends = [*(one.at for one in points[1:]), until]
    lengths = [max(0.0, end - one.at) for one, end in zip(points, ends, strict=True)]
    whole = sum(lengths)
    if whole <= 0 or len(points) == 1:
        return replace(points[-1], at=points[0].at)

    def over(values: Iterable[float]) -> float:
        return round(sum(value * length for value, length in zip(values, lengths, strict=True)) / whole, 3)

    return SlotPoint(
        at=points[0].at,
        busy=over(one.busy for one in points),
        free=over(one.free for one in points),
        awaited=over(one.awaited for one in points),
        waiting=over(one.waiting for one in points),
    )


def _together(one: SlotPoint, other: SlotPoint, width: float) -> bool:
    return one.known and other.known and one.at // width == other.at // width


def _closed(group: Sequence[SlotPoint], width: float, following: float) -> tuple[SlotPoint, SlotPoint | None]:
    """The mean of a group, and what holds when its time is over, where no other point says so by then."""
    end = (group[0].at // width + 1) * width
    carried = replace(group[-1], at=end) if len(group) > 1 and following > end else None
    return mean(group, until=min(end, following)), carried
