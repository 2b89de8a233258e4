"""What Dask does with a result, and what the driver hears of it: let go is not lost."""

from __future__ import annotations

import itertools
import queue

import pytest

from cenote.execution.backends.dask.messages import Forgotten, InMemory, MadeAgain, Message
from cenote.execution.backends.dask.scheduler_plugin import SchedulerEvents


def heard_after(*states: str) -> list[Message]:
    news = SchedulerEvents(60.0)
    for start, finish in itertools.pairwise(states):
        news.transition("bundle", start, finish, stimulus_id="test")
    heard = []
    while True:
        try:
            heard.append(news.inbox.get_nowait())
        except queue.Empty:
            return heard


@pytest.mark.parametrize("way", [("released", "forgotten"), ("forgotten",)])
def test_a_result_that_is_let_go_is_not_lost(way: tuple[str, ...]) -> None:
    assert heard_after("waiting", "processing", "memory", *way) == [InMemory("bundle"), Forgotten("bundle")]


def test_a_result_that_is_made_again_was_lost() -> None:
    heard = heard_after("processing", "memory", "released", "waiting", "processing", "memory")
    assert heard == [InMemory("bundle"), MadeAgain("bundle"), InMemory("bundle")]


def test_a_bundle_that_waits_again_before_it_has_a_result_has_lost_none() -> None:
    assert heard_after("processing", "released", "waiting", "processing", "memory") == [InMemory("bundle")]


def test_a_lost_result_that_nobody_needs_any_more_is_forgotten() -> None:
    heard = heard_after("processing", "memory", "released", "waiting", "released", "forgotten")
    assert heard == [InMemory("bundle"), MadeAgain("bundle"), Forgotten("bundle")]
