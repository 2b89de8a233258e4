"""Test the modifiers that guard a stage: `retry` and `timeout`."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from cenote.analysis.modifiers.retry import LONGEST_WAIT, Retry
from cenote.analysis.modifiers.timeout import Timeout
from cenote.analysis.operations.interface import Result
from cenote.analysis.operations.support.events import Events

from .conftest import Around


class ServiceError(RuntimeError):
    """Somebody's own."""


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What was waited for, which takes no time here."""
    found: list[float] = []
    monkeypatch.setattr(time, "sleep", found.append)
    return found


def failing(times: int, problem: Exception) -> tuple[Callable[[Events], Result], list[Events]]:
    """A stage that succeeds after some failures, and the events that it was given."""
    seen: list[Events] = []

    def run(events: Events) -> Result:
        seen.append(events)
        if len(seen) <= times:
            raise problem
        return Result(events)

    return run, seen


def test_a_stage_is_called_again_with_the_same_events(around: Around, pauses: list[float]) -> None:
    stage, seen = failing(2, ConnectionResetError("gone"))
    call = around(Retry(times=3, wait=0.5), stage)
    assert len(seen) == 3
    assert seen[0] is seen[1] is seen[2]
    assert pauses == [0.5, 1.0]
    assert call.measured.values == {
        "repeats": 2,
        "rescued": 1,
        "waited": 1.5,
        "reason": "ConnectionResetError",
    }


def test_a_stage_that_succeeds_is_called_once(around: Around) -> None:
    stage, seen = failing(0, OSError())
    assert around(Retry(), stage).measured.values == {"repeats": 0, "rescued": 0, "waited": 0.0}
    assert len(seen) == 1


def test_after_the_last_repeat_the_exception_counts(around: Around) -> None:
    stage, seen = failing(9, OSError("still"))
    with pytest.raises(OSError, match="still"):
        around(Retry(times=2), stage)
    assert len(seen) == 3


def test_other_exceptions_count_at_once(around: Around) -> None:
    stage, seen = failing(9, KeyError("mine"))
    with pytest.raises(KeyError):
        around(Retry(on=["OSError", "ValueError"]), stage)
    assert len(seen) == 1


@pytest.mark.parametrize("name", [f"{__name__}.ServiceError", f"{__name__.rpartition('.')[2]}.ServiceError"])
def test_exceptions_of_modules_are_named_with_the_module(around: Around, name: str) -> None:
    stage, seen = failing(1, ServiceError())
    around(Retry(on=[name]), stage)
    assert len(seen) == 2


def test_waits_stop_growing(around: Around, pauses: list[float]) -> None:
    stage, _ = failing(12, OSError())
    around(Retry(times=12, wait=1), stage)
    assert pauses[:3] == [1, 2, 4]
    assert max(pauses) == LONGEST_WAIT


def test_a_thousand_repeats_without_a_wait_are_made(around: Around) -> None:
    stage, seen = failing(1100, OSError())
    around(Retry(times=1100, wait=0), stage)
    assert len(seen) == 1101


@pytest.mark.parametrize("name", ["OSErorr", "KeyboardInterrupt", "UserWarning", "print"])
def test_names_that_are_no_exceptions_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="there is no built-in exception"):
        Retry(on=[name])


@pytest.mark.parametrize(("settings", "limit"), [({"base": "1m"}, 60), ({"base": 1, "per_event": 0.011}, 2)], ids=str)
def test_the_limit_grows_with_the_events(around: Around, settings: dict[str, object], limit: int) -> None:
    limits: list[int] = []
    call = around(Timeout.model_validate(settings), limit=limits.append)
    assert limits == [limit]
    assert call.measured.values["limit"] == limit
    assert 0 <= call.measured.values["used"] <= 100


def test_no_time_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="more than zero"):
        Timeout(base=0)


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), 1e300])
def test_a_limit_without_end_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="per_event"):
        Timeout(per_event=seconds)
