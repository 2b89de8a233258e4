"""Share a store at an address, such as `s3://bucket/prefix`: packs are sent there, single results are read there.

One's own results lie in a folder of the cache, as anywhere else; its packs are copied to `ADDRESS/PERSON/packs`, each
before its index. Indexes of others are copied from there once, and are checked and used as those of a shared folder.
Nothing that goes wrong there ends a run.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from cenote.analysis.sources.support.files import remote_files
from cenote.common import errors
from cenote.common.cache_file import cache_folder
from cenote.common.text import listed
from cenote.common.values import dataclass
from cenote.execution.packing.archive import locked_at_once
from cenote.execution.runtime.result_store.folders import OWNER, PACK, ResultFolder
from cenote.execution.runtime.result_store.packs import Content, SealOfAnother, read_index, read_plain, replace_file
from cenote.execution.runtime.result_store.table import Pack, Person, myself, person_in, personal_folder, trusted_people
from cenote.execution.worker.results.bundle import DATA

# Read what others keep in a store that several people share: data alone, and only of those who are trusted.


_LONGEST = 1000
Warn = Callable[[str], None]


def is_shared(folder: Path) -> bool:
    """Whether others may keep results there as well."""
    try:
        facts = folder.stat()
    except OSError:
        return False
    return facts.st_uid != os.geteuid() or bool(facts.st_mode & 0o022)


def own_part(folder: Path) -> ResultFolder:
    """One's own folder in a shared one: those who may read that may read what is in it."""
    readable = folder.stat().st_mode & 0o044
    return ResultFolder(folder / myself().fingerprint, 0o600 | readable, personal_folder())


@dataclass(frozen=True)
class SharedStore:
    """A folder with a folder for each of several people."""

    folder: Path

    def packs_of_others(self, warn: Warn) -> Sequence[Pack]:
        """Those of trusted people; what is not used is told of."""
        try:
            return self._packs_of_others(warn)
        except (OSError, ValueError) as problem:
            warn(f"results of others in {self.folder} are not used: {problem}")
            return []

    def _packs_of_others(self, warn: Warn) -> Sequence[Pack]:
        facts = self.folder.stat()
        if facts.st_mode & 0o022 and not facts.st_mode & stat.S_ISVTX:
            warn(f"whoever may write to {self.folder} may remove what others keep there: `chmod +t {self.folder}`")
        trusted = {one.public: one for one in trusted_people()}
        found, strangers = list[Pack](), list[Person]()
        own = myself().fingerprint
        for path in sorted(self.folder.iterdir()):
            if path.name == own or not path.is_dir():
                continue
            person = self._owner(path, warn)
            if person is not None and person.public in trusted:
                found += _packs(path, trusted[person.public], warn)
            elif person is not None:
                strangers.append(person)
        if strangers:
            names = listed(one.name for one in strangers)
            hint = "`cenote store trust` lets runs use them"
            warn(f"results of {names} in {self.folder} are not used, as their keys are not trusted: {hint}")
        return found

    def _owner(self, path: Path, warn: Warn) -> Person | None:
        """Whose a folder says that it is; signatures prove it."""
        if not all(os.access(one, os.R_OK | os.X_OK) for one in (path, path / "packs") if one.exists()):
            warn(f"{path} is not used: you may not read it")
            return None
        try:
            person = person_in((read_plain(path / OWNER, _LONGEST) or b"").decode())
        except ValueError:
            person = None
        if person is None or person.fingerprint != path.name:
            warn(f"{path} is not used: it does not say whose it is")
            return None
        return person


def _packs(path: Path, person: Person, warn: Warn) -> list[Pack]:
    folder = ResultFolder(path)
    if not folder.is_known:
        warn(f"results of {person.name} are not used: {path} is of another version of Cenote ({folder.version})")
        return []
    found = []
    for pack in folder.all_packs():
        if not pack.with_suffix(".idx").exists():  # it is being written
            continue
        content = read_index(pack, SealOfAnother(person.public))
        if content is None:
            warn(f"{pack} is not used: {person.name} has not signed what is in it")
            continue
        rows = content.rows[content.rows["codec"] == DATA]
        found.append(Pack(pack, Content(rows, content.names, content.covered), person))
    return found


_FOLDERS = "results-at"
"""In the user's cache: a folder for each address."""
_NAME = re.compile(r"([0-9a-f]{16})/(owner|version|packs/[0-9a-f]{16}-[0-9]+\.(?:pack|idx))")
_INDEX = ".idx"
_LARGEST = {_INDEX: 1 << 30, "": 1000}
"""Bytes of an index, and of what says whose it is, that are fetched at the most."""
_SENT = "sent"
"""Names of the packs that were sent from this cache: others of one's own are from other machines, and stay."""


class RemoteStore:
    """What several people keep at an address. Its first failure is told of, and is the last request that is made."""

    def __init__(self, address: str, warn: Warn) -> None:
        """Raises CenoteError where software is missing for such addresses, OSError where there is no key."""
        self.address = address.rstrip("/")
        self._warn = warn
        self._given_up = False
        try:
            self._files, self._root = remote_files(self.address)
        except (ImportError, ValueError) as problem:  # of fsspec, of protocols that it has no software for
            raise errors.error(errors.ENVIRONMENT, f"{self.address} cannot be used: {problem}") from None
        self._me = myself().fingerprint
        here = cache_folder() / _FOLDERS / hashlib.blake2b(self.address.encode(), digest_size=8).hexdigest()
        self.own = ResultFolder(here / self._me, 0o600, personal_folder())
        self._elsewhere = ResultFolder(here / "elsewhere", 0o600, personal_folder())
        """Indexes of packs that other machines of this user have sent."""
        self._others = here / "others"

    def __str__(self) -> str:
        return self.address

    def packs(self, warn: Warn) -> Sequence[Pack]:
        """Of trusted people, and one's own from other machines; what is not used is told of."""
        found = list[Pack]()
        with self._told():
            there = self._listed()
            self._fetch(there)
            known = [pack for pack in self._elsewhere.known_packs() if len(pack.content.rows)]
            if self._others.is_dir():
                known += SharedStore(self._others).packs_of_others(
                    lambda words: warn(words.replace(str(self._others), self.address))
                )
            self._forget_all_but(known)
            for pack in known:
                remote = RemotePack(
                    self, f"{pack.owner.fingerprint if pack.owner else self._me}/packs/{pack.path.name}"
                )
                if there[remote.name] >= pack.size:
                    found.append(replace(pack, remote=remote))
                else:
                    warn(f"{remote} is not used: it is cut short")
        return found

    def send(self, *, withdraw: bool = False) -> int:
        """Make one's own packs there those that are here; returns how many bytes were removed there.

        Those from other machines stay, unless they are to be withdrawn.
        """
        removed = 0
        with self._told():
            self.own.make()
            with locked_at_once(self.own.lock) as held:  # else somebody is at it, or removes packs: next time
                removed = self._send(withdraw=withdraw) if held else 0
        return removed

    def _send(self, *, withdraw: bool) -> int:
        there = self._listed()
        packs = [path for path in self.own.all_packs() if path.with_suffix(_INDEX).exists()]
        record = self.own.path / _SENT
        before = {*(read_plain(record) or b"").decode().split()}
        here = {path.stem for path in packs}
        replace_file(record, [" ".join(before | here).encode()], 0o600)
        about = [self.own.path / OWNER, self.own.path / "version"] if here else []
        for path in (*about, *(one for pack in packs for one in (pack, pack.with_suffix(_INDEX)))):
            name = f"{self._me}/{path.relative_to(self.own.path)}"
            if path in about or there.get(name) != path.stat().st_size:
                self._files.put_file(str(path), f"{self._root}/{name}")
        left = {name: Path(name).stem for name in sorted(there) if name.startswith(f"{self._me}/packs/")}
        gone = [name for name, stem in left.items() if stem not in here and (withdraw or stem in before)]
        for name in gone:  # an index before its pack
            self._files.rm_file(f"{self._root}/{name}")
        replace_file(record, [" ".join(here).encode()], 0o600)
        return sum(there[name] for name in gone)

    def _listed(self) -> dict[str, int]:
        """Names below the address, of what belongs to a store, with their sizes."""
        if self._given_up:
            raise ConnectionError(f"{self.address} is not used any more")
        self._files.invalidate_cache()
        found = self._files.find(self._root, detail=True)
        names = {path.removeprefix(f"{self._root}/"): int(facts["size"] or 0) for path, facts in found.items()}
        return {name: size for name, size in names.items() if _NAME.fullmatch(name)}

    def _fetch(self, there: Mapping[str, int]) -> None:
        """Copy what indexes are not here yet. A pack is never written again under its name, nor is its index: what
        is of the same size is the same. What proves to be signed by nobody is not kept here."""
        people = {self._me, *(one.fingerprint for one in trusted_people())}
        own = {path.stem for path in self.own.all_packs()}
        wanted: dict[str, Path] = {}
        for name, size in there.items():
            person, _, rest = name.partition("/")
            path = (self._elsewhere.path if person == self._me else self._others / person) / rest
            if path.suffix == PACK or size > _LARGEST[path.suffix]:
                continue
            is_index = path.suffix == _INDEX
            if is_index and (person not in people or f"{name.removesuffix(_INDEX)}{PACK}" not in there):
                continue
            if (person != self._me or (is_index and path.stem not in own)) and not (is_index and _size(path) == size):
                wanted[f"{self._root}/{name}"] = path
        for name, content in self._files.cat([*wanted], on_error="return").items() if wanted else ():
            if isinstance(content, bytes):
                path = wanted[name]
                path.parent.mkdir(parents=True, exist_ok=True)
                replace_file(path, [content], 0o600)
                if path.suffix == _INDEX:
                    path.with_suffix(PACK).touch()  # in the place of the pack itself
            elif not isinstance(content, FileNotFoundError):  # removed meanwhile
                raise content
        for path in self._mirrored():
            person = self._me if path.parts[-3] == self._elsewhere.path.name else path.parts[-3]
            names = {f"{person}/packs/{path.stem}{suffix}" for suffix in (PACK, _INDEX)}
            if not names <= there.keys() or (person == self._me and path.stem in own):
                _remove(path)
        for folder in self._others.glob("*"):
            if f"{folder.name}/{OWNER}" not in there:
                shutil.rmtree(folder, ignore_errors=True)

    def _mirrored(self) -> list[Path]:
        return [*self._elsewhere.packs.glob(f"*{PACK}"), *self._others.glob(f"*/packs/*{PACK}")]

    def _forget_all_but(self, known: Sequence[Pack]) -> None:
        good = {pack.path for pack in known}
        for path in self._mirrored():
            if path not in good:
                _remove(path)

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Bytes of an object. Raises OSError."""
        if not self._given_up:
            try:
                found: bytes = self._files.cat_file(f"{self._root}/{name}", start=offset, end=offset + length)
                return found
            except FileNotFoundError:  # removed meanwhile
                raise
            except Exception as problem:  # every protocol has its own
                self._give_up(problem)
        raise ConnectionError(f"{self.address} is not used any more")

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except Exception as problem:  # every protocol has its own
            self._give_up(problem)

    def _give_up(self, problem: Exception) -> None:
        if not self._given_up:
            self._given_up = True
            why = next(iter(str(problem).splitlines()), "") or type(problem).__name__
            self._warn(f"{self.address} is not used from here on: {why}")


@dataclass(frozen=True)
class RemotePack:
    """An object there."""

    store: RemoteStore
    name: str

    def __str__(self) -> str:
        return f"{self.store.address}/{self.name}"

    def read(self, offset: int, length: int) -> bytes:
        """So many bytes. Raises OSError."""
        return self.store.read(self.name, offset, length)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1


def _remove(pack: Path) -> None:
    for path in (pack, pack.with_suffix(_INDEX)):
        path.unlink(missing_ok=True)
