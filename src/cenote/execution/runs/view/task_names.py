"""State what a task of a journal is, and what variations add to a run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

from msgspec import structs

from cenote.common.text import with_variations
from cenote.execution.runs.summary import ProductRecord, StageRecord
from cenote.planning.record import PlanRecord

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


# Show what variations add to a run beside the stages that they vary: one row for all of them.


def stages_for_people(stages: Sequence[StageRecord]) -> list[tuple[str, StageRecord]]:
    """A stage and its variations as one, in words, with the time of all; variations that run in other tasks than their
    stage are a row of their own."""
    alike: dict[tuple[str, int | None], list[StageRecord]] = {}
    for stage in stages:
        alike.setdefault((stage.variation_of or stage.id, stage.segment), []).append(stage)
    found: list[tuple[str, StageRecord]] = []
    for (name, _), group in alike.items():
        first = next((stage for stage in group if not stage.variation), group[0])
        words = with_variations(name, len({stage.variation for stage in group if stage.variation}))
        found.append((words, structs.replace(first, seconds=sum(stage.seconds for stage in group))))
    return found


def products_for_people(
    products: Sequence[ProductRecord], stages: Sequence[StageRecord]
) -> list[tuple[ProductRecord, int]]:
    """Products of the stages of the file, each with how many variations of it there are as well."""
    varied = {stage.id: stage.variation_of for stage in stages if stage.variation}
    counts: dict[str, int] = {}
    for product in products:
        if product.stage in varied:
            counts[varied[product.stage]] = counts.get(varied[product.stage], 0) + 1
    return [(product, counts.get(product.name, 0)) for product in products if product.stage not in varied]
