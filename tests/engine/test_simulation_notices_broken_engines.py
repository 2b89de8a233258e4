"""A simulation that never fails proves nothing: these engines are broken on purpose."""

from collections import deque
from collections.abc import Callable

import pytest

from cenote.engine import machine, ready, retries, tasks, workers
from cenote.engine.retries import Decision
from cenote.simulate.check import SeedError, play

Break = Callable[[pytest.MonkeyPatch], None]


def _forgets_too_early(patch: pytest.MonkeyPatch) -> None:
    honest = tasks.TaskStates.finish

    def finish(self: tasks.TaskStates, task: int) -> None:
        honest(self, task)
        if self._readers[task]:
            self.unread.append(task)

    patch.setattr(tasks.TaskStates, "finish", finish)


def _keeps_nothing_for_the_next_run(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tasks, "_KEPT", 0)


def _ignores_the_window(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(workers.PoolRoom, "has_room", property(lambda self: self.workers > 0))


def _uses_any_pool(patch: pytest.MonkeyPatch) -> None:
    def choose(route: ready.Route) -> workers.PoolRoom | None:
        every.extend(pool for pool in route.pools if pool not in every)
        return next((pool for pool in every if pool.has_room), None)

    every: list[workers.PoolRoom] = []
    patch.setattr(ready, "choose_pool", choose)


def _merges_out_of_order(patch: pytest.MonkeyPatch) -> None:
    honest = tasks.TaskStates.usable_needs
    patch.setattr(tasks.TaskStates, "usable_needs", lambda self, task: honest(self, task)[::-1])


def _counts_losses_as_failures(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(retries.RULES, "lost", retries.Rule.AS_RETRIES_SAY)


def _moves_lost_tasks_for_ever(patch: pytest.MonkeyPatch) -> None:
    honest = machine.decide

    def decide(failure, history, segment, options):  # type: ignore[no-untyped-def]
        decision = honest(failure, history, segment, options)
        return Decision(again=True, history=history, failure=failure) if failure.cause == "lost" else decision

    patch.setattr(machine, "decide", decide)


def _trains_on_what_there_is(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tasks, "MERGE", tasks.RUN)


def _takes_partial_for_whole(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tasks.TaskStates, "_is_whole", lambda *_: True)


def _believes_late_failures(patch: pytest.MonkeyPatch) -> None:
    def task_failed(self, event, commands):  # type: ignore[no-untyped-def]
        if event.task in self._out:
            self._not_done(event, commands)

    patch.setattr(machine.Engine, "_task_failed", task_failed)


def _drops_a_lost_task(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tasks.TaskStates, "take_back", lambda self, task: self._move(task, tasks.WAITING))


def _finishes_twice(patch: pytest.MonkeyPatch) -> None:
    honest = machine.Engine._finish

    def finish_twice(self, status, commands):  # type: ignore[no-untyped-def]
        honest(self, status, commands)
        honest(self, status, commands)

    patch.setattr(machine.Engine, "_finish", finish_twice)


@pytest.mark.parametrize(
    "break_it",
    [
        _forgets_too_early,
        _keeps_nothing_for_the_next_run,
        _ignores_the_window,
        _uses_any_pool,
        _merges_out_of_order,
        _counts_losses_as_failures,
        _moves_lost_tasks_for_ever,
        _trains_on_what_there_is,
        _takes_partial_for_whole,
        _believes_late_failures,
        _drops_a_lost_task,
        _finishes_twice,
    ],
    ids=lambda break_it: break_it.__name__.strip("_"),
)
def test_the_simulation_notices_an_engine_that(break_it: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    break_it(monkeypatch)

    with pytest.raises(SeedError):
        deque(map(play, range(1000)), maxlen=0)
