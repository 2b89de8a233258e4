"""Lay out the agent's folder: a working folder for each instance, what instances print, files that were sent."""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from cenote.client.python_call import RETURNED
from cenote.service.protocol import PlacedFile, StreamName, stays_within

_JOB = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}")
_ENDINGS: dict[StreamName, str] = {"stdout": "out", "stderr": "err"}


class BadNameError(ValueError):
    """A name from outside that would lead out of a folder, in words."""


class AgentFolders:
    """`job/<JOB_UUID>/` and beside them the files of the pool; `output/`, `files/`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.jobs, self._output, self.files = root / "job", root / "output", root / "files"

    def make(self) -> None:
        """Raises OSError."""
        for folder in (self.jobs, self._output, self.files):
            folder.mkdir(mode=0o700)

    def job(self, job: str) -> Path:
        """The working folder of an instance. Raises BadNameError."""
        if not _JOB.fullmatch(job):
            raise BadNameError(f"{job!r} cannot name a working folder")
        return self.jobs / job

    def output(self, job: str, stream: StreamName) -> Path:
        """What it prints: not in its folder, where its own files may have any name."""
        return self._output / f"{job}.{_ENDINGS[stream]}"

    def place(self, files: Iterable[PlacedFile], folder: Path) -> None:
        """Copies, for an instance may change its own. Raises OSError and BadNameError."""
        for file in files:
            if not stays_within(file.name):
                raise BadNameError(f"{file.name!r} leads out of the folder that it is for")
            target = folder / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.files / file.digest, target)
            target.chmod(0o700 if file.executable else 0o600)

    def remove_output(self, job: str) -> None:
        """What an instance printed."""
        for stream in _ENDINGS:
            with suppress(OSError):
                self.output(job, stream).unlink()

    def remove_if_empty(self, job: str) -> bool:
        """Its working folder, where it left nothing but what its calls returned; whether it is gone."""
        with suppress(OSError, BadNameError):
            (self.job(job) / RETURNED).unlink(missing_ok=True)
            self.job(job).rmdir()
        return not (self.jobs / job).exists()

    def remove(self, job: str) -> None:
        """Its working folder with all that is in it."""
        with suppress(OSError, BadNameError):
            folder = self.job(job)
            _make_writable(folder)
            shutil.rmtree(folder, ignore_errors=True)


def _make_writable(folder: Path) -> None:
    """Folders that somebody's program protected could not be emptied."""
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            with suppress(OSError):
                path = Path(parent, name)
                if not path.is_symlink():
                    path.chmod(0o700)


def matching(folder: Path, patterns: Iterable[str]) -> list[str]:
    """Names of the files below a folder that patterns ask for; of a folder that matches, all files in it.

    What a link leads to outside of the folder is left out, and what calls returned, which nobody has to ask for.
    """
    found: set[str] = set()
    for pattern in patterns:
        if stays_within(pattern):
            for name in glob.iglob(pattern, root_dir=folder, recursive=True):  # noqa: PTH207  # as shells have it: not what is hidden
                found.update(_files_at(folder, name))
    return sorted(found - {RETURNED})


def readable_name(name: str) -> str:
    """The name of a file as text; bytes of it that are none become `\\xff`."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _files_at(folder: Path, name: str) -> Iterable[str]:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        return
    if path.is_file():
        yield str(path.relative_to(folder))
    elif path.is_dir():
        for below in path.rglob("*"):
            if below.is_file() and below.resolve().is_relative_to(folder.resolve()):
                yield str(below.relative_to(folder))
