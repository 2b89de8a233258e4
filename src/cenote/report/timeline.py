"""Lay out when each pool was busy: one lane per pool, with the number of tasks that ran at once."""

from __future__ import annotations

from cenote.runs.timeline import Timeline
from cenote.units import format_seconds
from cenote.values import dataclass

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
