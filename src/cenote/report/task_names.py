"""State what a task of a journal is: its stages, and the partition that it takes, as `plan.json` has them."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

from cenote.report.json_fields import Fields
from cenote.text import first_to_last

MERGE = -1
"""The segment number of merges, which all look alike."""


class TaskNames:
    """Tasks by their number. A plan that is old or cut short names fewer of them."""

    def __init__(self, plan: Fields) -> None:
        self._segments = [one.texts("stages") for one in plan.objects("segments")]
        self._blocks: list[tuple[int, int, bool]] = []
        first = 0
        for count, segment, merge in plan.rows("task_blocks", 3):
            self._blocks.append((first, segment, bool(merge)))
            first += count
        self._first = [block[0] for block in self._blocks]
        self._partitions = [
            (one.text("dataset"), one.text("file"), start, stop)
            for one in plan.objects("input_files")
            for start, stop in pairwise(one.numbers("edges"))
        ]
        self._taken = sorted(plan.rows("partition_blocks", 3))
        self._first_taken = [block[0] for block in self._taken]

    def segment(self, task: int) -> int:
        """Of the task; MERGE for a merge, and for a task that the plan does not have."""
        place = bisect_right(self._first, task) - 1
        if place < 0 or self._blocks[place][2]:
            return MERGE
        return self._blocks[place][1]

    def stages(self, segment: int) -> str:
        """`GoodMuons … DimuonPt`."""
        if segment == MERGE:
            return "merge"
        stages = self._segments[segment] if segment < len(self._segments) else ()
        if not stages:
            return f"segment {segment}"
        return first_to_last(stages)

    def partition(self, task: int) -> str:
        """`dy, data/dy_0.root, events 0 to 60,000`; empty for a task that takes more than one partition."""
        place = bisect_right(self._first_taken, task) - 1
        if place < 0:
            return ""
        first, partition, count = self._taken[place]
        number = partition + task - first
        if task >= first + count or number >= len(self._partitions):
            return ""
        dataset, file, start, stop = self._partitions[number]
        return f"{dataset}, {file}, events {start:,} to {stop:,}"
