"""Look results up by their ids in all packs at once, and know whose packs may be used."""

from __future__ import annotations

import base64
import binascii
import getpass
import hashlib
import os
import socket
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cenote.common import storage
from cenote.common.values import dataclass
from cenote.execution.packing.archive import locked
from cenote.execution.runtime.result_store.packs import ID, PUBLIC, Content, public_key, read_plain
from cenote.execution.worker.results.store import key_of, trusted_key

# Know whose results may be used: one's own key to sign with, and the file of the keys that are trusted.


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


class ElsewherePack(Protocol):
    """A pack that is not a file here; as text, its address."""

    def read(self, offset: int, length: int) -> bytes:
        """So many bytes. Raises OSError."""


@dataclass(frozen=True)
class Pack:
    """A pack as this process knows it."""

    path: Path
    content: Content
    owner: Person | None = None
    """Whose it is, if it is somebody else's."""
    remote: ElsewherePack | None = None
    """Where it is, if an empty file stands for it here."""

    @property
    def size(self) -> int:
        """Bytes of it that are known."""
        return self.content.covered


@dataclass(frozen=True)
class StoredAt:
    """Where a result lies."""

    pack: Pack
    offset: int
    length: int
    digest: bytes
    codec: int


class PackTable:
    """The results of packs by their ids; of one that is there several times, the first."""

    def __init__(self, packs: Sequence[Pack]) -> None:
        self.packs = tuple(packs)
        counts = [len(pack.content.rows) for pack in packs]
        self._pack = np.repeat(np.arange(len(packs), dtype=np.int32), counts)
        self._row = np.concatenate([np.arange(count, dtype=np.int32) for count in counts] or [np.empty(0, np.int32)])
        halves = [halves_of(pack.content.rows["id"]) for pack in packs] or [np.empty((0, 2), np.uint64)]
        high, low = np.concatenate(halves).T
        order = np.lexsort((low, high))  # stable: the first pack stays the first
        self._high, self._low = high[order], low[order]
        self._pack, self._row = self._pack[order], self._row[order]
        self.there = np.ones(len(order), np.bool_)
        """Which entries are to be found; in the order of `_high`."""
        self._of_use = np.zeros(len(order), np.bool_)

    def __len__(self) -> int:
        return len(self._high)

    def entries(self, ids: Sequence[bytes]) -> NDArray[np.int64]:
        """The entry of each id that is to be found; -1 for others."""
        return self.entries_of(b"".join(ids))

    def entries_of(self, ids: bytes) -> NDArray[np.int64]:
        """The same of ids one after the other."""
        found = np.full(len(ids) // ID, -1)
        if not len(self) or not len(found):
            return found
        asked = halves_of(np.frombuffer(ids[: len(found) * ID], f"V{ID}"))
        at = np.searchsorted(self._high, asked[:, 0])
        open_ = np.arange(len(found))
        while len(open_):
            at, open_ = at[at < len(self)], open_[at < len(self)]
            alike = self._high[at] == asked[open_, 0]
            at, open_ = at[alike], open_[alike]
            hit = (self._low[at] == asked[open_, 1]) & self.there[at]
            found[open_[hit]] = at[hit]
            at, open_ = at[~hit] + 1, open_[~hit]
        return found

    def place(self, entry: int) -> StoredAt:
        """Where an entry lies."""
        pack = self.packs[self._pack[entry]]
        row = pack.content.rows[self._row[entry]]
        digest = row["digest"].tobytes()
        return StoredAt(pack, int(row["offset"]), int(row["length"]), digest, int(row["codec"]))

    def newly_of_use(self, entries: NDArray[Any]) -> bytes:
        """The ids of those that this was not asked for before, one after the other."""
        new = entries[~self._of_use[entries]]
        self._of_use[new] = True
        return np.stack([self._high[new], self._low[new]], axis=1).astype(">u8").tobytes()

    def hide(self, entries: NDArray[Any]) -> None:
        """These are not to be found any more."""
        self.there[entries] = False

    def hide_in(self, number: int, ids: bytes) -> None:
        """Nor are these of a pack, wherever else they are."""
        asked = halves_of(np.frombuffer(ids[: len(ids) // ID * ID], f"V{ID}"))
        own = np.flatnonzero(self._pack == number)
        names = np.stack([self._high[own], self._low[own]], axis=1)
        both = np.concatenate([asked, names])
        _, group = np.unique(both, axis=0, return_inverse=True)
        self.there[own[np.isin(group[len(asked) :], group[: len(asked)])]] = False

    def by_pack(self, entries: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
        """The rows of entries, by the number of their pack."""
        for number in np.unique(self._pack[entries]).tolist():
            yield number, self._row[entries[self._pack[entries] == number]]

    def rows_there(self, number: int) -> NDArray[np.bool_]:
        """Which rows of a pack are to be found, and are found in this one first."""
        shown = np.flatnonzero(self.there)  # a hidden entry must not stand for a later one with the same id
        high, low = self._high[shown], self._low[shown]
        first = np.ones(len(shown), np.bool_)
        first[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
        chosen = shown[first]
        found = np.zeros(len(self.packs[number].content.rows), np.bool_)
        found[self._row[chosen[self._pack[chosen] == number]]] = True
        return found


def halves_of(ids: NDArray[Any]) -> NDArray[np.uint64]:
    """Ids as two whole numbers each."""
    return np.ascontiguousarray(ids).view(">u8").reshape(-1, 2).astype(np.uint64)


def joined(ids: Iterable[bytes]) -> bytes:
    """Ids one after the other. Raises ValueError for what is none."""
    found = list(ids)
    if any(len(one) != ID for one in found):
        raise ValueError("an id has 16 bytes")
    return b"".join(found)
