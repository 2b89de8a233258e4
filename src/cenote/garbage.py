"""Let Python look for garbage less often while a command starts: what it imports stays, however often it looks."""

from __future__ import annotations

import gc

_OBJECTS = 300_000
"""That may come, and not go, before Python looks: more than any command makes as it starts."""
_FEW = (20_000, 5, 300)
"""Objects that came and did not go before Python looks at these; how often it does so before it looks at those that it
looked at before; how often that before it looks at all, which takes a tenth of a second for each million."""
_usual: list[tuple[int, int, int]] = []


def leave_alone() -> None:
    """For a program of ours, as it starts."""
    _usual.append(gc.get_threshold())
    gc.set_threshold(_OBJECTS)


def look_at_few() -> None:
    """Before others are served, who wait while Python looks. Nothing in programs of others."""
    if _usual:
        _usual.clear()
        gc.freeze()
        gc.set_threshold(*_FEW)


def look_again() -> None:
    """Before much is computed: as usual, but never again at what is there by now. Nothing in programs of others."""
    if _usual:
        gc.freeze()
        gc.set_threshold(*_usual.pop())
