"""Give people's own code the files that it reads, wherever it runs: the function `resource`."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path

from cenote.common import errors
from cenote.common.values import dataclass
from cenote.language.plugins.imports import digest_of_file

MOST_BYTES = 64_000_000
"""Larger files do not travel: workers must see them."""


@dataclass(frozen=True)
class ResourceFile:
    """A file that results depend on, as it was when the run was planned."""

    path: str
    """Where it is on the machine of the driver; absolute."""
    digest: str
    content: bytes | None = field(default=None, repr=False)
    """For machines that do not see it; None where it is too large to travel, or has not been read yet."""


@dataclass(frozen=True)
class _Place:
    """Where a file was found as it was when the run was planned."""

    path: Path
    stamp: tuple[int, ...]


@dataclass
class _Here:
    """What this process knows of."""

    files: dict[str, ResourceFile] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    """Where to look for a name that is not beside the code that asks for it."""
    complete: bool = False
    """Whether a file that is not among these must not be read: it would change results unseen."""
    noted: list[Path] | None = None
    """Files that were asked for while a plugin was loaded; None while none is."""
    places: dict[ResourceFile, _Place] = field(default_factory=dict)


_here = _Here()


def resource(name: str) -> Path:
    """The path of a file beside the code that calls this, or beside the workflow: a table, a model, a list.

    What is in the file counts for the results: after a change of it, what uses it is computed again. It travels to
    workers that do not see it, up to 64 MB. The name is written out in the call, or under `depends_on` of the stage.
    """
    caller = Path(str(sys._getframe(1).f_globals.get("__file__", ""))).parent  # noqa: SLF001  # whose file is meant
    return _wherever_it_is(name, [caller, *(Path(folder) for folder in _here.folders)])


def workflow_file(name: str) -> Path:
    """The path of a file beside the workflow that an operation says it depends on; without a run, of one here."""
    return _wherever_it_is(name, [Path(folder) for folder in _here.folders] or [Path()])


def _wherever_it_is(name: str, folders: Sequence[Path]) -> Path:
    tried = [os.path.normpath(folder.absolute() / name) for folder in folders]
    planned = [_here.files[path] for path in tried if path in _here.files]
    if planned and _here.noted is None:
        return _found(planned[0])
    if _here.complete and _here.noted is None:
        raise errors.error(
            errors.BAD_PLUGIN,
            f"resource('{name}'): this file was not known when the run was planned",
            hint="write its name in the call itself, as text, or name it under `depends_on` of the stage",
        )
    there = next((Path(path) for path in tried if Path(path).is_file()), None)
    if there is None:
        raise errors.error(
            errors.MISSING_FILE, f"resource('{name}'): there is no such file", details=(f"looked in {folders[0]}",)
        )
    if _here.noted is not None:
        _here.noted.append(there)
    return there


def describe(paths: Iterable[Path]) -> tuple[ResourceFile, ...]:
    """Files as they are now."""
    return tuple(ResourceFile(os.path.abspath(path), digest_of_file(path)) for path in paths)  # noqa: PTH100  # no links followed


def packed(files: Iterable[ResourceFile]) -> tuple[ResourceFile, ...]:
    """The same, ready to travel."""
    return tuple(_packed(file) for file in files)


def serve(files: Iterable[ResourceFile], *folders: str) -> None:
    """From now on these files are there, under the names that they have on the machine of the driver.

    `folders` are that of the workflow, and the driver's own: names are looked for there, in this order.
    """
    _here.files = {file.path: file for file in files}
    _here.folders = tuple(folder for folder in folders if folder)
    _here.complete = True


@contextmanager
def noting() -> Iterator[list[Path]]:
    """Collects the files that are asked for meanwhile."""
    before, _here.noted = _here.noted, []
    try:
        yield _here.noted
    finally:
        _here.noted = before


def _packed(file: ResourceFile) -> ResourceFile:
    path = Path(file.path)
    try:
        small = path.stat().st_size <= MOST_BYTES
        changed = digest_of_file(path) != file.digest
    except OSError as problem:
        raise errors.error(errors.BAD_INPUT, f"{path} can no longer be read: {problem.strerror}") from None
    if changed:
        raise errors.error(
            errors.BAD_INPUT, f"{path} has changed since the workflow was read", hint="read the workflow again"
        )
    return replace(file, content=path.read_bytes()) if small else file


def _found(file: ResourceFile) -> Path:
    """Where it is for this process: in its place if it is there unchanged, else a copy."""
    known = _here.places.get(file)
    if known is None or known.stamp != _stamp(known.path):
        known = _here.places[file] = _in_place(file) or _copied(file)
    return known.path


def _in_place(file: ResourceFile) -> _Place | None:
    path = Path(file.path)
    stamp = _stamp(path)  # before its content is looked at: what changes meanwhile is looked at again
    try:
        return _Place(path, stamp) if digest_of_file(path) == file.digest else None
    except OSError:
        return None


def _stamp(path: Path) -> tuple[int, ...]:
    """Changes whenever the file does; empty where there is none."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns


def _copied(file: ResourceFile) -> _Place:
    if file.content is None:
        raise errors.error(
            errors.ENVIRONMENT,
            f"{file.path} is not on this machine as it was when the run was planned, and too large to send",
            hint=f"keep files above {MOST_BYTES // 1_000_000} MB where all workers see them",
        )
    folder = Path(tempfile.mkdtemp(prefix="cenote-resource-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = folder / Path(file.path).name
    copy.write_bytes(file.content)
    return _Place(copy, _stamp(copy))
