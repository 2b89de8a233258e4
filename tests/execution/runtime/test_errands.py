"""Errands: what keeps its own state is asked one thing at a time, and nobody waits for the answer of another."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import pytest

from cenote.execution.runtime.job_queue import BackgroundCalls


class Clerk:
    """Somebody who is asked, and finds out whether two questions come at once."""

    def __init__(self) -> None:
        self.busy = threading.Lock()
        self.answers: list[int] = []

    def ask(self, number: int) -> None:
        assert self.busy.acquire(blocking=False), "two questions at once"
        self.answers.append(number)
        self.busy.release()


def test_calls_to_the_same_one_are_made_one_after_the_other_in_their_order() -> None:
    errands, clerk = BackgroundCalls(), Clerk()
    for number in range(200):
        errands.send(clerk, lambda number=number: clerk.ask(number), Future.result)
    errands.finish()
    assert clerk.answers == list(range(200))


def test_a_call_does_not_wait_for_one_to_somebody_else() -> None:
    errands, called = BackgroundCalls(), threading.Event()
    heard: list[Any] = []
    errands.send(Clerk(), lambda: called.wait(timeout=60), lambda answer: heard.append(answer.result()))
    errands.send(Clerk(), called.set, Future.result)
    errands.finish()
    assert heard == [True]


def test_one_that_goes_wrong_keeps_no_other_from_being_heard() -> None:
    errands, clerk = BackgroundCalls(), Clerk()
    heard: list[Any] = []
    errands.send(clerk, lambda: 1 / 0, Future.result)
    errands.send(clerk, lambda: "taken", lambda answer: heard.append(answer.result()))
    with pytest.raises(ZeroDivisionError):
        errands.finish()
    assert heard == ["taken"]
