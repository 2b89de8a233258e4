"""Workers that are turned away for their software: none of them will ever fit, unless one does."""

from __future__ import annotations

import pytest

from builders.plans import a_plan, a_pool
from builders.stories import Story, joined, later, lost, requested, started
from cenote.engine.messages import FinishRun, PoolChanged
from cenote.engine.scaling import PoolState
from cenote.engine.task_classes import EngineOptions

MANAGED = EngineOptions(manages_workers=True)
WORDS = "its software does not fit the driver's: it has numpy 1.26.4 (the driver has 2.1.0)"


@pytest.mark.parametrize(("workers", "turned_away"), [(1, 1), (2, 2), (50, 3)])
def test_a_pool_whose_workers_are_all_turned_away_is_given_up_soon(workers: int, turned_away: int) -> None:
    story = Story(a_plan(partitions=4, pools=[a_pool("default", workers=workers)]), MANAGED)
    story.after(started(), *(requested(f"w{number}") for number in range(workers)))

    states = []
    for number in range(turned_away):
        assert PoolState.FAILURE not in states
        commands = story.after(lost(f"w{number}", at=float(number), cause="unfit", reason=WORDS))
        states += [command.state for command in commands if isinstance(command, PoolChanged)]

    assert PoolState.FAILURE in states
    assert story.after(later(9.0))[-1] == FinishRun("failed")
    assert story.engine.failures[0].message == f"pool 'default' failed: its workers were turned away: {WORDS}"


def test_where_one_fits_the_others_are_losses_like_all_others() -> None:
    story = Story(a_plan(partitions=4, pools=[a_pool("default", workers=4)]), MANAGED)
    story.after(started(), *(requested(f"w{number}") for number in range(4)), joined("w0"))

    commands = story.after(*(lost(f"w{number}", cause="unfit", reason=WORDS) for number in (1, 2, 3)))

    assert PoolState.FAILURE not in [command.state for command in commands if isinstance(command, PoolChanged)]
