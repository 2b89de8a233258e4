"""Lay out the agent's folder, and keep the process that cleans it up after an agent that was killed."""

from __future__ import annotations

import errno
import fnmatch
import glob
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path, PurePosixPath

from cenote.common import storage
from cenote.common.shell import Process, start_process
from cenote.service.agent import guard
from cenote.service.client.python_call import RETURNED
from cenote.service.protocol import PlacedFile, StreamName, stays_within

_JOB = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}")
_ANY_DEPTH = "**"
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

    def is_whole(self, files: Iterable[PlacedFile]) -> bool:
        """Whether everything is here that instances need, and these files that were sent: somebody may remove it."""
        folders = (self.jobs, self._output, self.files)
        return all(folder.is_dir() for folder in folders) and all((self.files / one.digest).is_file() for one in files)

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
        with suppress(BadNameError):
            storage.remove_tree(self.job(job))


def matching(folder: Path, patterns: Iterable[str]) -> list[str]:
    """Names of the files below a folder that patterns ask for, as shells read them: not what is hidden; of a folder
    that matches, all files in it. Raises OSError where a name is too long to be opened.

    What a link leads to outside of the folder is left out, and what calls returned, which nobody has to ask for.
    """
    found = {
        file
        for pattern in patterns
        if stays_within(pattern)
        for name in _named(folder, PurePosixPath(pattern).parts)
        for file in _files_at(folder, name)
    }
    return sorted(found - {RETURNED})


def _named(folder: Path, parts: Sequence[str]) -> list[str]:
    """What these parts of a pattern name. No glob of the library: those follow links that multiply without end, or
    call themselves once for each folder."""
    found = [""]
    for part in (*parts, "*") if parts[-1] == _ANY_DEPTH else parts:
        deeper = (_one_step(folder, place, part) for place in found)
        found = list(dict.fromkeys(chain.from_iterable(deeper)))
    return found


def _one_step(folder: Path, place: str, part: str) -> Iterable[str]:
    if part == _ANY_DEPTH:
        shown = (below for below in _folders_below(folder, place) if not _is_hidden(below))
        return (place, *shown)
    if not glob.has_magic(part):
        named = os.path.join(place, part)  # noqa: PTH118  # a text
        return (named,) if os.path.lexists(folder / named) else ()
    names = (entry.name for entry in _entries(folder / place) if part[0] == "." or entry.name[0] != ".")
    return (os.path.join(place, name) for name in fnmatch.filter(names, part))  # noqa: PTH118  # as above


def _folders_below(folder: Path, place: str) -> Iterator[str]:
    """Not those that links lead to."""
    waiting = [place]
    while waiting:
        at = waiting.pop()
        found = [entry.name for entry in _entries(folder / at) if entry.is_dir(follow_symlinks=False)]
        for name in (os.path.join(at, name) for name in found):  # noqa: PTH118  # texts
            yield name
            waiting.append(name)


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in PurePosixPath(name).parts)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Of what is not a folder, or cannot be read, none."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as problem:
        if problem.errno == errno.ENAMETOOLONG:
            raise
        return []


def readable_name(name: str) -> str:
    """The name of a file as text; bytes of it that are none become `\\xff`."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _files_at(folder: Path, name: str) -> Iterator[str]:
    root, path = storage.resolved(folder), folder / name
    if not storage.resolved(path).is_relative_to(root):
        return
    if path.is_file():
        yield name
    elif path.is_dir():
        for place in (name, *_folders_below(folder, name)):
            inside = (os.path.join(place, entry.name) for entry in _entries(folder / place))  # noqa: PTH118  # texts
            for file in inside:
                if (folder / file).is_file() and storage.resolved(folder / file).is_relative_to(root):
                    yield file


# Keep the process that cleans up after an agent which was killed.


class Guard:
    """Runs beside the agent, from its start to its end in good order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: Process | None = None
        self._pipe: int | None = None

    @property
    def pid(self) -> int:
        """Of its process; 0 where there is none."""
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Begin to watch."""
        reading, self._pipe = os.pipe()
        command = [sys.executable, "-I", "-S", guard.__file__, str(reading), str(self._folder)]
        try:
            self._process = start_process(command, pass_fds=[reading])
        finally:
            os.close(reading)

    def dismiss(self) -> None:
        """The agent has cleaned up itself."""
        if self._process is None or self._pipe is None:
            return
        with suppress(BrokenPipeError):
            os.write(self._pipe, b".")
        os.close(self._pipe)
        self._process.wait()
        self._process = None
