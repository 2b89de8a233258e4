"""State in plain words what each state of a pool means."""

from __future__ import annotations

from typing import NamedTuple

from cenote.engine.scaling import PoolState


class PoolWord(NamedTuple):
    """How people read a state."""

    short: str
    """For a table."""
    meaning: str
    """For a sentence."""


POOL_WORDS: dict[str, PoolWord] = {
    "waiting": PoolWord("not started", "the run has not started"),
    "no worker yet": PoolWord("no worker yet", "tasks wait, and no worker has joined so far"),
    "idle": PoolWord("ready", "workers are there, and none of them has a task at the moment"),
    "working": PoolWord("working", "at least one task runs"),
    "workers lost": PoolWord("workers lost", "tasks wait, and all its workers are gone"),
    "done": PoolWord("done", "no task is left for it"),
    PoolState.SUBMITTED.value: PoolWord("workers queued", "no worker has a machine yet"),
    PoolState.PARTIALLY_DISPATCHED.value: PoolWord(
        "workers starting", "some workers have a machine, and none has joined"
    ),
    PoolState.FULLY_DISPATCHED.value: PoolWord(
        "all workers starting", "all its workers have a machine, and none has joined"
    ),
    PoolState.PARTIALLY_EXECUTING.value: PoolWord(
        "some workers joined", "some workers have joined, and others are still awaited"
    ),
    PoolState.FULLY_EXECUTING.value: PoolWord("all workers joined", "every requested worker has joined"),
    PoolState.CLOSING.value: PoolWord("workers leaving", "no task is left for it, and its workers are being ended"),
    PoolState.CLOSED.value: PoolWord("closed", "no task is left for it, and its workers have ended"),
    PoolState.FAILURE.value: PoolWord("failed", "it kept losing its workers, and gets no more"),
}
"""State, as in `summary.json` → its words."""


def pool_word(state: str) -> PoolWord:
    """The words for a state; a state of another version stands for itself."""
    return POOL_WORDS.get(state, PoolWord(state, ""))
