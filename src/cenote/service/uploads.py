"""Keep files that users send, by the digests of their contents: private to each user, limited in size and time.

A task or a pool that uses one gets a name of its own for it (a hard link), and so keeps it for as long as it is there.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from cenote import errors, storage
from cenote.client.access_records import UploadedFile, UploadRecord
from cenote.runs.summary import iso_time
from cenote.units import format_bytes
from cenote.values import dataclass

_DIGEST = re.compile(r"[0-9a-f]{64}")
_PART = ".part"


@dataclass(frozen=True)
class UploadLimits:
    """How much, and for how long."""

    largest: int = 8 << 30
    """Bytes of one file."""
    quota: int = 32 << 30
    """Bytes of one user."""
    seconds: float = 7 * 86400.0
    """Without being used, after which content is removed."""


_USUAL = UploadLimits()


class Uploads:
    """The contents that users sent."""

    def __init__(self, folder: Path, *, limits: UploadLimits = _USUAL, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._limits, self._clock = folder, limits, clock
        self._receiving: Counter[str] = Counter()
        """Bytes of each user that arrive just now."""

    def find(self, user: str, digest: str, *, executable: bool = False) -> UploadRecord | None:
        """Content that this user sent; it is used now."""
        file = self._file(user, digest, executable=executable)
        try:
            os.utime(file, (now := self._clock(), now))
            size = file.stat().st_size
        except FileNotFoundError:
            return None
        return UploadRecord(digest=digest, size=size, expires=iso_time(now + self._limits.seconds))

    async def receive(
        self, user: str, digest: str, parts: AsyncIterator[bytes], *, executable: bool = False
    ) -> UploadRecord:
        """Take content as it comes. Raises where it is too large, or not what its digest says."""
        target = self._file(user, digest, executable=executable)
        with storage.writing(target):
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = target.parent / f"{secrets.token_hex(8)}{_PART}"
        before, hashed, size = self._used(user), hashlib.sha256(), 0
        try:
            with storage.writing(target):
                opened = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700 if executable else 0o600)
                with os.fdopen(opened, "wb") as file:
                    async for data in parts:
                        size += len(data)
                        self._receiving[user] += len(data)
                        self._refuse_too_large(user, size, before + self._receiving[user])
                        hashed.update(data)
                        file.write(data)
                if hashed.hexdigest() != digest:
                    raise errors.error(errors.BAD_VALUE, f"what was uploaded is not the content of {digest}")
                part.replace(target)
        finally:
            self._receiving[user] -= size
            part.unlink(missing_ok=True)
        found = self.find(user, digest, executable=executable)
        assert found is not None, "it was written just now"
        return found

    def refuse_too_large(self, user: str, size: int) -> None:
        """Raises where so much more is too much; before any of it is read."""
        self._refuse_too_large(user, size, self._used(user) + self._receiving[user] + size)

    def _refuse_too_large(self, user: str, size: int, total: int) -> None:
        if size > self._limits.largest:
            most = format_bytes(self._limits.largest)
            raise errors.error(errors.TOO_LARGE, f"a file that is uploaded may have {most}, and not more")
        if total > self._limits.quota:
            most = format_bytes(self._limits.quota)
            raise errors.error(
                errors.TOO_LARGE,
                f"uploads of user '{user}' may have {most} in all",
                hint="wait until earlier ones expire, or put large files where workers can read them",
            )

    def place(self, user: str, files: Sequence[UploadedFile], folder: Path) -> tuple[str, ...]:
        """Give contents of this user their names in a folder, which keeps them; returns where they are."""
        return tuple(self._placed(user, file, folder / str(number)) for number, file in enumerate(files))

    def _placed(self, user: str, file: UploadedFile, folder: Path) -> str:
        if not file.name or "/" in file.name or "\0" in file.name or file.name in (".", ".."):
            raise errors.error(errors.BAD_VALUE, f"{file.name!r} cannot name a file in a folder")
        if self.find(user, file.digest, executable=file.executable) is None:
            raise errors.error(errors.MISSING_FILE, f"'{file.name}' was not uploaded, or it expired: upload it again")
        target = folder / file.name
        with storage.writing(target):
            folder.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            target.hardlink_to(self._file(user, file.digest, executable=file.executable))
        return str(target)

    def sweep(self) -> None:
        """Remove what nobody used for long enough."""
        before = self._clock() - self._limits.seconds
        for file in self._folder.glob("*/*"):
            try:
                if file.stat().st_mtime < before:
                    file.unlink()
            except FileNotFoundError:
                continue

    def _used(self, user: str) -> int:
        """Bytes of all whole files of a user."""
        files = [file for file in self._of(user).glob("*") if file.suffix != _PART]
        return sum(file.stat().st_size for file in files)

    def _of(self, user: str) -> Path:
        return self._folder / hashlib.sha256(user.encode()).hexdigest()[:32]

    def _file(self, user: str, digest: str, *, executable: bool) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise errors.error(errors.BAD_VALUE, f"{digest!r} is no SHA-256 in hexadecimal digits")
        return self._of(user) / (f"{digest}.x" if executable else digest)
