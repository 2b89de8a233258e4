"""Predict how long a plan takes, from the time that tasks of earlier runs took. It never changes a plan."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from cenote.plan.forecast.task_history import Seen, task_key
from cenote.plan.plan import Plan, Segment
from cenote.plan.tasks import applies


def predicted_ends(plan: Plan, history: Mapping[str, Sequence[Seen]]) -> dict[str, float]:
    """Stage → seconds from the start until its last task is done, where every segment of its pool was seen before.

    Each pool takes its segments one after the other, with all the workers that it may have, none of which waits.
    """
    ends: dict[str, float] = {}
    elapsed: defaultdict[str, float] = defaultdict(float)
    unknown: set[str] = set()
    for segment in plan.segments:
        pool = segment.pools[0] if segment.pools else ""
        needed = _slot_seconds(plan, segment, history.get(task_key(segment), ()))
        if not pool or needed is None:
            unknown.add(pool)
            continue
        elapsed[pool] += needed / max(1, plan.placement.pool(pool).most_slots)
        ends |= dict.fromkeys(segment.stages, elapsed[pool]) if pool not in unknown else {}
    return ends


def seconds_of_work(plan: Plan, history: Mapping[str, Sequence[Seen]]) -> float | None:
    """That all tasks take together, merges apart; None where a segment was never seen."""
    found = [_slot_seconds(plan, segment, history.get(task_key(segment), ())) for segment in plan.segments]
    known = [seconds for seconds in found if seconds is not None]
    return sum(known) if len(known) == len(found) else None


def _slot_seconds(plan: Plan, segment: Segment, seen: Sequence[Seen]) -> float | None:
    """That its tasks take together; None where none was seen."""
    timed = [one for one in seen if one.seconds and one.tasks]
    events = Counter[object]()
    for number, partition in enumerate(plan.partitions):
        if partition.source == segment.root and applies(segment, partition.dataset):
            events[{"partition": number, "dataset": partition.dataset}.get(segment.scope, 0)] += partition.events
    return sum(_seconds(timed, size) * count for size, count in Counter(events.values()).items()) if timed else None


def _seconds(timed: Sequence[Seen], events: int) -> float:
    """Of one task with so many events: as one of about that size, or in proportion to the nearest."""
    nearest = min(timed, key=lambda one: abs(one.events.bit_length() - events.bit_length()))
    mean = nearest.seconds / nearest.tasks
    return mean if nearest.size == events.bit_length() else mean * events / max(1, nearest.events)
