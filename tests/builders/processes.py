"""Look at the processes of this machine, as the system lists them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def is_alive(process: int) -> bool:
    """Whether it runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def words_of(process: int) -> list[str]:
    """Its command; none of one that is gone."""
    try:
        return [word for word in Path(f"/proc/{process}/cmdline").read_text().split("\0") if word]
    except (FileNotFoundError, ProcessLookupError):
        return []


def descendants(process: int) -> list[int]:
    """What it started, and what those started; the eldest first."""
    found: list[int] = []
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in map(int, file.read_text().split()):
                found += [child, *descendants(child)]
    return found
