"""Predict how long a plan takes and how much memory, from tasks of earlier runs. It never changes a plan."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite

from cenote.common.text import plural
from cenote.common.units import format_bytes, format_count
from cenote.planning.forecast.task_history import Seen, task_key
from cenote.planning.plan import Learned, Partition, Plan, Segment
from cenote.planning.tasks.tasks import applies


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


# State what a plan knows from earlier runs: how much memory its tasks will take, and where that is too much.
#
# It never changes a plan: partitions depend on the data alone, so that results do too.


_FAR = 4
"""Sizes that differ by this factor say how memory grows."""
_OF_A_PROCESS = 250_000_000
"""Bytes that imports and buffers of a process may take, whatever its input: less growth than that says nothing."""


def with_history(plan: Plan, history: Mapping[str, Sequence[Seen]]) -> Plan:
    """The same plan, with what was learned and a warning where a pool gives less than that."""
    found = [learned for segment in plan.segments if (learned := _learned(plan, segment, history)) is not None]
    warnings = [warning for learned in found if (warning := too_little(learned)) is not None]
    return replace(plan, learned=tuple(found), warnings=tuple(dict.fromkeys([*plan.warnings, *warnings])))


def _learned(plan: Plan, segment: Segment, history: Mapping[str, Sequence[Seen]]) -> Learned | None:
    seen = [one for one in history.get(task_key(segment), ()) if one.peak]
    events = largest_input(segment, plan.partitions)
    peak = expected_peak(seen, events)
    if peak is None or not segment.pools:
        return None
    pool = plan.placement.pool(segment.pools[0])
    return Learned(
        segment=segment.index,
        stages=segment.stages,
        events=events,
        peak_memory=peak,
        tasks=sum(one.tasks for one in seen),
        pool=pool.name,
        memory=int(pool.memory_per_slot) if isfinite(pool.memory_per_slot) else None,
    )


def expected_peak(seen: Sequence[Seen], events: int) -> int | None:
    """Bytes that a task with so many events will take; None when nothing alike was seen.

    Inputs of about that size tell directly. Larger ones than were ever seen are reckoned from two sizes that are far
    enough apart, where memory grew with them; from one size alone only that it will not be less.
    """
    if not seen or 2 * events < min(one.events for one in seen):
        return None
    alike = [one.peak for one in seen if events <= 2 * one.events and one.events <= 2 * events]
    if alike:
        return max(alike)
    smallest, largest = min(seen, key=lambda one: one.events), max(seen, key=lambda one: one.events)
    if events < largest.events or largest.events < _FAR * max(1, smallest.events):
        return max(one.peak for one in seen if one.events <= 2 * events)
    grown = largest.peak - smallest.peak
    if grown < _OF_A_PROCESS:
        return max(one.peak for one in seen)
    return int(largest.peak + grown / (largest.events - smallest.events) * (events - largest.events))


def largest_input(segment: Segment, partitions: Sequence[Partition]) -> int:
    """Events of the largest of its tasks."""
    sizes = Counter[str]()
    for partition in partitions:
        if partition.source == segment.root and applies(segment, partition.dataset):
            if segment.scope == "partition":
                sizes["one"] = max(sizes["one"], partition.events)
            else:
                sizes[partition.dataset if segment.scope == "dataset" else "all"] += partition.events
    return max(sizes.values(), default=0)


def too_little(learned: Learned) -> str | None:
    """A warning, where the pool gives a task less than it took before."""
    if learned.memory is None or learned.peak_memory <= learned.memory:
        return None
    one = len(learned.stages) == 1
    who = f"stage '{learned.stages[0]}' needs" if one else f"stages '{learned.stages[0]}' … '{learned.stages[-1]}' need"
    tasks = plural(learned.tasks, "task")
    return (
        f"{who} about {format_bytes(learned.peak_memory)} for {format_count(learned.events)} events, "
        f"as learned from {tasks} of earlier runs; pool '{learned.pool}' gives {format_bytes(learned.memory)} a task"
    )
