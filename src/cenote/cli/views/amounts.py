"""Word amounts: `1 cpu, 16 GB, 1 gpu`, `3 tasks`, `2.1 M events/s`."""

from __future__ import annotations

from math import ceil

from cenote.language.execution import Amounts
from cenote.units import format_bytes, format_count, format_seconds


def plural(count: int, noun: str) -> str:
    """`1 task`, `1,200 tasks`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def amounts_in_words(amounts: Amounts) -> str:
    """What was given, in a fixed order; `anything` when nothing was."""
    words = []
    if amounts.cpus is not None:
        words.append(f"{amounts.cpus:g} cpu{'' if amounts.cpus == 1 else 's'}")
    if amounts.memory is not None:
        words.append(format_bytes(amounts.memory))
    if amounts.gpus:
        words.append(f"{amounts.gpus} gpu{'' if amounts.gpus == 1 else 's'}")
    if amounts.disk is not None:
        words.append(f"{format_bytes(amounts.disk)} disk")
    return ", ".join(words) or "anything"


def rate_in_words(per_second: float | None) -> str:
    """`2.1 M/s`, or nothing while unknown."""
    return "" if per_second is None else f"{format_count(per_second)}/s"


def duration_in_words(seconds: float | None) -> str:
    """`2m 10s`, or nothing while unknown; whole seconds, because it is mostly a guess."""
    if seconds is None or seconds <= 0:
        return ""
    return f"{ceil(seconds)}s" if seconds < 60 else format_seconds(seconds)
