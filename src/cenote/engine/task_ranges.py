"""Write many task numbers in little space: as ranges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

TaskRanges = tuple[tuple[int, int], ...]
"""(first, last) of each run of consecutive task numbers, in order."""


def ranges_of(tasks: Iterable[int]) -> TaskRanges:
    """The ranges of these tasks, each of which may come once."""
    found: list[tuple[int, int]] = []
    for task in sorted(tasks):
        if found and found[-1][1] == task - 1:
            found[-1] = (found[-1][0], task)
        else:
            found.append((task, task))
    return tuple(found)


def tasks_in(ranges: TaskRanges) -> Iterator[int]:
    """Every task of the ranges, in order."""
    for first, last in ranges:
        yield from range(first, last + 1)
