"""Read by XRootD's addresses, `root://` and `roots://`, in sessions that follow the user's token.

A server keeps the token that a session began with, and opens no more files once that one has ended, whatever the user
has by then. So every token gets a session of its own: XRootD's client has one for each user name in an address.
Proxies need nothing of the kind: they count only when a session begins, and XRootD's client (6.2) remembers one until
it ends, then reads its file again.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from functools import cache
from threading import Lock
from typing import Any

import fsspec
from fsspec_xrootd import XRootDFileSystem
from XRootD import client

from cenote.common.credential_files.places import AUTHORITIES_VARIABLE, find_authorities, find_token

_LONGEST_NAME = 8
"""Characters of a user name that XRootD's protocol has room for."""


@cache
def register(*schemes: str) -> None:
    """Make fsspec, and whatever reads through it, use sessions that follow the token for these addresses."""
    found = find_authorities(os.environ)
    if found is not None:
        os.environ.setdefault(AUTHORITIES_VARIABLE, str(found))  # XRootD itself does not look everywhere
    for scheme in schemes:
        kind = type(f"{scheme.title()}FileSystem", (SessionFileSystem,), {"protocol": scheme})
        fsspec.register_implementation(scheme, kind, clobber=True)


class SessionFileSystem(XRootDFileSystem):  # type: ignore[misc]  # fsspec publishes no types
    """The files of one server, or of those that it redirects to."""

    def __init__(self, hostid: str, **options: Any) -> None:
        self._last: tuple[str, Any] = ("", None)
        super().__init__(hostid, **options)

    def unstrip_protocol(self, name: str) -> str:
        """The address of a path, in the session of the token that is there now."""
        return self._server() + name.removeprefix(self._server())

    @property
    def _myclient(self) -> Any:  # what the methods above ask for status, listings and the like
        server, known = self._last
        if server != self._server():
            server = self._server()
            known = client.FileSystem(server)
            self._last = (server, known)
        return known

    @_myclient.setter
    def _myclient(self, _: object) -> None:
        """It is made when it is needed, with the right name."""

    def _server(self) -> str:
        name = "" if "@" in self.hostid else session_names.name(os.environ)
        return f"{self.protocol}://{name}{self.hostid}/"


class SessionNames:
    """Names of users that tell the sessions of one process apart, one for each token that it had."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, ...], int] = {}
        self._changing = Lock()

    def name(self, environ: Mapping[str, str]) -> str:
        """Empty for the first, so that servers see the user's own; `ada01@` for the second."""
        place = find_token(environ)
        if place is None or place.path is None:
            return ""
        try:
            found = place.path.stat()
        except OSError:
            return ""
        with self._changing:
            number = self._numbers.setdefault((found.st_ino, found.st_mtime_ns, found.st_size), len(self._numbers))
        return f"{_user()[: _LONGEST_NAME - 2]}{number % 100:02}@" if number else ""


session_names = SessionNames()


@cache
def _user() -> str:
    try:
        return re.sub(r"\W", "", getpass.getuser()) or "cenote"
    except (KeyError, OSError):  # an account without a name, as in containers
        return "cenote"
