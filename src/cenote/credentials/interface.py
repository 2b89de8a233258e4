"""Credentials let workers reach protected data: they are found, checked, sent along and renewed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from cenote.errors import Problem
from cenote.launch import Launch
from cenote.plugins.settings import Plugin


class Credential(Plugin):
    """Something that proves who the user is. Its fields are the keys beside `type`.

    Its contents never appear in errors, logs, variables or words of a command: they travel in files with mode 0o600.
    """

    travels: ClassVar[bool] = True
    """Whether something goes along with workers: then no task runs in the driver's own process."""

    @abstractmethod
    def complete(self, launch: Launch) -> Launch:
        """A launch with the file of the credential, and the variables by which software finds it there."""

    def check(self, now: float) -> Iterable[Problem]:
        """What is wrong with it, found out before anything is submitted; `now` is in seconds since the epoch."""
        del now
        return ()

    def expires(self) -> float | None:
        """When it ends, in seconds since the epoch; None for never, or where that cannot be told."""
        return None

    def renew(self) -> None:  # most are renewed by whoever issued them
        """Get a new one where that is possible. Called from time to time when it is about to end; the run then sends
        its file again, in one piece."""
