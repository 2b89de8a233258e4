"""Give a worker a folder of its own on its node: for temporary files, and data that memory cannot hold.

The folder goes when the worker ends. What a worker left that was killed, the next one on the same node takes away when
it begins or ends: each holds a lock on its folder, which the system lets go of with the process.
"""

from __future__ import annotations

import fcntl
import getpass
import glob
import logging
import os
import re
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from cenote.common import storage
from cenote.common.values import dataclass

_LOG = logging.getLogger("cenote.worker")
_YOUNG = 60.0
"""Seconds in which a folder may have been made and not been locked yet."""


_ATTEMPTS, _AGAIN = 20, 0.05
"""How often a folder is tried to be removed into which something is still written, and seconds between."""


@dataclass(frozen=True)
class _Scratch:
    folder: Path
    lock: int | None
    """Descriptor that holds the lock for as long as the process lives; None where the file system has no locks."""


_taken: list[_Scratch] = []
"""Of this process, as the folder for temporary files is."""


def take_scratch(place: str, worker: str) -> Path | None:
    """A new folder in this place, `$VARIABLES` of this node filled in.

    None, with a warning in the log, where it cannot be made: the worker then does without.
    """
    if (filled := scratch_place(place)) is None:
        return None
    try:
        return make_scratch(filled, worker)
    except OSError as problem:
        _LOG.warning("no scratch folder %s: %s; using %s", filled, problem, tempfile.gettempdir())
        return None


def scratch_place(place: str) -> Path | None:
    """This place with `$VARIABLES` of this node; None, with a warning in the log, where one of them is not set."""
    filled = filled_in(place)
    if missing := re.search(r"\$\{?(\w+)", filled):
        _LOG.warning("no scratch folder %s: %s is not set here; using %s", place, missing[1], tempfile.gettempdir())
        return None
    return Path(filled)


def make_scratch(place: Path, worker: str) -> Path:
    """A new folder in this one. Raises OSError where it cannot be made."""
    place.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{_prefix()}{worker}-", dir=place)).absolute()
    _taken.append(_Scratch(folder, _lock_of(folder)))
    remove_scratch_of_the_dead(place)
    return folder


def keep_temporary_files(folder: Path) -> None:
    """Temporary files of this process and its children go there from now on."""
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # decided anew, from the variable


def filled_in(place: str) -> str:
    """The folder with `~` and `$VARIABLES` of this node; `$USER` is known also where a batch system does not set it."""
    if "USER" not in os.environ:
        with suppress(KeyError, OSError):  # an account without a name
            place = re.sub(r"\$(USER\b|\{USER\})", getpass.getuser(), place)
    return os.path.expanduser(os.path.expandvars(place))  # noqa: PTH111  # pathlib fills no variables in


def leave_scratch(only: Path | None = None) -> None:
    """Take away the folders of this process, or this one of them; what cannot be removed stays.

    It may be called while it is at work already: by a signal that comes in between, or by the thread that ends the
    process. Each call comes back only when the folder is gone, for the process ends right after it.
    """
    for scratch in [one for one in _taken if only in (None, one.folder)]:
        _remove(scratch.folder)
        with suppress(ValueError):  # another call did it
            _taken.remove(scratch)
            if scratch.lock is not None:
                os.close(scratch.lock)
            remove_scratch_of_the_dead(scratch.folder.parent)  # some were too young when this process began


def _remove(folder: Path) -> None:
    """A task that was left behind, or another call, may write or remove there meanwhile."""
    for _ in range(_ATTEMPTS):
        storage.remove_tree(folder)
        if not folder.exists():
            return
        time.sleep(_AGAIN)
    _LOG.warning("the scratch folder %s could not be removed", folder)


def _lock_of(folder: Path) -> int | None:
    """A descriptor that holds the lock; None when another process has it, or where there are no locks."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def scratch_of_the_dead(place: Path) -> list[Path]:
    """Folders of this user's workers on this node that were killed. Those of other nodes share no locks with us."""
    found = []
    for folder, lock in _left_in(place):
        os.close(lock)
        found.append(folder)
    return found


def remove_scratch_of_the_dead(place: Path) -> None:
    """Take them away, with the data and credentials in them."""
    for folder, lock in _left_in(place):
        storage.remove_tree(folder)
        os.close(lock)


def _left_in(place: Path) -> Iterator[tuple[Path, int]]:
    """Each with a descriptor that holds its lock."""
    for left in place.glob(f"{glob.escape(_prefix())}*"):
        with suppress(OSError):  # gone meanwhile
            facts = left.lstat()
            is_old = time.time() - facts.st_mtime > _YOUNG
            if is_old and storage.is_own_folder(facts) and (lock := _lock_of(left)) is not None:
                yield left, lock


def _prefix() -> str:
    return f"cenote-{socket.gethostname()}-"
