"""What a run need not do because an earlier one has done it, and what it says of that."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from builders.plans import a_plan, a_segment
from builders.stories import Story, later, reused, started
from cenote.plan.plan import Plan
from cenote.runtime.earlier_results import earlier_results, spared_tasks
from cenote.runtime.task_specs import TaskSpecs
from cenote.worker.results.store import Store

PLANS = {
    "one segment": a_plan(partitions=3),
    "a chain": a_plan(
        partitions=2,
        segments=[a_segment("A"), a_segment("B", needs=["A"]), a_segment("C", needs=["B"], product=True)],
    ),
    "a product on the way": a_plan(
        partitions=2, segments=[a_segment("A", product=True), a_segment("B", needs=["A"], product=True)]
    ),
    "two branches": a_plan(
        partitions=2,
        segments=[a_segment("A"), a_segment("L", needs=["A"], product=True), a_segment("R", needs=["A"])],
    ),
}


def not_needed(plan: Plan, whole: set[int]) -> set[int]:
    """The tasks that the engine finds not to be needed."""
    story = Story(plan)
    story.after(started(), *(reused(task) for task in sorted(whole)), later(1.0))
    return set(story.not_needed)


@given(st.sampled_from(sorted(PLANS)), st.data())
def test_the_tasks_that_are_spared_are_those_that_the_engine_does_not_need(name: str, data: st.DataObject) -> None:
    plan = PLANS[name]
    whole = data.draw(st.sets(st.integers(0, len(plan.tasks) - 1)))
    spared = spared_tasks(plan, whole)
    assert not whole.intersection(spared)
    assert not_needed(plan, whole) - whole == set(spared)


def test_nothing_is_spared_where_nothing_is_there() -> None:
    assert spared_tasks(PLANS["a chain"], ()) == ()


def test_what_led_to_a_result_that_is_there_is_spared() -> None:
    plan = PLANS["a chain"]
    last = len(plan.tasks) - 1
    assert set(spared_tasks(plan, {last})) == set(range(last))


def test_a_merge_without_some_of_its_parts_is_not_there(tmp_path: Path) -> None:
    plan = a_plan(partitions=2)
    store, specs = Store(tmp_path / "work"), TaskSpecs(plan)
    merge = len(plan.tasks) - 1
    partial = specs.write(merge, attempt=1, missing=[1])
    for name in (plan.tasks.key(0), partial.key):
        store.write(name, {})
    assert earlier_results(plan, store, specs, tmp_path / "products").whole == (0,)
