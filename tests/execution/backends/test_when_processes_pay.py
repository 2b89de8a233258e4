"""A second core never costs more than it brings, and short tasks travel together on this machine too."""

from __future__ import annotations

from pathlib import Path

import pytest

from cenote.execution.backends.local.in_process import are_worth_it, seconds_left
from cenote.execution.backends.local.slots import SlotTable
from cenote.execution.backends.support import outcomes as process_state
from cenote.execution.backends.support.outcomes import ENOUGH_SECONDS, Bundling
from cenote.execution.worker.task_spec import TaskSpec
from cenote.language.execution import Amounts, Pool
from cenote.planning.placement.pools import PlacedPool


def task(number: int, *, segment: int = 0, attempt: int = 1) -> TaskSpec:
    return TaskSpec(number, f"{number:032x}", "run", segment, attempt=attempt)


def a_table(*specs: TaskSpec) -> SlotTable:
    pool = PlacedPool(
        spec=Pool("default"),
        strategy="local",
        workers=1,
        elastic=None,
        slots=1,
        resources=Amounts(),
        granted=Amounts(),
    )
    table = SlotTable([pool])
    for spec in specs:
        table.wait(spec, "default")
    return table


@pytest.mark.parametrize(
    ("seconds", "cpus", "pays"), [(0.5, 2, False), (1.9, 2, False), (2.5, 2, True), (1.2, 16, True), (1e6, 1, False)]
)
def test_processes_are_started_where_they_save_more_than_they_cost(seconds: float, cpus: int, pays: bool) -> None:
    assert are_worth_it(seconds, cpus) is pays


def test_what_is_left_is_judged_by_what_was_done() -> None:
    assert seconds_left(0.0, 0, 1000, expected=7.0) == 7.0
    assert seconds_left(2.0, 100, 1000, expected=7.0) == 18.0
    assert seconds_left(2.0, 1000, 1000, expected=7.0) == 0.0
    assert seconds_left(9.0, 0, 0, expected=0.0) == 9.0, "nothing is read: as much again"


def test_waiting_for_a_core_is_no_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "schedstat"
    monkeypatch.setattr(process_state, "_WAITED", told)
    assert process_state.seconds_without_core() == 0.0, "this system does not say"
    told.write_text("7000000000 2500000000 31\n")
    assert process_state.seconds_without_core() == 2.5


def test_short_tasks_of_one_kind_share_a_place() -> None:
    bundling = Bundling()
    bundling.finish(task(0), ENOUGH_SECONDS / 4)
    assert bundling.size(task(1), 100, 1) == 4
    assert bundling.size(task(1), 4, 2) == 2, "the other process needs some too"
    assert bundling.size(task(1, attempt=2), 100, 1) == 1
    assert bundling.size(task(1, segment=1), 100, 1) == 1, "nobody knows how long it takes"


def test_tasks_that_go_together_are_alike_and_in_order() -> None:
    table = a_table(task(1), task(2), task(3), task(4, segment=1), task(5))
    first, pool, _ = table.take() or pytest.fail("there is a place")
    assert table.alike(first, pool) == 2
    assert [spec.task for spec in table.take_more(first, pool, 9)] == [2, 3]
    assert table.waiting == 2


def test_what_was_not_begun_waits_before_all_others() -> None:
    table = a_table(task(1), task(2), task(3), task(4))
    first, pool, place = table.take() or pytest.fail("there is a place")
    others = table.take_more(first, pool, 2)
    table.wait_first(others, pool)
    table.free(pool, place)
    taken = table.take()
    assert taken is not None
    assert taken[0].task == 2
