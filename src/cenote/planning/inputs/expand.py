"""Turn what a dataset says under `files`, and listings of other programs, into names of files that exist."""

from __future__ import annotations

import glob
import json
import os.path
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from cenote.common import errors, storage
from cenote.common.errors import Problem
from cenote.common.text import did_you_mean, listed, nearest
from cenote.common.values import dataclass
from cenote.language.workflow import Dataset
from cenote.planning.inputs.digests import KnownDigest

# Take names of files out of listings that other programs make: filesets of coffea, replicas and tables of rucio.


CATALOGUES = frozenset({".json", ".yaml", ".yml"})
"""Endings of files that hold names of files in a structure."""
_ADDRESS = re.compile(r"[a-z]+://\S+")
_ROW = re.compile(r"^\s*\|.*\|\s*$")
_ADLER32 = re.compile(r"[0-9a-fA-F]{8}")
_RULE = re.compile(r"^\s*\+[-=+]+\+\s*$")


@dataclass(frozen=True)
class ListedFile:
    """A file as a listing names it."""

    name: str
    adler32: str = ""
    """Its checksum, in eight digits; empty where the listing has none."""


def names_in_text(line: str) -> list[ListedFile]:
    """The files in a line: all of it, or the first address of a row of a table such as rucio prints."""
    if _RULE.match(line):
        return []
    if _ROW.match(line):
        before, *_ = re.split(r"\|[^|]*://", line)
        given = before.rpartition("|")[2].strip()  # in the column before that of addresses
        return [ListedFile(name, _adler32({"adler32": given})) for name in _ADDRESS.findall(line)[:1]]
    return [ListedFile(line)]


def names_in_catalogue(path: Path, dataset: str) -> list[ListedFile] | Problem:
    """The files of a dataset in a JSON or YAML file.

    It is a list of names; a mapping of datasets to lists, or to mappings with `files` (a list, or file → tree, as in
    coffea's filesets); or rucio's list of replicas, of each of which the first address is taken.
    """
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as problem:
        return Problem(errors.NO_DATA, f"{path} cannot be read as {path.suffix[1:].upper()}: {_first_line(problem)}")
    return _names(found, path, dataset)


def _first_line(problem: Exception) -> str:
    return str(problem).strip().partition("\n")[0]


def _names(found: Any, path: Path, dataset: str) -> list[ListedFile] | Problem:  # Any: whatever the file holds
    if isinstance(found, list):
        names = [_name(entry) for entry in found]
        kept = [ListedFile(name, _adler32(entry)) for name, entry in zip(names, found, strict=True) if name is not None]
        if len(kept) == len(names):
            return kept
        return Problem(errors.NO_DATA, f"{path} lists something else than files: {str(found[names.index(None)])[:60]}")
    if not isinstance(found, Mapping):
        return Problem(errors.NO_DATA, f"{path} names no files: it holds neither a list nor a mapping")
    if "files" in found:
        files = found["files"]
        return [ListedFile(str(file)) for file in files] if isinstance(files, Mapping) else _names(files, path, dataset)
    if dataset in found:
        return _names(found[dataset], path, dataset)
    hint = did_you_mean(dataset, list(map(str, found)))
    details = (f"datasets there: {listed(map(str, found))}",)
    return Problem(errors.NO_DATA, f"{path} has no dataset '{dataset}'", details=details, hint=hint)


def _name(entry: Any) -> str | None:  # Any: whatever the file holds
    """A name, or the address of a replica: the one that rucio would take first."""
    if isinstance(entry, str):
        return entry
    if not isinstance(entry, Mapping):
        return None
    pfns = entry.get("pfns")
    if isinstance(pfns, Mapping) and pfns:
        return str(min(pfns, key=lambda one: _priority(pfns[one])))
    rses = entry.get("rses")
    if isinstance(rses, Mapping):
        addresses = [one for replicas in rses.values() if isinstance(replicas, Sequence) for one in replicas]
        return str(addresses[0]) if addresses else None
    return next((entry[key] for key in ("file", "path", "url", "lfn") if isinstance(entry.get(key), str)), None)


def _adler32(entry: Any) -> str:  # Any: whatever the file holds
    given = entry.get("adler32") if isinstance(entry, Mapping) else None
    return given.lower() if isinstance(given, str) and _ADLER32.fullmatch(given) else ""


def _priority(facts: Any) -> int:  # Any: whatever rucio says of a replica
    given = facts.get("priority") if isinstance(facts, Mapping) else None
    return given if isinstance(given, int) else 1_000_000


LISTS = frozenset({".txt", ".list", ".lst"})
"""Endings of text files that hold names of files, one a line; `#` starts a comment."""

_UNSET = re.compile(r"\$(\w+|\{[^}]*\})")


@dataclass(frozen=True)
class MissingFile:
    """A file that is named and is not there."""

    path: str
    problem: Problem


@dataclass(frozen=True)
class FoundFiles:
    """The files of a dataset."""

    files: tuple[str, ...]
    """Each once: in the order written, sorted within a pattern. Remote ones are not looked up."""
    problems: tuple[Problem, ...] = ()
    not_beside: tuple[str, ...] = ()
    """What was written and is not beside the workflow, but in the current folder."""
    missing: tuple[MissingFile, ...] = ()
    """Files that are named and are not there."""
    digests: tuple[KnownDigest, ...] = ()
    """Of files, as far as the listings that name them have one."""


def expand_files(dataset: Dataset, folder: Path, *, catalogues: bool = True) -> FoundFiles:
    """Find the files. Relative names are relative to `folder`, or else to the current one; in a list, to the list's.

    Without `catalogues`, JSON files are data.
    """
    search = _Search(dataset.name, catalogues)
    files: dict[str, None] = {}
    digests: dict[str, KnownDigest] = {}
    problems: list[Problem] = []
    missing: dict[str, MissingFile] = {}
    not_beside: list[str] = []
    for written in dataset.files:
        found = list(search.looked_up(written, folder))
        if _has_problem(found) and not _has_problem(here := list(search.looked_up(written, Path()))):
            found = here
            not_beside.append(written)
        problems += [one for one in found if isinstance(one, Problem)]
        missing |= {one.path: one for one in found if isinstance(one, MissingFile)}
        digests |= {one.url: one for one in found if isinstance(one, KnownDigest)}
        files.update(dict.fromkeys(_url(one) for one in found if isinstance(one, str | KnownDigest)))
    if not dataset.files:
        problems.append(Problem(errors.NO_DATA, f"dataset '{dataset.name}' names no files"))
    return FoundFiles(
        tuple(files), tuple(problems), tuple(not_beside), tuple(missing.values()), tuple(digests.values())
    )


_Found = str | KnownDigest | Problem | MissingFile


def _has_problem(found: Sequence[_Found]) -> bool:
    return not all(isinstance(one, str | KnownDigest) for one in found)


def _url(found: str | KnownDigest) -> str:
    return found.url if isinstance(found, KnownDigest) else found


@dataclass(frozen=True)
class _Search:
    """Looks up what one dataset names."""

    dataset: str
    catalogues: bool

    def looked_up(self, written: str, folder: Path) -> Iterator[_Found]:
        """Files by a name or pattern; one that the file system refuses to look up is a problem."""
        try:
            yield from self._expanded(written, folder, within=())
        except OSError as problem:
            found = storage.problem_of(problem, written)
            if found is None:
                raise
            yield found

    def _expanded(self, written: str, folder: Path, *, within: tuple[Path, ...]) -> Iterator[_Found]:
        name = os.path.expandvars(written.strip())
        if unset := _UNSET.search(name):
            yield Problem(errors.NO_DATA, f"{written}: the environment variable {unset.group()} is not set")
            return
        if "://" in name and not name.startswith("file://"):
            yield _remote(name)
            return
        path = folder / storage.expanded(name.removeprefix("file://"))
        if path.suffix.lower() in LISTS and path.is_file():
            yield from self._listed_in(path, within)
        elif self.catalogues and path.suffix.lower() in CATALOGUES and path.is_file():
            yield from self._in_catalogue(path, within)
        elif path.is_file():
            yield os.path.normpath(path)
        elif glob.has_magic(name):
            yield from _matching(written, name, folder, path)
        elif path.is_dir():
            yield _a_folder(written)
        else:
            yield MissingFile(os.path.normpath(path), _missing(written, path))

    def _in_catalogue(self, path: Path, within: tuple[Path, ...]) -> Iterator[_Found]:
        names = names_in_catalogue(path, self.dataset)
        if isinstance(names, Problem):
            yield names
            return
        yield from self._all(names, path, within)

    def _listed_in(self, path: Path, within: tuple[Path, ...]) -> Iterator[_Found]:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            yield Problem(errors.NO_DATA, f"{path} is not a text file of names")
            return
        kept = [name for line in lines if (name := re.sub(r"(^|\s)#.*", "", line).strip())]
        yield from self._all([name for line in kept for name in names_in_text(line)], path, within)

    def _all(self, names: Sequence[ListedFile], path: Path, within: tuple[Path, ...]) -> Iterator[_Found]:
        if path in within:
            yield Problem(errors.NO_DATA, f"{path} names itself: {' → '.join(map(str, (*within, path)))}")
            return
        if not names:
            yield Problem(errors.NO_DATA, f"{path} names no files")
        for listed_file in names:
            for found in self._expanded(listed_file.name, path.parent, within=(*within, path)):
                if listed_file.adler32 and isinstance(found, str):
                    yield KnownDigest(found, listed_file.adler32)
                else:
                    yield found


def _matching(written: str, name: str, folder: Path, path: Path) -> Iterator[str | Problem]:
    pattern = storage.pattern(folder, name.removeprefix("file://"))
    matches = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207  # Path.glob takes no absolute pattern
    files = [match for match in matches if not os.path.isdir(match)]  # noqa: PTH112  # ten times faster
    yield from (os.path.normpath(match) for match in files)
    if not files:
        yield _nothing_matches(written, path)


def _remote(name: str) -> str | Problem:
    if "*" not in name:
        return name
    return Problem(
        errors.NO_DATA,
        f"{name}: patterns work for files on this machine, not for addresses",
        hint="write the addresses in a text file, one a line, and name it under `files`",
    )


def _nothing_matches(written: str, path: Path) -> Problem:
    existing = _existing_parent(path)
    return Problem(
        errors.NO_DATA,
        f"no file matches '{written}'",
        details=(f"looked in {existing}, which holds: {listed(_names_in(existing))}",),
        hint=_near(path, existing),
    )


def _a_folder(written: str) -> Problem:
    return Problem(errors.NO_DATA, f"'{written}' is a folder", hint=f"did you mean '{Path(written) / '*.root'}'?")


def _missing(written: str, path: Path) -> Problem:
    existing = _existing_parent(path)
    details = (f"looked in {existing}",) if existing == path.parent else (f"{existing} exists, nothing below it does",)
    hint = _further_up(written, path) or _near(path, existing)
    return Problem(errors.BAD_INPUT, f"file '{written}' does not exist", details=details, hint=hint)


def _further_up(written: str, path: Path) -> str | None:
    """A hint for names that count from a folder above, as those of a repository often do."""
    if Path(written).is_absolute():
        return None
    folders = path.absolute().parents[len(Path(written).parts) :]
    found = next((folder for folder in folders if (folder / written).is_file()), None)
    return f"it is in {found}: run the command there" if found else None


def _existing_parent(path: Path) -> Path:
    return next(parent for parent in path.parents if parent.is_dir())


def _near(path: Path, existing: Path) -> str | None:
    """A hint with the existing name that is closest to the first part that does not exist."""
    lost = path.relative_to(existing).parts[0]
    match = nearest(lost, _names_in(existing))
    return f"did you mean '{match}'?" if match else None


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208  # names only: no path objects for ten thousand files
    except OSError:
        return []
