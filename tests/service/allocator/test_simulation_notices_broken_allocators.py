"""A simulation that notices nothing is worth nothing: each of these faults must break a rule within a few seeds."""

from collections.abc import Callable

import pytest

from allocation.play import ScheduleError, play
from cenote.language.schema.service import PoolRules
from cenote.service.allocator.accounts import Account
from cenote.service.allocator.decide import endings
from cenote.service.allocator.decide import endings as assign
from cenote.service.allocator.decide import sizes as bounds
from cenote.service.allocator.fold import event as decisions
from cenote.service.allocator.pool import FreeSeats
from cenote.service.allocator.state import ServiceState

Fault = Callable[[pytest.MonkeyPatch], None]


def gives_slots_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FreeSeats, "take", lambda *_: None)


def ignores_the_limits_of_users(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(assign, "may_have_more", lambda *_: True)


def ignores_the_rules_of_pools(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(assign, "pool_rules", lambda *_: PoolRules())


def starts_what_users_cannot_pay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(assign, "can_pay", lambda *_: True)


def does_not_stop_what_users_cannot_pay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bounds, "overspent", lambda *_: ())


def asks_for_workers_that_nobody_pays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bounds, "affordable", lambda *_: None)
    patch.setattr(bounds, "why_used_up", lambda *_: "")


def forgets_what_was_spent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("cenote.service.allocator.fold.instances.Account", lambda *_: Account())


def counts_no_worker(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("cenote.service.allocator.fold.instances._costs", lambda *_: False)


def ignores_the_hours(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bounds, "_bounds", lambda *_: None)


def waits_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("cenote.service.allocator.allocator.time_out", lambda *_: ())


def never_ends_tasks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ServiceState, "check_end", lambda *_: None)


def forgets_who_lost_a_worker(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("cenote.service.allocator.fold.instances.lose", lambda *_: None)


def does_not_replay_workers_that_were_sent_away(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decisions, "_change_pool", lambda *_: None)


def tries_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(endings, "_why_over", lambda *_: "")


def starts_no_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(assign, "next_task", lambda *_: None)


@pytest.mark.parametrize(
    "fault",
    [
        gives_slots_twice,
        ignores_the_limits_of_users,
        ignores_the_rules_of_pools,
        starts_what_users_cannot_pay,
        does_not_stop_what_users_cannot_pay,
        asks_for_workers_that_nobody_pays,
        forgets_what_was_spent,
        counts_no_worker,
        ignores_the_hours,
        waits_for_ever,
        never_ends_tasks,
        forgets_who_lost_a_worker,
        does_not_replay_workers_that_were_sent_away,
        tries_for_ever,
        starts_no_one,
    ],
)
def test_a_fault_breaks_a_rule(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)

    with pytest.raises(ScheduleError):
        [play(seed) for seed in range(200)]
