"""Hold who a process of a run is: the certificate that it shows, and the authority whose certificates it trusts.

Both sides of every connection show theirs before anything else is read, so what has no certificate of the same run
gets no answer. `authority.py` makes them. Only the standard library is used here: probes try nodes whose software may
be incomplete.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import ssl
import stat
import tempfile
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from cenote.common.values import dataclass

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n", re.DOTALL)
_ONLY_OWNER = 0o600
_ROOT = 0
ANOTHER_SERVICE = "a different service answers there"
_ANOTHER_RUN = "what answers there is not the driver of this run"


@dataclass(frozen=True)
class Identity:
    """A certificate with its key, and the certificate of its authority."""

    pem: str = field(repr=False)
    """The key, the certificate, and last the authority's."""

    def listening(self) -> ssl.SSLContext:
        """For what takes connections. Raises OSError where this is no identity."""
        return self._shown_by(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))

    def connecting(self) -> ssl.SSLContext:
        """For what connects. Raises OSError where this is no identity."""
        return self._shown_by(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def _shown_by(self, context: ssl.SSLContext) -> ssl.SSLContext:
        certificates = _CERTIFICATE.findall(self.pem)
        if not certificates:
            raise OSError(errno.EINVAL, "it holds no certificate")
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # the certificate stands for the run, not for a machine
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.load_verify_locations(cadata=certificates[-1])
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # OpenSSL reads keys from files; this one is 0600
            file.write(self.pem)
            file.flush()
            context.load_cert_chain(file.name)
        return context

    def write(self, file: Path) -> None:
        """Into a folder of its own that only the user can open: what an earlier run left there is removed."""
        shutil.rmtree(file.parent, ignore_errors=True)
        file.parent.mkdir(mode=0o700, parents=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _ONLY_OWNER), "w") as opened:
            opened.write(self.pem)

    @classmethod
    def read(cls, file: Path) -> Identity:
        """What `write` wrote. Raises OSError where it cannot be read, or where another user may have written it.

        It is made private first: a batch system that transferred it may have given it other permissions.
        """
        with file.open(encoding="ascii", errors="replace") as opened:
            before = os.fstat(opened.fileno())
            if before.st_uid not in (os.geteuid(), _ROOT):
                raise PermissionError(errno.EPERM, "it belongs to another user")
            if stat.S_IMODE(before.st_mode) & 0o077:
                with suppress(OSError):  # a file system without permissions
                    os.fchmod(opened.fileno(), _ONLY_OWNER)
            if before.st_mode & 0o022 and not os.fstat(opened.fileno()).st_mode & 0o022:
                raise PermissionError(errno.EPERM, "other users could write to it")
            return cls(opened.read())


def forget(file: Path) -> None:
    """Remove what `write` wrote, with its folder."""
    shutil.rmtree(file.parent, ignore_errors=True)


def refusal_in_words(problem: OSError) -> str:
    """Why a connection failed: for the last line of a worker, and for the verdict of a probe."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        said = problem.verify_message
        if "not yet valid" in said or "expired" in said:
            return f"the clock of this node is wrong, or that of the driver: {said}"
        return f"{_ANOTHER_RUN}: {said}"
    if isinstance(problem, ssl.SSLError):
        said = (problem.reason or str(problem)).replace("_", " ").lower()
        return f"{_ANOTHER_RUN if 'alert' in said else ANOTHER_SERVICE}: {said}"
    return problem.strerror or str(problem)
