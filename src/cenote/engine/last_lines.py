"""Put what a worker wrote last under the words about it."""

from __future__ import annotations


def with_last_lines(words: str, lines: str) -> str:
    """The words, and below them the lines, if there are any."""
    written = [f"    {line}" for line in lines.splitlines()]
    return "\n".join([words, *(["  what it wrote last:"] if written else []), *written])
