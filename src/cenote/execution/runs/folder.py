"""Lay out the folder that a run leaves, and guard it against a second run at the same time."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from cenote.common import errors, storage
from cenote.common.values import dataclass
from cenote.planning.outputs.names import PLOTS, PRODUCTS, REPORTS

LOCK = ".lock"
"""Held by the driver of a run; it says which process that is, `4711 on hostname`, and below it where its owner reaches
it: the path of a socket. Its time is the driver's pulse."""
PULSE_SECONDS = 30.0
"""Between two beats."""
STILL_SECONDS = 20 * PULSE_SECONDS
"""Without a beat, after which a driver on another machine counts as dead."""
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
"""What file systems answer that have no locks."""


class RunFolder:
    """Where everything of a run is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = path / "work"
        self.results = self.store / "results"
        """The result store, where `execution.store` says that it is in the run's folder."""
        """Intermediate results under their content hash: what the next run finds again."""
        self.products = path / PRODUCTS
        """Histograms, tables and skims in open formats."""
        self.plots = path / PLOTS
        """Pictures."""
        self.reports = path / REPORTS
        """Texts that the workflow asks for."""
        self.before = path / "before"
        """What the run before the last one published, for `cenote diff`."""
        self.debug_root = path / "debug"
        """What helps to find out what went wrong."""
        self.debug = self.debug_root / "distributed"
        """The workers' output: `logs`, `out` and `err`."""
        self.modifiers = self.debug_root / "modifiers"
        """What modifiers wrote, a folder each."""
        self.journal = path / "journal.jsonl"
        """Every event of the run, one line each."""
        self.report = path / "report.html"
        """The page about the run."""
        self.summary = path / "summary.json"
        """What programs read to know how the run went."""
        self.plan = path / "plan.json"
        """The plan that was run."""
        self.picture = path / "plan.svg"
        """The plan as a picture."""
        self.ingredients = path / "ingredients.json"
        """What results are made of, for the next run here to compare."""
        self.provenance = path / "provenance.json"
        """Inputs, software, options."""
        self._files = (
            self.journal,
            self.summary,
            self.plan,
            self.picture,
            self.provenance,
            self.ingredients,
            self.report,
        )

    @property
    def holds_run(self) -> bool:
        """Whether a run was started here."""
        return self.journal.exists()

    def refuse(self) -> None:
        """Raise if a run must not go here: it is not a folder, or holds somebody's files and no run."""
        storage.demand_text(self.path)
        if self.path.exists() and not self.path.is_dir():
            raise errors.error(errors.USAGE, f"{self.path} is a file, the output must be a folder")
        if self.path.exists() and not self.holds_run:
            self._refuse_foreign()

    def prepare(self, *, fresh: bool = False) -> None:
        """Make it ready for a run; what an earlier run left stays, unless a fresh start is wanted."""
        self.refuse()
        if fresh:
            self.forget()
        for folder in (self.store, self.products, self.plots, self.debug):
            folder.mkdir(parents=True, exist_ok=True)

    def forget(self) -> None:
        """Remove what runs left here: the files that they wrote, by their record, and never anybody else's."""
        from cenote.execution.worker.results.store import Store  # heavy, and most who ask for a folder remove nothing
        from cenote.execution.worker.results.written_files import WrittenFiles

        WrittenFiles(self.store).clear()
        Store(self.store).clear()
        storage.remove_tree(self.results)
        for file in self._files:
            file.unlink(missing_ok=True)
        for folder in (self.debug, self.modifiers):
            shutil.rmtree(folder, ignore_errors=True)
        for folder in (self.store, self.products, self.plots, self.reports, self.debug_root):
            with suppress(OSError):  # somebody keeps something there
                folder.rmdir()

    def _refuse_foreign(self) -> None:
        folders = (self.store, self.products, self.plots, self.reports, self.before, self.debug_root)
        ours = {path.name for path in folders} | {LOCK, "error.txt"}
        if (self.path / LOCK).exists():  # a run began here, and came no further: the disk was full
            ours.update(file.name for file in self._files)
        foreign = sorted(entry.name for entry in self.path.iterdir() if entry.name not in ours)
        if foreign:
            raise errors.error(
                errors.RUN_EXISTS,
                f"{self.path} is not empty and holds no run",
                details=[f"there: {', '.join(foreign[:5])}"],
                hint="choose an empty or new folder for the run",
            )

    def lock(self) -> IO[str]:
        """Held while a run is in progress; released when the returned file is closed or the process ends."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            file = open(self.path / LOCK, "a+", opener=storage.not_by_a_link)  # noqa: SIM115  # the caller closes it
        except OSError as problem:
            found = storage.problem_of(problem, self.path.absolute())
            raise errors.error(
                found.kind if found else errors.USAGE,
                f"{self.path} is not writable: {problem.strerror}",
                details=found.details if found else (),
                hint="choose another folder for the run",
            ) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken = False
        except OSError as problem:
            taken = _is_taken(self.path, problem)
        if taken:
            file.close()
            owner = lock_owner(self.path)
            raise errors.error(
                errors.RUN_EXISTS,
                f"{self.path} is in use by a run in progress" + (f" ({owner})" if owner else ""),
                hint="wait for it, or choose another folder for the run",
            )
        with storage.writing(self.path / LOCK):
            file.truncate(0)
            file.write(f"{os.getpid()} on {socket.gethostname()}\n")
            file.flush()
        return file


@dataclass(frozen=True)
class LockOwner:
    """The process that the lock names; it may be long gone."""

    process: int
    host: str
    socket: Path | None = None
    """Where its owner reaches it, on its machine."""

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}" if self.host else f"process {self.process}"

    @property
    def is_here(self) -> bool:
        """Whether it is a process of this machine."""
        return self.host in ("", socket.gethostname())


def name_socket(lock: IO[str], path: Path) -> None:
    """Add to a lock that is held where the owner of the run reaches its driver."""
    with storage.writing(Path(lock.name)):
        lock.write(f"{path}\n")
        lock.flush()


class Pulse:
    """Shows machines that do not see the lock that the run is driven: now and then the lock's time becomes now."""

    def __init__(self, folder: RunFolder, clock: Callable[[], float]) -> None:
        self._lock, self._clock, self._beat = folder.path / LOCK, clock, clock()
        self.turned = self._beat
        """When it was last called."""

    def __call__(self) -> None:
        """May be called as often as one likes."""
        self.turned = self._clock()
        if self.turned - self._beat >= PULSE_SECONDS:
            self._beat = self.turned
            with suppress(OSError):  # others report a folder that cannot be written to
                os.utime(self._lock)


def is_locked(folder: Path) -> bool:
    """Whether a process holds the lock, as far as this machine can tell: not all file systems share locks."""
    try:
        with (folder / LOCK).open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError as problem:
        return _is_taken(folder, problem)
    return False


def _is_taken(folder: Path, problem: OSError) -> bool:
    """Whether a lock that could not be had is another's. Where there are no locks (Lustre is often mounted without),
    the process that the file names tells, or its pulse if that is on another machine."""
    if problem.errno not in _NO_LOCKS:
        return True
    owner = lock_owner(folder)
    if owner is None or owner.host == socket.gethostname():
        return owner is not None and is_alive(owner.process)
    return has_pulse(folder, now=time.time())


def is_alive(process: int) -> bool:
    """Whether there is such a process here, which may by now be another one of that number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # of another user
        pass
    return True


def has_pulse(folder: Path, *, now: float) -> bool:
    """Whether a driver showed a while ago that it lives, on whichever machine."""
    beat = last_beat(folder)
    return beat is not None and now - beat < STILL_SECONDS


def last_beat(folder: Path) -> float | None:
    """When the driver last showed that it lives, in seconds since the epoch; None where there never was one."""
    try:
        return (folder / LOCK).stat().st_mtime
    except OSError:
        return None


def lock_owner(folder: Path) -> LockOwner | None:
    """Who drives the run there, as the lock says; None where it says nothing."""
    try:
        who, _, path = (folder / LOCK).read_text().partition("\n")
        process, _, host = who.partition(" on ")
        return LockOwner(int(process), host.strip(), Path(path.removesuffix("\n")) if path else None)
    except (OSError, ValueError):
        return None
