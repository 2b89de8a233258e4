"""Let Python look for garbage less often while a command starts: what it imports stays, however often it looks."""

from __future__ import annotations

import gc

_OBJECTS = 300_000
"""That may come, and not go, before Python looks: more than any command makes as it starts."""
_usual: list[tuple[int, int, int]] = []


def leave_alone() -> None:
    """For a program of ours, as it starts."""
    _usual.append(gc.get_threshold())
    gc.set_threshold(_OBJECTS)


def look_again() -> None:
    """Before much is computed: as usual, but never again at what is there by now. Nothing in programs of others."""
    if _usual:
        gc.freeze()
        gc.set_threshold(*_usual.pop())
