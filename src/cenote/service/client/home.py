"""Lay out the private folder of a service."""

from __future__ import annotations

import fcntl
import os
import pwd
import tempfile
from dataclasses import replace
from pathlib import Path

from cenote.common import errors, storage


def usual_home() -> Path:
    """`cenote/service` in the user's folder for state; in a private temporary folder where there is no home."""
    folder = storage.expanded(os.environ.get("XDG_STATE_HOME") or "~/.local/state")
    return (
        (folder if folder.is_absolute() else Path(tempfile.gettempdir(), f"cenote-{os.geteuid()}"))
        / "cenote"
        / "service"
    )


class ServiceHome:
    """Where everything of a service is; only its user can look inside."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.address = path / "address"
        """Names its socket."""
        self.identity = path / "identity"
        """The certificates of the service and its agents."""
        self.agents = path / "agents"
        """What agents print."""
        self.tasks = path / "tasks"
        """The output and the results of tasks, a folder each."""
        self.pools = path / "pools"
        """Files of pools that were uploaded, a folder each."""
        self.uploads = path / "uploads"
        """Files that users sent."""
        self.output = path / "service.log"
        """What the service itself prints."""
        self.lock = path / "service.lock"
        """Held by the service for as long as it lives."""

    def prepare(self) -> None:
        """Make it, or refuse one that others can open."""
        try:
            with storage.writing(self.path):
                self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
                found = self.path.lstat()
        except errors.CenoteError as problem:
            hint = "name a folder that can be written by `XDG_STATE_HOME`, or with `cenote serve --home`"
            raise errors.CenoteError(replace(problem.problems[0], hint=hint)) from problem
        if not storage.is_own_folder(found) or found.st_mode & 0o077:
            raise errors.error(
                errors.NO_ACCESS,
                f"{self.path} is not a folder of yours alone",
                hint="remove it, or choose another one with `cenote serve --home`",
            )
        for folder in (self.tasks, self.agents, self.pools, self.uploads):
            folder.mkdir(exist_ok=True)

    def socket(self) -> Path:
        """Where it listens: here, or in a private temporary folder where this one's name is too long."""
        usual = self.path / "socket"
        if len(os.fsencode(usual)) <= storage.LONGEST_SOCKET:
            return usual
        return Path(tempfile.mkdtemp(prefix="cenote-")) / "socket"

    @property
    def is_taken(self) -> bool:
        """Whether a service has this folder: one that runs, or begins, or ends its workers."""
        try:
            with self.lock.open() as opened:
                fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def task(self, task: str) -> Path:
        """The folder of a task."""
        return self.tasks / task

    def read_address(self) -> Path | None:
        """The socket of the service that has this folder, if one ever had it."""
        try:
            return Path(self.address.read_text(encoding="utf-8").strip())
        except OSError:
            return None


# Name the accounts of this machine.


def user_name(user: int) -> str:
    """Of an account; its number where it has no name here."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
