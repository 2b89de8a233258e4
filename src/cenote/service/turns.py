"""Go through many things in the service's loop, and let everybody else have their turn in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

Value = TypeVar("Value")
TURN = 0.005
"""Seconds of one turn, about: what one thing takes differs a lot, and is not known before."""


async def in_turns(values: Iterable[Value]) -> AsyncIterator[Value]:
    """These values, as many in each turn as there is time for. What they are about may change in between."""
    began = time.monotonic()
    for value in values:
        yield value
        if time.monotonic() - began > TURN:
            await asyncio.sleep(0)
            began = time.monotonic()
