"""This file writes files so that they appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cenote import storage


@contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """A temporary path to write to, which takes the target's place at the end; an error leaves nothing behind.

    Its name is the target's own, in a folder of its own: ROOT files hold the name that they were written under.
    """
    folder = target.parent / f".writing-{os.getpid()}"
    temporary = folder / target.name
    with storage.writing(target):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with storage.writing(target):
            yield temporary
            temporary.replace(target)
    finally:
        storage.remove(temporary)
        with suppress(OSError):
            folder.rmdir()


def write_text(target: Path, text: str) -> Path:
    """Write a text file; returns its path."""
    with appearing(target) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return target
