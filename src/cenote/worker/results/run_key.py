"""Keep the key of a run's folder, by which results are known to be the run's own."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

NAME = "key"
_BYTES = 32
_made: dict[str, bytes] = {}
"""Folder → the key that this process made for it: some file systems cannot keep a file from others, and what they hold
is not trusted by a later run."""


def key_of(folder: Path) -> bytes:
    """The key that is there, or else a new one."""
    return trusted_key(folder) or _made.get(str(folder.absolute())) or make_key(folder)


def trusted_key(folder: Path) -> bytes | None:
    """The key, if only we can have written it and nobody else can read it; None otherwise.

    It must be a plain file of ours with one name and without access for others: a link, a file that somebody else put
    there, or one that others may read or change could be known to whoever planted results beside it.
    """
    try:
        handle = os.open(folder / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        facts = os.fstat(handle)
        ours = stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid() and facts.st_nlink == 1
        if not ours or stat.S_IMODE(facts.st_mode) & 0o077 or facts.st_size != _BYTES:
            return None
        key = file.read(_BYTES)
    return key if len(key) == _BYTES else None


def make_key(folder: Path) -> bytes:
    """A new key, in the place of whatever was there: what was written under another one is not trusted any more."""
    folder.mkdir(parents=True, exist_ok=True)
    key = secrets.token_bytes(_BYTES)
    temporary = folder / f".{NAME}.{os.getpid()}"
    with suppress(FileNotFoundError):
        temporary.unlink()
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(key)
            file.flush()
            os.fsync(handle)
    except OSError as problem:
        temporary.unlink(missing_ok=True)
        problem.filename = problem.filename or str(temporary)  # a disk that is full does not say which
        raise
    temporary.replace(folder / NAME)
    _made[str(folder.absolute())] = key
    return key


def forget_key(folder: Path) -> None:
    """Remove it; one that is not there is not an error."""
    (folder / NAME).unlink(missing_ok=True)
    _made.pop(str(folder.absolute()), None)
