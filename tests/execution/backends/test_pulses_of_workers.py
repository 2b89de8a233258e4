"""Which workers are silent: by their heartbeats, by how their processes are, and by whether we listened at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cenote.execution.backends.dask.leaving import Heartbeats
from cenote.execution.backends.dask.messages import AnswersAgain, StopsAnswering
from cenote.execution.backends.support.outcomes import VitalSigns

NO_SIGNS: Mapping[float, VitalSigns] = {}


def found(
    heard: Mapping[float, float], *, until: int, signs: Mapping[float, VitalSigns] = NO_SIGNS, patience: float = 60.0
) -> list[tuple[int, StopsAnswering | AnswersAgain]]:
    """What is told second by second; `heard` and `signs` hold from the second that they stand under."""

    def latest(facts: Mapping[float, object], now: int) -> Iterator[object]:
        return iter([fact for since, fact in sorted(facts.items()) if since <= now][-1:])

    pulses, told = Heartbeats(patience), []
    for now in range(until):
        last = next(latest(heard, now))
        assert isinstance(last, float)
        seen = next(latest(signs, now), None)
        assert seen is None or isinstance(seen, VitalSigns)
        told += [(now, one) for one in pulses.look(float(now), {"one": last}, lambda _, it=seen: it, every=0.5)]
    return told


def test_a_worker_without_heartbeats_is_silent_after_ten_seconds() -> None:
    assert found({0: 0.0}, until=30) == [(11, StopsAnswering("one", 11.0))]


def test_a_worker_that_is_heard_again_answers() -> None:
    assert found({0: 0.0, 20: 20.0}, until=25) == [(11, StopsAnswering("one", 11.0)), (20, AnswersAgain("one"))]


def test_a_worker_of_this_machine_that_computes_is_not_silent() -> None:
    busy = {float(now): VitalSigns(stopped=False, computed=now) for now in range(60)}
    assert found({0: 0.0}, until=60, signs=busy) == []


def test_a_stopped_process_is_silent() -> None:
    stopped = {0.0: VitalSigns(stopped=True, computed=7)}
    assert found({0: 0.0}, until=30, signs=stopped) == [(11, StopsAnswering("one", 11.0))]


def test_a_process_that_waits_for_a_file_system_is_silent() -> None:
    hangs = {0.0: VitalSigns(stopped=False, computed=7)}
    assert found({0: 0.0}, until=30, signs=hangs) == [(17, StopsAnswering("one", 11.0))]


def test_a_driver_that_stood_still_blames_nobody() -> None:
    pulses = Heartbeats(60.0)
    assert list(pulses.look(0.0, {"one": 0.0}, lambda _: None, every=0.5)) == []
    assert list(pulses.look(100.0, {"one": 0.0}, lambda _: None, every=0.5)) == []
    assert list(pulses.look(101.0, {"one": 100.5}, lambda _: None, every=0.5)) == []


def test_with_little_patience_a_worker_is_silent_sooner() -> None:
    assert found({0: 0.0}, until=10, patience=4.0) == [(3, StopsAnswering("one", 3.0))]
