"""Many tasks; `PYTHONPATH=tests python -m simulation --scale 1000000` says what a million cost."""

from simulation.scale import measure, three_pools

BYTES_PER_TASK = 100


def test_thousands_of_tasks_run_through_and_take_a_hundred_bytes_each_at_most() -> None:
    plan = three_pools(10_000)

    measured = measure(plan, memory=True)

    assert measured.status == "succeeded"
    assert measured.events == 2 * len(plan.tasks) + 4
    assert measured.peak_bytes < BYTES_PER_TASK * len(plan.tasks)
