"""Python looks for garbage while others wait: among few objects at a time, where many are served."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from cenote.common import signals as garbage


@pytest.fixture
def program_of_ours() -> Iterator[None]:
    """One that has just started."""
    usual = gc.get_threshold()
    garbage.leave_alone()
    yield
    gc.unfreeze()
    gc.set_threshold(*usual)


@pytest.mark.usefixtures("program_of_ours")
def test_a_service_looks_at_few_objects_at_a_time() -> None:
    garbage.look_at_few()
    looked_at: list[int] = []

    def note(phase: str, _: object) -> None:
        if phase == "start":
            looked_at.append(gc.get_count()[0])

    gc.callbacks.append(note)
    kept = [[number] for number in range(400_000)]
    gc.callbacks.remove(note)

    assert len(kept) == 400_000
    assert 10_000 < max(looked_at) < 30_000


def test_programs_of_others_are_left_alone() -> None:
    before = gc.get_threshold()
    garbage.look_at_few()

    assert gc.get_threshold() == before
