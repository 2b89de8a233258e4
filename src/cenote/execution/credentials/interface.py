"""Credentials let tasks reach protected data: they are found, checked, sent to workers and renewed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import field

from cenote.common.errors import Problem
from cenote.common.values import dataclass
from cenote.execution.worker.process.credentials import FILE
from cenote.language.plugins.settings import Plugin

__all__ = ["FILE", "Credential", "CredentialFacts"]


@dataclass(frozen=True)
class CredentialFacts:
    """What may be shown of a credential: nothing of it is secret."""

    found: str
    """Where it is: the path of a file, or the name of a variable."""
    subject: str = ""
    """Whom it speaks for."""
    issuer: str = ""
    begins: float | None = None
    ends: float | None = None
    """In seconds since the epoch; None for never, or where that cannot be told."""
    details: Mapping[str, str] = field(default_factory=dict)
    """What else a person wants to know, by name: `{"VOMS": "/cms/Role=NULL"}`."""


class Credential(Plugin):
    """Something that proves who the user is. Its fields are the keys beside `type`.

    Its contents never appear in errors, logs, variables or words of a command: only `read` hands them out, to be sent
    over the run's own encrypted channel and kept in files with mode 0o600.
    """

    @property
    def renews(self) -> bool:
        """Whether `renew` can get a new one."""
        return False

    @property
    def renew_before(self) -> float:
        """Seconds before its end at which it is to be renewed."""
        return 3600.0

    @abstractmethod
    def check(self, now: float) -> Iterable[Problem]:
        """What is wrong with it, found out before anything is submitted; `now` is in seconds since the epoch."""

    @abstractmethod
    def facts(self) -> CredentialFacts | None:
        """What is known of the one that is there now; None where there is none, or it cannot be read."""

    @abstractmethod
    def read(self) -> bytes | None:
        """The contents of the file that workers get, or None for nothing. Raises OSError where it cannot be read."""

    @abstractmethod
    def variables(self) -> Mapping[str, str | None]:
        """The environment variables by which software finds it, with `FILE` where its path belongs:
        `{"X509_USER_PROXY": FILE}`. None for a variable that must not be set beside it."""

    def renew(self) -> None:
        """Get a new one: called when less than `renew_before` is left. Raises OSError or CenoteError, with words
        for people, where that fails. Most are renewed by the user: a file that changes is noticed by itself."""
