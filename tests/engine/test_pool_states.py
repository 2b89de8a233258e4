"""The one word for how a pool is."""

import pytest

from cenote.engine.scaling import PoolState, WorkerCounts, pool_state


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        (WorkerCounts(), PoolState.SUBMITTED),
        (WorkerCounts(queued=3), PoolState.SUBMITTED),
        (WorkerCounts(queued=2, dispatched=1), PoolState.PARTIALLY_DISPATCHED),
        (WorkerCounts(dispatched=3), PoolState.FULLY_DISPATCHED),
        (WorkerCounts(queued=1, joined=1), PoolState.PARTIALLY_EXECUTING),
        (WorkerCounts(dispatched=1, joined=1), PoolState.PARTIALLY_EXECUTING),
        (WorkerCounts(joined=2), PoolState.FULLY_EXECUTING),
        (WorkerCounts(joined=2, leaving=1), PoolState.FULLY_EXECUTING),
    ],
)
def test_the_state_follows_from_the_workers(counts: WorkerCounts, state: PoolState) -> None:
    assert pool_state(counts) is state


def test_a_pool_closes_until_its_last_worker_is_gone() -> None:
    assert pool_state(WorkerCounts(leaving=1), closed=True) is PoolState.CLOSING
    assert pool_state(WorkerCounts(queued=1), closed=True) is PoolState.CLOSING
    assert pool_state(WorkerCounts(), closed=True) is PoolState.CLOSED


def test_a_pool_that_was_given_up_failed_whatever_workers_it_has() -> None:
    assert pool_state(WorkerCounts(joined=1), failed=True, closed=True) is PoolState.FAILURE


def test_the_words_are_those_of_the_documentation() -> None:
    assert [state.value for state in PoolState] == [
        "Submitted",
        "PartiallyDispatched",
        "FullyDispatched",
        "PartiallyExecuting",
        "FullyExecuting",
        "Closing",
        "Closed",
        "Failure",
    ]
