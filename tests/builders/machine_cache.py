"""Keep what is costly to make for all tests of this machine, in a folder of this account."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache() -> Path:
    """The folder; it outlives the tests."""
    folder = Path(f"/var/tmp/cenote-live-{os.geteuid()}")
    folder.mkdir(mode=0o755, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to another account")
    return folder


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Several test processes may want the same thing at once: the others wait until one has it."""
    with (cache() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def made_once(name: str, wanted: str, make: Callable[[Path], None]) -> Path:
    """The folder that `make` filled, made anew only where what is `wanted` of it changed."""
    folder = cache() / name
    complete = folder / "complete"
    with locked(name):
        if not complete.exists() or complete.read_text() != wanted:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            complete.write_text(wanted)
    return folder
