"""Find proxies, tokens and trusted authorities where grid software looks for them, and read their files."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from cenote.common.text import clock_time
from cenote.common.units import format_seconds
from cenote.common.values import dataclass

PROXY_VARIABLE = "X509_USER_PROXY"
AUTHORITIES_VARIABLE = "X509_CERT_DIR"
TOKEN_VARIABLE = "BEARER_TOKEN"
TOKEN_FILE_VARIABLE = "BEARER_TOKEN_FILE"
LEADING_THERE = (PROXY_VARIABLE, TOKEN_VARIABLE, TOKEN_FILE_VARIABLE, "XDG_RUNTIME_DIR", "KRB5CCNAME")
"""Environment variables by which software finds credentials."""

AUTHORITIES = (
    Path("/etc/grid-security/certificates"),
    Path("/cvmfs/grid.cern.ch/etc/grid-security/certificates"),
)
"""Where sites keep the certificates of authorities, unless a variable says otherwise."""
LARGEST_FILE = 1_000_000
"""In bytes: a file with more is neither a proxy nor a token."""
LATEST = 1e11
"""In seconds since the epoch, in the year 5138: what is later counts milliseconds, or is no time."""
_TOKEN = re.compile(r"eyJ[\w-]{10,}\.[\w-]+\.")
"""How tokens begin: with a header and claims in base64."""


class CredentialFileError(ValueError):
    """A file that is not what it should be; its words complete "the proxy …", and hold none of its contents."""


@dataclass(frozen=True)
class Fault:
    """What is wrong with a credential: words that complete "the proxy …", and what to do."""

    what: str
    hint: str | None = None


@dataclass(frozen=True)
class TokenPlace:
    """Where a token is: in a file, or in a variable."""

    variable: str = ""
    """The one that holds the token, or the name of its file; empty for a file in the usual place."""
    path: Path | None = field(default=None, repr=False)
    text: str = field(default="", repr=False)
    """The token itself, where a variable holds it."""

    def __str__(self) -> str:
        if self.holds_token_as_path:
            return f"that {self.variable or 'the setting'} holds instead of the name of its file"
        return f"in ${self.variable}" if self.path is None else str(self.path)

    @property
    def holds_token_as_path(self) -> bool:
        """Whether the token itself stands where the name of its file belongs, which must not be shown then."""
        return self.path is not None and _TOKEN.search(self.path.name) is not None

    def read(self) -> str:
        """The token, without the space around it."""
        if self.path is None:
            return self.text.strip()
        try:
            return read_file(self.path).decode("ascii").strip()
        except UnicodeDecodeError:
            raise CredentialFileError("holds no token: it is not text") from None


def usual_proxy() -> Path:
    """Where proxies are unless a variable says otherwise."""
    return Path(f"/tmp/x509up_u{os.geteuid()}")


def usual_token_file(environ: Mapping[str, str]) -> Path:
    """Where tokens are unless a variable says otherwise: so says WLCG's bearer token discovery."""
    return Path(environ.get("XDG_RUNTIME_DIR") or "/tmp", f"bt_u{os.geteuid()}")


def find_proxy(environ: Mapping[str, str]) -> Path | None:
    """The proxy that software would use here. One that a variable names need not be there."""
    if named := environ.get(PROXY_VARIABLE):
        return Path(named)
    usual = usual_proxy()
    return usual if usual.exists() else None


def find_token(environ: Mapping[str, str]) -> TokenPlace | None:
    """The token that software would use here. A file that a variable names need not be there."""
    if text := environ.get(TOKEN_VARIABLE, "").strip():
        return TokenPlace(TOKEN_VARIABLE, text=text)
    if named := environ.get(TOKEN_FILE_VARIABLE):
        return TokenPlace(TOKEN_FILE_VARIABLE, Path(named))
    usual = usual_token_file(environ)
    return TokenPlace(path=usual) if usual.exists() else None


def find_authorities(environ: Mapping[str, str]) -> Path | None:
    """The folder with the certificates of trusted authorities, if there is one."""
    named = environ.get(AUTHORITIES_VARIABLE)
    folders = (Path(named),) if named else AUTHORITIES
    return next((folder for folder in folders if folder.is_dir()), None)


def read_file(path: Path) -> bytes:
    """The contents of a regular file of a reasonable size."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:  # pathlib takes no opener
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise CredentialFileError("is not a regular file")
            content = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise CredentialFileError("does not exist") from None
    except IsADirectoryError:
        raise CredentialFileError("is a folder") from None
    except OSError as problem:
        raise CredentialFileError(f"cannot be read: {(problem.strerror or 'unknown').lower()}") from None
    if len(content) > LARGEST_FILE:
        raise CredentialFileError("is far too large to be one")
    return content


def file_faults(path: Path) -> list[Fault]:
    """Whether others can read or replace the file; what else is wrong, `read_file` says."""
    try:
        found = path.stat()
    except OSError:
        return []
    if not stat.S_ISREG(found.st_mode):
        return []
    faults = []
    if found.st_uid != os.geteuid():
        faults.append(Fault("belongs to another user", "get one of your own"))
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        faults.append(Fault(f"is open to other users (mode {mode:04o})", f"chmod 600 {shlex.quote(str(path))}"))
    return faults


def time_faults(begins: float | None, ends: float | None, now: float, *, renewal: str) -> list[Fault]:
    """Whether it is too early for a credential, or too late; `renewal` is what gets a new one."""
    if ends is not None and ends <= now:
        return [Fault(f"ended {format_seconds(now - ends)} ago, at {clock_time(ends, now=now)}", renewal)]
    if begins is not None and begins > now:
        hint = "if it was made just now, the clocks of this machine and of its issuer differ"
        return [Fault(f"begins in {format_seconds(begins - now)}, at {clock_time(begins, now=now)}", hint)]
    return []


def _without_waiting(name: str, flags: int) -> int:
    """A pipe that nothing writes to would keep who opens it."""
    return os.open(name, flags | os.O_NONBLOCK)
