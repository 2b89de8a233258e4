"""Keep how a pool was over time: few points with the same means as many, and what its slots ran."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec.structs import replace

from cenote.common.cache_file import CacheFile
from cenote.service.allocator.reasons import PoolView


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


# Remember how the slots of every pool were used: exactly for the last minutes, minute by minute for a day.
#
# The service looks at its pools several times a second, and what did not change costs a comparison. Once a minute the
# past is thinned, and the mean of that minute is written to a small database, which may vanish: then it is not known.


DAY = 86_400.0
"""Seconds that are remembered."""
FINE_SECONDS = 900.0
"""Of them, those that are known to `FINE`; the others by the minute."""
FINE = 2.0
MINUTE = 60.0
_FORMAT = 1
"""Part of the database's name: another layout starts a new file."""
_TABLE = """create table if not exists minutes
(pool text, at real, busy real, free real, awaited real, waiting real, primary key (pool, at))"""


class SlotsOverTime(msgspec.Struct, frozen=True, kw_only=True):
    """How the slots of one pool were used."""

    pool: str
    now: float
    """By the clock of the service."""
    points: tuple[SlotPoint, ...] = ()


class SlotHistory:
    """The last day of all pools that are there; bounded, however much happens."""

    def __init__(self, folder: Path | None) -> None:
        self._file = CacheFile(f"slots-{_FORMAT}.sqlite", folder)
        self._pools: dict[str, list[SlotPoint]] = _with_gaps(self._file.read(_rows, unreadable=ValueError) or [])
        self._minute: float | None = None
        """When the one began that is not written yet."""

    def note(self, at: float, pools: Iterable[PoolView]) -> None:
        """How pools are now; those that are gone are forgotten."""
        found = {view.definition.name: _point(at, view) for view in pools}
        gone = self._pools.keys() - found.keys()
        for name in gone:
            del self._pools[name]
        for name, point in found.items():
            points = self._pools.setdefault(name, [])
            if not points or (point.at > points[-1].at and not point.is_like(points[-1])):
                points.append(point)
        if gone:
            self._file.write(_forgetting(gone))
        if self._minute is None:
            self._minute = at // MINUTE * MINUTE
        elif at >= self._minute + MINUTE:
            self._tidy(at, self._minute)
            self._minute = at // MINUTE * MINUTE

    def of(self, pool: str, *, now: float, seconds: float, most: int) -> SlotsOverTime:
        """The last so many seconds of a pool, in so many points or a few more; the last one is how it is now."""
        points = window(self._pools.get(pool, []), start=now - seconds)
        found = thinned(points, width=seconds / most, until=now)
        if found and not found[-1].is_like(points[-1]):
            found.append(replace(points[-1], at=now))
        return SlotsOverTime(pool=pool, now=now, points=tuple(found))

    def _tidy(self, at: float, minute: float) -> None:
        rows = []
        for name, points in self._pools.items():
            if passed := [one for one in window(points, start=minute) if one.at < minute + MINUTE and one.known]:
                rows.append((name, replace(mean(passed, until=minute + MINUTE), at=minute)))
            kept, fine = window(points, start=at - DAY), at - FINE_SECONDS
            old = [one for one in kept if one.at < fine]
            new = [one for one in kept if one.at >= fine]
            following = new[0].at if new else at
            self._pools[name] = [
                *thinned(old, width=MINUTE, until=following),
                *thinned(new, width=FINE, until=at),
            ]
        self._file.write(_adding(rows, oldest=at - DAY))


def _point(at: float, view: PoolView) -> SlotPoint:
    return SlotPoint(
        at=at,
        busy=view.busy,
        free=max(0, view.slots - view.busy),
        awaited=view.queued + view.dispatched,
        waiting=view.waiting,
    )


Row = tuple[str, SlotPoint]


def _rows(database: sqlite3.Connection) -> list[Row]:
    found = database.execute("select pool, at, busy, free, awaited, waiting from minutes order by pool, at")
    return [
        (str(name), SlotPoint(at=at, busy=busy, free=free, awaited=awaited, waiting=waiting))
        for name, at, busy, free, awaited, waiting in found
    ]


def _with_gaps(rows: list[Row]) -> dict[str, list[SlotPoint]]:
    """Pool → its minutes; nothing is known where some are missing, and after the last."""
    pools: dict[str, list[SlotPoint]] = {}
    for name, point in rows:
        pools.setdefault(name, []).append(point)
    for name, points in pools.items():
        nothing = [SlotPoint(at=points[-1].at + MINUTE, known=False)]
        for one, following in pairwise(points):
            if following.at > one.at + 1.5 * MINUTE:
                nothing.append(SlotPoint(at=one.at + MINUTE, known=False))
        pools[name] = sorted((*points, *nothing), key=lambda one: one.at)
    return pools


def _adding(rows: list[Row], *, oldest: float) -> Callable[[sqlite3.Connection], None]:
    def change(database: sqlite3.Connection) -> None:
        database.execute(_TABLE)
        written = ((name, one.at, one.busy, one.free, one.awaited, one.waiting) for name, one in rows)
        database.executemany("insert or replace into minutes values (?, ?, ?, ?, ?, ?)", written)
        database.execute("delete from minutes where at < ?", (oldest,))

    return change


def _forgetting(pools: Iterable[str]) -> Callable[[sqlite3.Connection], None]:
    def change(database: sqlite3.Connection) -> None:
        database.execute(_TABLE)
        database.executemany("delete from minutes where pool = ?", ((name,) for name in pools))

    return change
