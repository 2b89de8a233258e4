"""Tasks that take next to no time are sent in bundles; others never are."""

from __future__ import annotations

from dataclasses import replace

from cenote.execution.backends.support.outcomes import ENOUGH_SECONDS, Bundling
from cenote.execution.worker.task_spec import TaskSpec


def tasks(count: int, *, segment: int = 0, first: int = 0) -> list[TaskSpec]:
    return [TaskSpec(number, f"k{number}", "run", segment) for number in range(first, first + count)]


def sizes(bundling: Bundling, waiting: list[TaskSpec], wanted: int) -> list[int]:
    return [len(bundle) for bundle in bundling.bundles(waiting, wanted)]


def knowing(seconds: float, *, segment: int = 0) -> Bundling:
    bundling = Bundling()
    bundling.finish(tasks(1, segment=segment)[0], seconds)
    return bundling


def test_tasks_of_unknown_length_go_alone() -> None:
    assert sizes(Bundling(), tasks(4), wanted=1) == [1, 1, 1, 1]


def test_short_tasks_are_shared_out_to_the_bundles_that_are_wanted() -> None:
    assert sizes(knowing(0.0001), tasks(100), wanted=4) == [25, 25, 25, 25]


def test_a_bundle_holds_no_more_work_than_is_enough() -> None:
    assert sizes(knowing(ENOUGH_SECONDS / 10), tasks(100), wanted=1) == [10] * 10


def test_long_tasks_go_alone() -> None:
    assert sizes(knowing(10.0), tasks(3), wanted=1) == [1, 1, 1]


def test_a_task_that_failed_before_goes_alone() -> None:
    first, *others = tasks(10)
    assert sizes(knowing(0.0001), [*others, replace(first, attempt=2)], wanted=1) == [1, 9]


def test_a_bundle_holds_tasks_of_one_segment_in_order() -> None:
    bundling = knowing(0.0001)
    bundling.finish(tasks(1, segment=1)[0], 0.0001)
    mixed = [task for pair in zip(tasks(3), tasks(3, segment=1, first=3), strict=True) for task in pair]
    bundles = [[task.task for task in bundle] for bundle in bundling.bundles(mixed, 0)]
    assert bundles == [[0, 1, 2], [3, 4, 5]]


def test_tasks_that_turn_out_to_be_long_are_soon_sent_alone() -> None:
    bundling = knowing(0.0001)
    bundling.finish(tasks(1)[0], 1.0)
    assert sizes(bundling, tasks(5), wanted=1) == [1] * 5
