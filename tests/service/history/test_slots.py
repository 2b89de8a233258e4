"""The service remembers a day of its pools, in bounded room, and over its own end."""

from __future__ import annotations

from pathlib import Path

from builders.service import ServiceStory, a_service_pool, a_task
from cenote.service.history import DAY, SlotHistory


def a_story() -> ServiceStory:
    story = ServiceStory()
    story.now = 6000.0  # a full minute
    story.add_pool(a_service_pool("cpu", workers=2))
    return story


def note(history: SlotHistory, story: ServiceStory, *, seconds: float) -> None:
    """Look once more, so much later."""
    story.later(seconds)
    history.note(story.now, story.allocator.pools())


def test_busy_free_and_waiting_are_seen_as_they_change(tmp_path: Path) -> None:
    story, history = a_story(), SlotHistory(tmp_path)
    note(history, story, seconds=1)
    story.add_task(a_task("one", instances=3))
    note(history, story, seconds=10)
    story.begin()
    story.end("one", 0)
    story.end("one", 1)
    note(history, story, seconds=10)
    found = history.of("cpu", now=story.now, seconds=100, most=100).points
    assert [(one.at - 6000, one.busy, one.free, one.waiting) for one in found] == [
        (1.0, 0, 2, 0),
        (11.0, 2, 0, 1),
        (21.0, 1, 1, 0),
    ]


def test_what_does_not_change_takes_no_room(tmp_path: Path) -> None:
    story, history = a_story(), SlotHistory(tmp_path)
    for _ in range(500):
        note(history, story, seconds=0.2)
    assert len(history.of("cpu", now=story.now, seconds=DAY, most=2000).points) == 1


def test_however_much_happens_the_room_is_bounded(tmp_path: Path) -> None:
    story, history = a_story(), SlotHistory(tmp_path)
    views = {}
    for busy in (0, 1):
        if busy:
            story.add_task(a_task("one"))
        views[busy] = story.allocator.pools()
    at = 6000.0
    for step in range(6000):
        at += 20.0 if step < 4500 else 0.2  # 25 hours, then 5 minutes with a change at every look
        history.note(at, views[step % 2])
    points = history._pools["cpu"]
    assert at - DAY - 60 <= points[0].at
    assert len(points) < 1440 + 450 + 5 * 60 + 10
    of_a_minute = history.of("cpu", now=at, seconds=60, most=2).points
    assert all(0.4 < one.busy < 0.6 for one in of_a_minute[:-1])


def test_a_restart_keeps_the_day_and_says_what_it_does_not_know(tmp_path: Path) -> None:
    story, history = a_story(), SlotHistory(tmp_path)
    story.add_task(a_task("one"))
    for _ in range(65):
        note(history, story, seconds=2)
    story.later(600)
    again = SlotHistory(tmp_path)
    note(again, story, seconds=1)
    found = again.of("cpu", now=story.now, seconds=3600, most=3600).points
    assert [(one.known, one.busy) for one in found] == [(True, 1), (False, 0), (True, 1)]
    assert found[1].at == 6000 + 120


def test_a_pool_that_is_gone_is_forgotten_also_after_a_restart(tmp_path: Path) -> None:
    story, history = a_story(), SlotHistory(tmp_path)
    for _ in range(65):
        note(history, story, seconds=2)
    history.note(story.now, [])
    assert history.of("cpu", now=story.now, seconds=3600, most=100).points == ()
    assert SlotHistory(tmp_path).of("cpu", now=story.now, seconds=3600, most=100).points == ()


def test_a_damaged_database_costs_only_the_past(tmp_path: Path) -> None:
    (tmp_path / "slots-1.sqlite").write_bytes(b"no database" * 1000)
    story, history = a_story(), SlotHistory(tmp_path)
    note(history, story, seconds=1)
    assert len(history.of("cpu", now=story.now, seconds=60, most=10).points) == 1
