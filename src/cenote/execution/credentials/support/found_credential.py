"""Hold what credentials that people have in files share: where they are, how long they live, how they are renewed."""

from __future__ import annotations

import os
import re
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self

from pydantic import ConfigDict, Field, model_validator

from cenote.common.credential_files.places import AUTHORITIES_VARIABLE, Fault, find_authorities
from cenote.common.errors import BAD_CREDENTIAL, SHORT_CREDENTIAL, CenoteError, Problem, error
from cenote.common.units import format_seconds
from cenote.execution.credentials.interface import Credential
from cenote.execution.credentials.support.renewal import RenewalCommand, in_vain, run_renewal
from cenote.language.plugins.settings import Seconds

VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
"""What environment variables are called."""
_LONGEST_MARGIN = 3600.0
"""Seconds before the end of a long life at which it is renewed."""


class FoundCredential(Credential):
    """A credential that the user has already, in a file or a variable."""

    model_config = ConfigDict(populate_by_name=False)  # `renewal` is no key beside `renew`

    path: str | None = None
    """Its file, where it is not in the usual places; `~` and `$VARIABLES` are replaced. A relative path starts in the
    folder of the command."""
    variable: str | None = Field(default=None, pattern=VARIABLE)
    """The environment variable that names its file, instead of the usual ones."""
    minimum_lifetime: Seconds = 0
    """The run is refused where less time is left; 0 asks only that it has not ended."""
    renewal: RenewalCommand | None = Field(default=None, alias="renew", repr=False)
    """A command that gets a new one in time, such as `voms-proxy-init --voms cms`. It runs beside the driver, without a
    shell, and must not ask for a passphrase. Files that change are noticed without it."""
    certificates: str | None = None
    """The folder of trusted certificate authorities, where it is neither in `X509_CERT_DIR` nor in the usual places.
    Workers look there too."""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.path is not None and self.variable is not None:
            raise ValueError("should have `path` or `variable`, not both")
        return self

    def check(self, now: float) -> Iterable[Problem]:
        """Everything that is wrong with it."""
        try:
            return list(self._problems(now))
        except CenoteError as problem:  # a path that cannot be told
            return problem.problems

    @abstractmethod
    def _problems(self, now: float) -> Iterator[Problem]:
        """The same, one by one."""

    @property
    def authorities(self) -> Path | None:
        """The folder of trusted authorities, if there is one."""
        if self.certificates is None:
            return find_authorities(os.environ)
        named = expanded(self.certificates)
        return named if named.is_dir() else None

    def trust_variables(self) -> Mapping[str, str]:
        """What names the folder of authorities to other software, where a setting does."""
        return {} if self.certificates is None else {AUTHORITIES_VARIABLE: str(expanded(self.certificates))}

    def too_short(self, what: str, ends: float | None, now: float, *, renewal: str) -> Iterator[Problem]:
        """That it ends within `minimum_lifetime`; one that has ended already is another problem."""
        if ends is not None and 0 < ends - now < self.minimum_lifetime:
            words = f"{what} ends too soon: {format_seconds(ends - now)} are left"
            least = f"minimum_lifetime: {format_seconds(self.minimum_lifetime)}"
            yield Problem(SHORT_CREDENTIAL, words, details=(least,), hint=renewal)

    @property
    def renews(self) -> bool:
        """Whether there is a command for it."""
        return self.renewal is not None

    @property
    def renew_before(self) -> float:
        """One hour, or half of a life of less than two hours; more where `minimum_lifetime` is longer."""
        facts = self.facts()
        if facts is None or facts.begins is None or facts.ends is None:
            return max(float(self.minimum_lifetime), _LONGEST_MARGIN)
        return max(float(self.minimum_lifetime), min(_LONGEST_MARGIN, (facts.ends - facts.begins) / 2))

    def renew(self) -> None:
        """Run the command, and look whether it helped."""
        if self.renewal is None:
            return
        before = self.facts()
        run_renewal(self.renewal)
        if problems := list(self.check(time.time())):
            raise CenoteError(in_vain(self.renewal, [problem.message for problem in problems]))
        after = self.facts()
        if before is not None and after is not None and before.ends == after.ends:
            raise CenoteError(in_vain(self.renewal, [f"{after.found} is as before"]))


def problems_of(what: str, faults: Iterable[Fault]) -> Iterator[Problem]:
    """Faults as problems; `what` is their subject: `the proxy /tmp/x509up_u1000`."""
    for fault in faults:
        yield Problem(BAD_CREDENTIAL, f"{what} {fault.what}", hint=fault.hint)


def expanded(written: str) -> Path:
    """An absolute path, with the home folder and the values of variables. Raises CenoteError for one that is unset."""
    text = os.path.expandvars(os.path.expanduser(written))  # noqa: PTH111  # pathlib raises without a home
    if unset := re.search(r"\$(\w+|\{[^}]*\})", text):
        raise error(BAD_CREDENTIAL, f"the path '{written}' names a variable that is not set: {unset.group()}")
    if "\0" in text:
        raise error(BAD_CREDENTIAL, f"the path {written!r} holds a character that no path can hold")
    return Path(text).absolute()


def named_by(variable: str) -> Path | None:
    """The file that an environment variable names."""
    return Path(os.environ[variable]).absolute() if os.environ.get(variable) else None


def is_there(path: Path) -> bool:
    """Whether there is anything under this name; what cannot be looked at counts, for reading it tells why."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
