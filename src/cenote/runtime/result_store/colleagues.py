"""Read what others keep in a store that several people share: data alone, and only of those who are trusted."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from cenote.names import listed
from cenote.runtime.result_store.folders import OWNER, ResultFolder
from cenote.runtime.result_store.packs import Content, read_index, read_plain
from cenote.runtime.result_store.people import Person, myself, person_in, personal_folder, trusted_people
from cenote.runtime.result_store.seals import SealOfAnother
from cenote.runtime.result_store.table import Pack
from cenote.values import dataclass
from cenote.worker.results.bundle import DATA

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
