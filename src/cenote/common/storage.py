"""Write files so that they appear whole or not at all, and explain what file systems refuse.

Whatever writes a file does it within `appearing` or `writing`, so that an error has the path and the space that is left
there: full disks, missing rights, broken file systems, names that cannot be.
"""

from __future__ import annotations

import errno
import glob
import itertools
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cenote.common import errors
from cenote.common.errors import CenoteError, ErrorKind, Problem
from cenote.common.units import format_bytes

LONGEST_SOCKET = 107
"""Bytes of the name of a Unix socket, on Linux."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
Buffer = bytes | memoryview
_UNFINISHED = ".unfinished"
"""How everything ends that is not whole yet; it begins with a dot."""
KINDS: dict[int, ErrorKind] = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), errors.DISK_FULL),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), errors.NO_ACCESS),
    **dict.fromkeys((errno.EIO, errno.ESTALE, errno.EREMOTEIO, errno.ENOTCONN), errors.BROKEN_STORAGE),
    **dict.fromkeys((errno.EHOSTDOWN, errno.ENXIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE), errors.BROKEN_STORAGE),
    **dict.fromkeys((errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR), errors.BAD_PATH),
    **dict.fromkeys((errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY), errors.BAD_PATH),
}
"""What a file system answers → the kind of error. Every other answer would be a fault of ours."""
_REFUSALS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ESTALE, errno.EREMOTEIO}
_HINTS = {
    errors.DISK_FULL: "free some space or choose another folder; finished results are kept and the run can be resumed",
    errors.NO_ACCESS: "change its rights, or choose another folder",
    errors.BROKEN_STORAGE: "check the file system, then try again; finished results are kept",
    errors.BAD_PATH: "correct the name, or choose another folder",
}
_WORDS = {
    errno.EFBIG: "a file may not become larger here",
    errno.ENOSPC: "no space left on device",
    errno.EDQUOT: "disk quota exceeded",
}


def problem_of(problem: OSError, path: Path | str | None = None) -> Problem | None:
    """What to tell of an error of a file system; None for an error that is none of those."""
    kind = KINDS.get(problem.errno or 0)
    if kind is None:
        return None
    where = str(path or problem.filename or "")
    if problem.errno == errno.ENOENT and not where and not _has_working_directory():
        hint = "change to an existing folder"
        return Problem(kind, "the working directory no longer exists", hint=hint)
    words = _WORDS.get(problem.errno or 0) or (problem.strerror or str(problem)).lower()
    space = _free_space(where) if kind is errors.DISK_FULL else ""
    return Problem(kind, f"{where}: {words}" if where else words, details=(space,) if space else (), hint=_HINTS[kind])


def refusal(problem: BaseException, path: Path) -> CenoteError | None:
    """What to raise where nothing can be written, whoever tries: a disk that is full, read-only or broken."""
    if isinstance(problem, CenoteError) and problem.problems[0].kind in _HINTS:
        return problem
    if isinstance(problem, OSError) and problem.errno in _REFUSALS and (found := problem_of(problem, path)):
        return CenoteError(found)
    return None


def expanded(name: Path | str) -> Path:
    """With the home folder for `~`; as it stands where nobody knows it: an account of a container without HOME."""
    return Path(os.path.expanduser(name))  # noqa: PTH111  # pathlib raises


def pattern(folder: Path, written: str) -> str:
    """A pattern for `glob`, in this folder unless it is absolute: signs in the name of the folder mean themselves."""
    return os.path.join(glob.escape(str(folder)), expanded(written))  # noqa: PTH118  # pathlib has no escapes


def resolved(path: Path) -> Path:
    """Without links; where links lead in a circle, or it cannot name a file, as it stands: opening it tells."""
    try:
        return Path(os.path.realpath(path))  # pathlib raises a RuntimeError
    except ValueError:  # a NUL
        return path


def is_file(path: Path) -> bool:
    """Whether there is such a file; a name that no file can have, because it is too long, has none."""
    return _holds_for(path.is_file)


def is_folder(path: Path) -> bool:
    """The same of a folder."""
    return _holds_for(path.is_dir)


def _holds_for(look: Callable[[], bool]) -> bool:
    try:
        return look()
    except OSError as problem:
        if problem.errno == errno.ENAMETOOLONG:
            return False
        raise


@contextmanager
def staying_here() -> Iterator[None]:
    """Somebody's code may change the working directory: afterwards it is what it was."""
    here = os.open(".", os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY))  # O_PATH: it may be unreadable
    try:
        yield
    finally:
        os.fchdir(here)
        os.close(here)


def demand_text(path: Path) -> None:
    """Raise where a name is not UTF-8: plans, reports and job scripts, which are, could not hold it."""
    name = str(path.absolute())
    try:
        name.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(name).decode(errors="replace")
        problem = Problem(errors.BAD_PATH, f"{shown}: this name is not UTF-8", hint="rename it, or use another folder")
        raise CenoteError(problem) from None


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Whatever the file system refuses in here is an error about this path."""
    try:
        yield
    except OSError as problem:
        if found := problem_of(problem, path):
            raise CenoteError(found) from problem
        raise


@contextmanager
def explained() -> Iterator[None]:
    """The same for work with many files: the error has the path that the system names."""
    try:
        yield
    except OSError as problem:
        if problem.filename is not None and (found := problem_of(problem)):
            raise CenoteError(found) from problem
        raise


@contextmanager
def appearing(target: Path, *, under_its_name: bool = False) -> Iterator[Path]:
    """A path to write to, which takes the target's place at the end; an error leaves nothing of it behind.

    `under_its_name` is for files that hold the name that they were written under, as ROOT's do: the path ends as the
    target's, in a folder that is gone afterwards.
    """
    own = secrets.token_hex(4)  # others may write beside it, or the same: threads, processes, other machines
    if under_its_name:
        temporary = target.parent / f".{own}{_UNFINISHED}" / target.name
    else:
        temporary = target.with_name(f".{target.name}.{own}{_UNFINISHED}")
    try:
        with writing(target):  # inside: how much space there is, is looked at before anything goes
            temporary.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            temporary.replace(target)
    except BaseException:
        remove_unfinished(temporary)
        raise
    if under_its_name:
        temporary.parent.rmdir()


def write_whole(target: str, parts: Iterable[Buffer], *, wait: bool = False) -> None:
    """Write a file that only we may change, and its folder where there is none; as `appearing` does, in a quarter of
    its time, for there may be one for every task. With `wait` it is on the disk before it has its name."""
    folder, _, name = target.rpartition("/")
    temporary = f"{folder}/.{name}.{secrets.token_hex(4)}{_UNFINISHED}"
    try:
        with writing(target):
            handle = _created(temporary, folder)
            try:
                for part in parts:
                    _write_all(handle, memoryview(part))
                if wait:
                    os.fsync(handle)
            finally:
                os.close(handle)
            os.replace(temporary, target)  # noqa: PTH105  # pathlib takes longer than the system
    except BaseException:
        remove_unfinished(Path(temporary))
        raise


def _created(file: str, folder: str) -> int:
    flags, mode = os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644  # whatever the habits of this account
    try:
        return os.open(file, flags, mode)
    except FileNotFoundError:
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103  # as above
        return os.open(file, flags, mode)


def _write_all(handle: int, part: memoryview) -> None:
    """Everything: one call writes 2 GB at the most."""
    while part.nbytes:
        part = part[os.write(handle, part) :]


def not_by_a_link(path: str, flags: int) -> int:
    """An `opener` of files that are added to: a link in the folder of somebody's run could lead to any of ours, and a
    pipe would keep us waiting."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def write_text(target: Path, text: str) -> Path:
    """Write a text file, and its folder where there is none; returns its path."""
    with appearing(target) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return target


def write_private(target: Path, content: bytes) -> None:
    """Write a file that only its owner can read, whoever may look into its folder, which is private where it is new."""
    with writing(target):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with appearing(target) as temporary, os.fdopen(os.open(temporary, flags, 0o600), "wb") as opened:
        opened.write(content)


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it, however deep, and protected or not; follows no links.

    What cannot be removed stays.
    """
    with suppress(RecursionError):  # before Python 3.13, of a thousand folders, each in the one before
        shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        with suppress(OSError):
            _flatten(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _flatten(folder: Path) -> None:
    """Bring every folder below this one directly into it, and let its owner change all of them."""
    own, numbers = secrets.token_hex(4), itertools.count()
    root = os.open(folder, _FOLDER)
    try:
        os.fchmod(root, 0o700)
        waiting = _folders_in(root)
        while waiting:
            with suppress(OSError):  # of somebody else, or gone meanwhile
                inner = _opened(waiting.pop(), root)
                try:
                    for name in _folders_in(inner):
                        os.chmod(name, 0o700, dir_fd=inner)  # pathlib knows no descriptors
                        lifted = f".{own}.{next(numbers)}"
                        os.rename(name, lifted, src_dir_fd=inner, dst_dir_fd=root)  # as above
                        waiting.append(lifted)
                finally:
                    os.close(inner)
    finally:
        os.close(root)


def _opened(name: str, parent: int) -> int:
    os.chmod(name, 0o700, dir_fd=parent)  # pathlib knows no descriptors
    return os.open(name, _FOLDER, dir_fd=parent)


def _folders_in(descriptor: int) -> list[str]:
    with os.scandir(descriptor) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def is_own_folder(facts: os.stat_result) -> bool:
    """Whether `lstat` says so: in a place for all, others can put folders, links and pipes under names of ours."""
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid()


def unfinished(folder: Path) -> list[Path]:
    """Files below a folder that were begun and never became whole, by anybody who wrote them with `appearing`; where
    one was not even begun, the empty folder that was made for it."""
    found: list[Path] = []
    for path in folder.rglob(f".*{_UNFINISHED}"):
        found += [*path.iterdir()] or [path] if path.is_dir() else [path]
    return sorted(found)


def remove_unfinished(file: Path) -> None:
    """Remove one of them; one that is gone already, or cannot be removed, stays so."""
    with suppress(OSError):
        file.rmdir() if file.is_dir() else file.unlink()
    if file.parent.name.endswith(_UNFINISHED):
        with suppress(OSError):
            file.parent.rmdir()


def _has_working_directory() -> bool:
    try:
        Path.cwd()
    except OSError:
        return False
    return True


def _free_space(where: str) -> str:
    """`12 KB of 1 MB are free there`, or that no file can be made there, if that can be known."""
    path = Path(where)
    for folder in (path, *path.parents) if path.is_absolute() else ():
        try:
            usage, counts = shutil.disk_usage(folder), os.statvfs(folder)
        except (OSError, ValueError):
            continue
        space = f"{format_bytes(usage.free)} of {format_bytes(usage.total)} are free there"
        if counts.f_files and not counts.f_favail:  # some file systems count none
            return f"there are no inodes left for another file ({counts.f_files} are in use), though {space}"
        return space
    return ""
