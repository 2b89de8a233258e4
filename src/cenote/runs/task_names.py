"""State what a task of a journal is: its stages, and the partition that it takes, as `plan.json` has them."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, pairwise

from cenote.plan.record import PlanRecord

MERGE = -1
"""The segment number of merges, which all look alike."""


class TaskNames:
    """Tasks by their number. A plan that is missing names none of them."""

    def __init__(self, plan: PlanRecord) -> None:
        self._segments = plan.segments
        self._blocks = plan.task_blocks
        self._first = list(accumulate((block.count for block in plan.task_blocks), initial=0))[:-1]
        self._partitions = [
            (one.dataset, one.file, start, stop) for one in plan.input_files for start, stop in pairwise(one.edges)
        ]
        self._taken = sorted(plan.partition_blocks, key=lambda block: block.first_task)
        self._first_taken = [block.first_task for block in self._taken]

    def segment(self, task: int) -> int:
        """Of the task; MERGE for a merge, and for a task that the plan does not have."""
        place = bisect_right(self._first, task) - 1
        if place < 0 or self._blocks[place].merge:
            return MERGE
        return self._blocks[place].segment

    def stages(self, segment: int) -> str:
        """`GoodMuons … DimuonPt`."""
        if segment == MERGE:
            return "merge"
        return (self._segments[segment].name if segment < len(self._segments) else "") or f"segment {segment}"

    def partition(self, task: int) -> str:
        """`dy, data/dy_0.root, events 0 to 60,000`; empty for a task that takes more than one partition."""
        place = bisect_right(self._first_taken, task) - 1
        if place < 0:
            return ""
        block = self._taken[place]
        number = block.first_partition + task - block.first_task
        if task >= block.first_task + block.count or number >= len(self._partitions):
            return ""
        dataset, file, start, stop = self._partitions[number]
        return f"{dataset}, {file}, events {start:,} to {stop:,}"
