"""Pack a prefix: its files with the placeholder for its path, bytecode, and what a node needs to put it in place."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import msgspec

from cenote import errors
from cenote.packing.archive import OWN_FOLDER, Compression
from cenote.packing.prefixes import relocate
from cenote.packing.prefixes.activation import activation_of
from cenote.packing.prefixes.bytecode import compile_sources, python_runs_here
from cenote.packing.prefixes.placeholder import NoRoomError, PrefixPaths
from cenote.packing.prefixes.prefix import PLACEHOLDER, FilledPrefix
from cenote.packing.progress import PackingStep, Progress
from cenote.packing.software import conda_records, json_object
from cenote.packing.tree import Found, left_out, walk
from cenote.packing.write import Member, Written, write_archive
from cenote.text import first_of

_NOT_PACKED = frozenset({"pkgs", "envs", "conda-bld", OWN_FOLDER})
"""At the top of a prefix: of conda's base prefix the caches and the other environments."""
_OF_THIS_MACHINE = ("conda-meta/history", "conda-meta/state", "conda-meta/pixi*", "conda-meta/.*")
_KEPT_OF_RECORDS = ("name", "version", "build", "build_number", "subdir", "noarch", "depends")
"""What conda's records say of a package. The rest is about this machine: paths, and addresses that may hold a token."""
_TESTS = frozenset({"test", "tests"})
_LARGE = 1 << 20
_BINARY = "binary"


def packed_files(folder: Path, exclude: tuple[str, ...] = ()) -> list[Found]:
    """What a prefix has to be packed, sorted by name."""
    return walk(folder, left_out((*exclude, *_OF_THIS_MACHINE), _NOT_PACKED))


def pack_prefix(
    prefix: FilledPrefix, file: Path, compression: Compression, staging: Path, progress: Progress
) -> Written:
    """Write the archive of a prefix; `staging` is a folder for files on the way."""
    progress(PackingStep(f"looking at {prefix.folder}"))
    found = packed_files(prefix.folder, prefix.exclude)
    python = prefix.folder / "bin" / "python"
    compiled = staging / "bytecode"
    compiled.mkdir(parents=True, exist_ok=True)
    if python_runs_here(python):
        sources = [one.name for one in found if _is_worth_compiling(one.name)]
        names = [name for name in sources if not (prefix.folder / name).is_symlink()]
        compile_sources(python, prefix.folder, names, compiled, (PLACEHOLDER, *prefix.paths), progress)
    else:
        progress(PackingStep("packing without bytecode: its Python does not run here"))
    found = sorted([*found, *_bytecode(compiled)], key=lambda one: os.fsencode(one.name))
    total = sum(one.facts.st_size for one in found if not one.is_folder)
    return write_archive(file, _Contents(prefix).members(found), compression, progress, total=total)


def _is_worth_compiling(name: str) -> bool:
    """Whether a worker may import it: of the tests that packages bring, which may be a sixth of all code, none does."""
    is_source = name.startswith("lib/python") and name.endswith(".py")
    return is_source and not any(part in _TESTS for part in name.split("/")[:-1])


def _bytecode(folder: Path) -> list[Found]:
    """The folders of sources are in the prefix; those of bytecode only here."""
    return [one for one in walk(folder, lambda _: False) if "__pycache__" in one.name]


class _Contents:
    """What the archive of a prefix holds."""

    def __init__(self, prefix: FilledPrefix) -> None:
        self._prefix = prefix
        self._paths = PrefixPaths(prefix.paths)
        self._room = _room_for_paths(prefix.folder)
        self._relocated: dict[str, list[str]] = {}
        """The first name of each file that holds the placeholder → all its names."""
        self._too_long: list[str] = []

    def members(self, found: list[Found]) -> Iterator[Member]:
        """In their order, and at last our own, which say what the others hold."""
        names: dict[tuple[int, int], str] = {}
        for one in found:
            inode = (one.facts.st_dev, one.facts.st_ino)
            if one.is_folder:
                yield Member(one.name)
            elif one.is_link:
                yield Member(one.name, link=self._target(one))
            elif one.facts.st_nlink > 1 and inode in names:
                if names[inode] in self._relocated:
                    self._relocated[names[inode]].append(one.name)
                yield Member(one.name, same_as=names[inode])
            else:
                names[inode] = one.name
                yield Member(one.name, self._content(one), executable=bool(one.facts.st_mode & 0o100))
        if self._too_long:
            files = first_of(self._too_long)
            raise errors.error(
                errors.BAD_ENVIRONMENT,
                f"{self._prefix.folder} cannot be moved: its path is in {files}, with no room for another",
                hint="name files that do not need it by `unmoved`, or leave them out by `exclude`",
            )
        yield from self._own()

    def _target(self, one: Found) -> str:
        """A link within the prefix leads to the same place wherever the prefix is."""
        target = os.readlink(one.path)  # noqa: PTH115  # as text: a trailing `/` stays
        for path in (str(self._prefix.folder), *self._prefix.paths, PLACEHOLDER):
            if target == path or target.startswith(f"{path}/"):
                inside = target.removeprefix(path).lstrip("/") or "."
                return os.path.relpath(inside, os.path.dirname(one.name) or ".")  # noqa: PTH120
        return target

    def _content(self, one: Found) -> bytes | Path:
        if one.name.startswith("conda-meta/") and one.name.endswith(".json"):
            return _slim(json_object(one.path))
        if one.facts.st_size > _LARGE and not self._hold(one.path):
            return one.path
        content = one.path.read_bytes()
        if not self._paths.are_in(content):
            return content
        try:
            new = self._paths.replaced(content, one.name, room=self._room.get(one.name, 0))
        except NoRoomError:
            if not any(fnmatch(one.name, pattern) for pattern in self._prefix.unmoved):
                self._too_long.append(one.name)
            return content
        if PLACEHOLDER.encode() in new:
            self._relocated[one.name] = [one.name]
        return new

    def _hold(self, file: Path) -> bool:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return self._paths.are_in(content)

    def _own(self) -> Iterator[Member]:
        prefix = self._prefix
        activation = activation_of(prefix.folder, (*prefix.paths, PLACEHOLDER), prefix.activation)
        listed = {"placeholder": PLACEHOLDER, "files": list(self._relocated.values())}
        yield Member(OWN_FOLDER)
        yield Member(f"{OWN_FOLDER}/activate.sh", activation.encode())
        yield Member(f"{OWN_FOLDER}/relocate.py", Path(relocate.__file__).read_bytes())
        yield Member(f"{OWN_FOLDER}/relocations.json", json.dumps(listed, indent=0).encode())


def _slim(written: dict[str, Any]) -> bytes:  # Any: JSON
    return msgspec.json.encode({key: written[key] for key in _KEPT_OF_RECORDS if key in written})


def _room_for_paths(prefix: Path) -> dict[str, int]:
    """Binary file → how many bytes the path in it had when the package was built, as conda's records say."""
    found: dict[str, int] = {}
    for record in conda_records(prefix):
        listed: list[dict[str, Any]] = (record.get("paths_data") or {}).get("paths", [])  # Any: JSON
        for one in listed:
            if one.get("file_mode") == _BINARY and one.get("prefix_placeholder"):
                found[one["_path"]] = len(one["prefix_placeholder"])
    return found
