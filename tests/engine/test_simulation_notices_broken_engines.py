"""A simulation that never fails proves nothing: these engines are broken on purpose."""

from collections import deque
from collections.abc import Callable

import pytest

from cenote.engine import autoscaler, capacity, machine, scaling, tasks
from cenote.engine import tasks as ready
from cenote.engine.recovery import moving, retries
from cenote.engine.recovery import moving as fallback
from cenote.engine.recovery.retries import RetryDecision
from cenote.engine.workers import PoolWorkers
from cenote.planning.plan import RUN
from simulation.check import SeedError, play

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
    patch.setattr(capacity.PoolCapacity, "has_capacity", property(lambda self: self.workers > 0))


def _uses_any_pool(patch: pytest.MonkeyPatch) -> None:
    def choose(route: ready.ReadyQueue) -> capacity.PoolCapacity | None:
        every.extend(pool for pool in route.pools if pool not in every)
        return next((pool for pool in every if pool.has_capacity), None)

    every: list[capacity.PoolCapacity] = []
    patch.setattr(ready, "choose_pool", choose)


def _merges_without_saying_what_is_missing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tasks.TaskStates, "missing_needs", lambda *_: ())


def _leaves_a_part_out_of_a_merge(patch: pytest.MonkeyPatch) -> None:
    honest = tasks.TaskStates.missing_needs
    patch.setattr(
        tasks.TaskStates,
        "missing_needs",
        lambda self, task: honest(self, task) or tuple(self._needs_of(task))[1:2],
    )


def _says_nothing_of_tasks_that_are_not_needed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machine.Engine, "_record_not_needed", lambda *_: None)


def _says_nothing_of_abandoned_tasks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machine.Engine, "_record_abandoned", lambda *_, **__: None)


def _calls_abandoned_tasks_not_needed(patch: pytest.MonkeyPatch) -> None:
    def leave_out(self: tasks.TaskStates, task: int) -> None:
        self._move(task, tasks.NOT_NEEDED)
        self.not_needed.add(task)

    patch.setattr(tasks.TaskStates, "_leave_out", leave_out)


def _counts_losses_as_failures(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(retries.RULES, "lost", retries.Rule.AS_RETRIES_SAY)


def _moves_lost_tasks_for_ever(patch: pytest.MonkeyPatch) -> None:
    honest = retries.decide

    def decide(failure, history, segment, options, **fate):  # type: ignore[no-untyped-def]
        decision = honest(failure, history, segment, options, **fate)
        return RetryDecision(again=True, history=history, failure=failure) if failure.cause == "lost" else decision

    patch.setattr(machine, "decide", decide)


def _trains_on_what_there_is(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tasks, "MERGE", RUN)


def _takes_partial_for_whole(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tasks.TaskStates, "_is_whole", lambda *_: True)


def _believes_late_failures(patch: pytest.MonkeyPatch) -> None:
    def task_failed(self, event, commands):  # type: ignore[no-untyped-def]
        if event.task in self._attempts.out:
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


def _starts_one_worker_too_many(patch: pytest.MonkeyPatch) -> None:
    honest = scaling.wanted_workers

    def wanted(load, limits, past, now):  # type: ignore[no-untyped-def]
        found = honest(load, limits, past, now)
        return found + 1 if found > past.size else found

    patch.setattr(autoscaler, "wanted_workers", wanted)


def _stops_busy_workers(patch: pytest.MonkeyPatch) -> None:
    honest = autoscaler._shrink
    patch.setattr(autoscaler, "_shrink", lambda workers, surplus, _, now: honest(workers, surplus, frozenset(), now))


def _resizes_all_the_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(autoscaler, "wanted_workers", lambda load, limits, _past, _now: scaling.needed_workers(load, limits))


def _asks_again_and_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PoolWorkers, "size", property(lambda self: len(self.requested) + len(self.observed)))


def _never_replaces_a_lost_worker(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PoolWorkers, "lose", lambda *_, **__: None)


def _loses_patience_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fallback, "time_to_leave", lambda *_: (0.0, "no reason"))


def _never_falls_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(moving, "reason_to_leave", lambda *_, **__: None)


def _goes_where_nobody_allows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        moving.TaskMover, "_following", lambda self, own: [other for other in self.classes if other is not own][:1]
    )


def _moves_tasks_without_moving_them(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(moving.TaskMover, "_move", lambda *_: None)


def _moves_tasks_for_errors_of_the_user(patch: pytest.MonkeyPatch) -> None:
    def try_again(self, event, commands):  # type: ignore[no-untyped-def]
        return (
            self._moving.after_out_of_memory(event, self._now, commands)
            if self._options.manages_workers
            else event.failure
        )

    patch.setattr(machine.Engine, "_try_again", try_again)


@pytest.mark.parametrize(
    "break_it",
    [
        _forgets_too_early,
        _keeps_nothing_for_the_next_run,
        _ignores_the_window,
        _uses_any_pool,
        _merges_without_saying_what_is_missing,
        _leaves_a_part_out_of_a_merge,
        _says_nothing_of_tasks_that_are_not_needed,
        _says_nothing_of_abandoned_tasks,
        _calls_abandoned_tasks_not_needed,
        _counts_losses_as_failures,
        _moves_lost_tasks_for_ever,
        _trains_on_what_there_is,
        _takes_partial_for_whole,
        _believes_late_failures,
        _drops_a_lost_task,
        _finishes_twice,
        _starts_one_worker_too_many,
        _stops_busy_workers,
        _resizes_all_the_time,
        _asks_again_and_again,
        _never_replaces_a_lost_worker,
        _loses_patience_at_once,
        _never_falls_back,
        _goes_where_nobody_allows,
        _moves_tasks_without_moving_them,
        _moves_tasks_for_errors_of_the_user,
    ],
    ids=lambda break_it: break_it.__name__.strip("_"),
)
def test_the_simulation_notices_an_engine_that(break_it: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    break_it(monkeypatch)

    with pytest.raises(SeedError):
        deque(map(play, range(1000)), maxlen=0)
