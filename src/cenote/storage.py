"""This file writes files so that they appear whole or not at all, and knows what an interrupted write leaves behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_UNFINISHED = ".unfinished"
"""How everything ends that is not whole yet; it begins with a dot."""


@contextmanager
def appearing(target: Path, *, under_its_name: bool = False) -> Iterator[Path]:
    """A path to write to, which takes the target's place at the end; an error leaves nothing of it behind.

    `under_its_name` is for files that hold the name that they were written under, as ROOT's do: the path ends as the
    target's, in a folder that is gone afterwards.
    """
    if under_its_name:
        temporary = target.parent / f".{os.getpid()}{_UNFINISHED}" / target.name
        temporary.parent.mkdir(parents=True, exist_ok=True)
    else:
        temporary = target.with_name(f".{target.name}.{os.getpid()}{_UNFINISHED}")
    try:
        yield temporary
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        if under_its_name:
            with suppress(OSError):  # another thread writes there
                temporary.parent.rmdir()


def write_text(target: Path, text: str) -> Path:
    """Write a text file, and its folder where there is none; returns its path."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with appearing(target) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return target


def unfinished(folder: Path) -> list[Path]:
    """Files below a folder that were begun and never became whole, by anybody who wrote them with `appearing`."""
    found: list[Path] = []
    for path in folder.rglob(f".*{_UNFINISHED}"):
        found += path.iterdir() if path.is_dir() else [path]
    return sorted(found)


def remove_unfinished(file: Path) -> None:
    """Remove one of them; one that is gone already, or cannot be removed, stays so."""
    with suppress(OSError):
        file.unlink()
    if file.parent.name.endswith(_UNFINISHED):
        with suppress(OSError):
            file.parent.rmdir()
