"""Know whose results may be used: one's own key to sign with, and the file of the keys that are trusted."""

from __future__ import annotations

import base64
import binascii
import getpass
import hashlib
import os
import socket
import stat
from collections.abc import Iterable
from pathlib import Path

from cenote import storage
from cenote.packing.locks import locked
from cenote.runtime.result_store.packs import read_plain
from cenote.runtime.result_store.seals import PUBLIC, public_key
from cenote.values import dataclass
from cenote.worker.results.run_key import key_of, trusted_key

_WORD = "cenote-store"
"""How a public key begins where it is written down."""
_TRUSTED = "trusted"


@dataclass(frozen=True)
class Person:
    """Somebody who signs results."""

    public: bytes
    name: str
    """As they, or whoever trusts them, call them: nothing proves it."""

    @property
    def fingerprint(self) -> str:
        """What their folder in a store is called by."""
        return hashlib.blake2b(self.public, digest_size=8, person=b"cenote person").hexdigest()

    def written(self) -> str:
        """The public key as a line."""
        return f"{_WORD} {base64.b64encode(self.public).decode()} {self.name}"


def person_in(line: str) -> Person:
    """Whom a line is for. Raises ValueError for anything else."""
    word, key, *name = [*line.split(maxsplit=2), "", ""]
    try:
        public = base64.b64decode(key, validate=True)
    except binascii.Error:
        public = b""
    if word != _WORD or len(public) != PUBLIC:
        raise ValueError(f"no key of a store: {line!r}")
    found = Person(public, "")
    called = "".join(letter for letter in "".join(name) if letter.isprintable()).strip()
    return Person(public, called or found.fingerprint)


def personal_folder() -> Path:
    """Where one's own key and those of others are: nobody else can read it."""
    return storage.expanded(os.environ.get("XDG_CONFIG_HOME") or "~/.config") / "cenote" / "store"


def key_in(folder: Path) -> bytes:
    """The key there; it is made where there is none that nobody else can know."""
    key = trusted_key(folder)
    if key is None:
        folder.mkdir(parents=True, exist_ok=True)
        making = folder / "making"
        with locked(making, lambda: None):  # processes that begin at once have the same
            key = key_of(folder)
            making.unlink(missing_ok=True)
    return key


def myself() -> Person:
    """Who one is for others."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        user = str(os.geteuid())
    return Person(public_key(key_in(personal_folder())), f"{user}@{socket.gethostname()}")


def trusted_people() -> list[Person]:
    """Whose results are used. Raises PermissionError where somebody else could have written the file."""
    path = personal_folder() / _TRUSTED
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return []
    if facts.st_uid != os.geteuid() or not stat.S_ISREG(facts.st_mode) or stat.S_IMODE(facts.st_mode) & 0o022:
        raise PermissionError(f"{path} is not yours alone to change")
    lines = (read_plain(path) or b"").decode("utf-8", "replace").splitlines()
    return [person_in(line) for line in lines if line.strip() and not line.lstrip().startswith("#")]


def trust(people: Iterable[Person]) -> list[Person]:
    """Trust these people, too; returns those that are new."""
    known = trusted_people()
    keys = {one.public for one in known}
    new = [one for one in people if one.public not in keys]
    lines = "".join(f"{one.written()}\n" for one in (*known, *new))
    if new:
        storage.write_private(personal_folder() / _TRUSTED, lines.encode())
    return new
