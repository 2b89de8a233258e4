"""What a modifier raises is told with its name, and those around it see it as it was raised."""

from __future__ import annotations

import pytest

from cenote.analysis.modifiers.interface import Modifier, Run, StageCall
from cenote.analysis.modifiers.retry import Retry
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import Events
from cenote.execution.worker.failure import ModifierFailure, failure_of
from cenote.execution.worker.modified import run_modified
from cenote.testing.sample_events import sample_events


class _Idle(Operation):
    """Does nothing."""

    def run(self, events: Events) -> Result:
        return Result(events)


class _UnreadableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class _Raising(Modifier):
    """Raises as often as it is told to."""

    times: int = 1

    def around(self, run: Run, events: Events, call: StageCall) -> Result:
        call.kept["calls"] = call.kept.get("calls", 0) + 1
        if call.kept["calls"] <= self.times:
            raise ConnectionError("come back later")
        return run(events)


class _Unreadable(Modifier):
    """Raises what cannot be told."""

    def around(self, run: Run, events: Events, call: StageCall) -> Result:  # noqa: ARG002
        raise _UnreadableError


def _run(*modifiers: Modifier) -> Result:
    stage = _Idle()
    calls = [(one, StageCall(type(one).__name__, "Stage", stage, measures=type(one).measures)) for one in modifiers]
    return run_modified(calls, stage.run, sample_events())


def test_retry_repeats_what_a_modifier_inside_it_raises() -> None:
    assert _run(Retry(on=["ConnectionError"], wait=0), _Raising(times=2)).events.size == 60


def test_after_the_last_repeat_the_modifier_inside_is_named() -> None:
    with pytest.raises(ModifierFailure) as raised:
        _run(Retry(on=["ConnectionError"], wait=0), _Raising(times=5))
    assert failure_of(raised.value).message == "modifier '_Raising': ConnectionError: come back later"


def test_an_exception_whose_message_cannot_be_read_names_its_modifier() -> None:
    with pytest.raises(ModifierFailure) as raised:
        _run(_Unreadable())
    told = failure_of(raised.value).message
    assert told == "modifier '_Unreadable': _UnreadableError: (its message cannot be read)"
