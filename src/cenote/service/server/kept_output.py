"""Keep what instances print and leave, and files that users send."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from cenote.common import errors, storage
from cenote.common.units import format_bytes
from cenote.common.values import dataclass
from cenote.execution.runs.summary import iso_time
from cenote.service.client.home import ServiceHome
from cenote.service.client.records import UploadedFile, UploadRecord
from cenote.service.protocol import STREAMS, AttemptKey, Output, ResultFile, StreamName, stays_within


class KeptOutput:
    """The files of all tasks. What an agent sends twice is kept once."""

    def __init__(self, home: ServiceHome) -> None:
        self._home = home

    def known(self, key: AttemptKey) -> tuple[int, int]:
        """Bytes of stdout and stderr of an attempt that are here."""
        out, err = (_size(self.file_of_attempt(key, stream)) for stream in STREAMS)
        return out, err

    def add(self, output: Output) -> tuple[int, bytes]:
        """A part of what an attempt printed; also to the end of what the whole task printed: returns what is new there,
        after its offset."""
        file = self.file_of_attempt(output.key, output.stream)
        new = output.data[max(0, _size(file) - output.offset) :]
        if new and output.offset <= _size(file):
            with _all_or_nothing(file):
                _append(file, new)
                return _append(self._home.task(output.task) / output.stream, new), new
        return 0, b""

    def add_result(self, part: ResultFile) -> None:
        """A part of a file that an instance left; it takes its place when it is whole."""
        target = self._result(part.task, part.instance, part.name)
        digest = hashlib.sha256(part.name.encode()).hexdigest()[:16]
        unfinished = self._home.task(part.task) / "unfinished" / f"{part.instance}-{digest}"
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("ab" if part.offset else "wb") as file:
            file.write(part.data)
        if part.last:
            unfinished.chmod(0o755 if part.executable else 0o644)
            target.parent.mkdir(parents=True, exist_ok=True)
            unfinished.replace(target)

    def file_of_task(self, task: str, stream: StreamName) -> Path:
        """What all instances of a task printed, as it came; there once there is something."""
        return self._home.task(task) / stream

    def file_of_attempt(self, key: AttemptKey, stream: StreamName) -> Path:
        """What one attempt at an instance printed."""
        return self._home.task(key.task) / "instances" / f"{key.instance}.{key.attempt}.{stream}"

    def results(self, task: str) -> tuple[str, ...]:
        """Names of the files that instances left: `<instance>/<name>`."""
        root = self._home.task(task) / "results"
        files = (path for path in root.rglob("*") if path.is_file())
        return tuple(sorted(path.relative_to(root).as_posix() for path in files))

    def result(self, task: str, name: str) -> Path | None:
        """Such a file; None where there is none."""
        root = self._home.task(task) / "results"
        found = root / name
        return found if stays_within(name) and found.is_file() and not found.is_symlink() else None

    def forget_results(self, task: str) -> None:
        """Remove the files that instances left; what they printed stays."""
        shutil.rmtree(self._home.task(task) / "results", ignore_errors=True)

    def _result(self, task: str, instance: int, name: str) -> Path:
        return self._home.task(task) / "results" / str(instance) / name


def _append(file: Path, data: bytes) -> int:
    """Returns where it begins."""
    try:
        opened = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except FileNotFoundError:
        file.parent.mkdir(parents=True, exist_ok=True)
        opened = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with closing(os.fdopen(opened, "ab", buffering=0)) as ready, _all_or_nothing(file):
        left = memoryview(data)
        while left:
            left = left[os.write(opened, left) :]
        return ready.tell() - len(data)


@contextmanager
def _all_or_nothing(file: Path) -> Iterator[None]:
    """A disk that becomes full takes a part: what was added in here goes again, so that it can be added later."""
    before = _size(file)
    try:
        yield
    except OSError:
        with suppress(FileNotFoundError):
            os.truncate(file, before)
        raise


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


# Keep files that users send, by the digests of their contents: private to each user, limited in size and time.
#
# A task or a pool that uses one gets a name of its own for it (a hard link), and so keeps it for as long as it is
# there.


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
            raise errors.error(errors.BAD_VALUE, f"{digest!r} is not a SHA-256 digest (64 hexadecimal digits)")
        return self._of(user) / (f"{digest}.x" if executable else digest)
