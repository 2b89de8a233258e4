"""Keep what instances print and leave: a folder for each task."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from cenote.client.home import ServiceHome
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
