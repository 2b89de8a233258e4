"""Share what environments have in common that pack a prefix of this machine as it is."""

from __future__ import annotations

import os
import shutil
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import PrivateAttr

from cenote.common import errors, storage
from cenote.common.errors import Problem
from cenote.common.text import first_of
from cenote.common.units import format_bytes
from cenote.execution.environments.support.packed import PackedEnvironment
from cenote.execution.packing.archive import Progress
from cenote.execution.packing.code import CodeProject, editable_projects
from cenote.execution.packing.prefixes.library_paths import FilledPrefix, paths_of
from cenote.execution.packing.prefixes.pack import packed_files
from cenote.execution.packing.software import site_packages, software_of
from cenote.execution.packing.stock import Stock
from cenote.execution.packing.write import Found, stamp

_OLDEST = (3, 11)
"""The Python that Cenote needs."""
_LEAST_COMPRESSED = 8
"""No environment becomes smaller than this part of it."""


class PackedPrefix(PackedEnvironment):
    """A prefix that is on this machine already."""

    _found: list[Found] | None = PrivateAttr(None)

    @abstractmethod
    def _prefix(self) -> Path | None:
        """Where it is; None where nobody said."""

    @abstractmethod
    def _problems(self, prefix: Path) -> Iterator[Problem]:
        """What is wrong with a folder as a prefix of this kind."""

    @abstractmethod
    def _activation(self, prefix: Path) -> tuple[str, ...]:
        """Lines of shell for the node."""

    def _folder_of_prefix(self) -> Path:
        prefix = self._prefix()
        if prefix is None or not storage.is_folder(prefix):
            raise errors.CenoteError(list(self.check()))
        return prefix

    def check(self) -> Iterable[Problem]:
        """Whether there is a prefix that can be packed."""
        yield from super().check()
        prefix = self._prefix()
        if prefix is None:
            words = f"`{self._kind()}` does not know which prefix to pack"
            yield Problem(errors.BAD_ENVIRONMENT, words, hint="name it by `prefix`, or activate it")
            return
        if not storage.is_folder(prefix):
            yield Problem(errors.BAD_ENVIRONMENT, f"{prefix}: there is no such folder, which is to be packed")
            return
        problems = list(self._problems(prefix))
        if not problems and not (prefix / "bin" / "python").exists():
            words, hint = f"{prefix}: there is no bin/python, with which workers would start", "install Python there"
            problems.append(Problem(errors.BAD_ENVIRONMENT, words, hint=hint))
        yield from problems or self._obstacles(prefix)

    def _obstacles(self, prefix: Path) -> Iterator[Problem]:
        python = software_of(prefix).python
        if python and tuple(int(part) for part in python.split(".")[:2]) < _OLDEST:
            words = f"{prefix} has Python {python}: workers need {'.'.join(map(str, _OLDEST))} or later"
            yield Problem(errors.BAD_ENVIRONMENT, words)
        files = [one for one in self._files() if not one.is_link]
        if unreadable := [one.name for one in files if not os.access(one.path, os.R_OK)]:
            words = f"{prefix}: {first_of(unreadable)} cannot be read"
            yield Problem(errors.NO_ACCESS, words, hint="change the rights, or leave them out by `exclude`")
        elif Stock().find(self._wanted()) is None:
            yield from _lack_of_space(sum(one.facts.st_size for one in files if not one.is_folder))

    def _files(self) -> list[Found]:
        """Of the prefix as this command found it."""
        if self._found is None:
            with storage.explained():
                self._found = packed_files(self._folder_of_prefix(), self.exclude)
        return self._found

    def _key(self) -> str:
        return stamp(self._files())

    def _source(self) -> str:
        return str(self._prefix() or "")

    def _fill(self, folder: Path, progress: Progress) -> FilledPrefix:
        del folder, progress  # it is full already
        prefix = self._folder_of_prefix()
        return FilledPrefix(
            prefix,
            paths=paths_of(prefix),
            platform=software_of(prefix).platform,
            activation=self._activation(prefix),
        )

    def _edited(self) -> Iterable[CodeProject]:
        return editable_projects([str(folder) for folder in site_packages(self._folder_of_prefix())])


def _lack_of_space(size: int) -> Iterator[Problem]:
    """In the stock, for an archive of so many bytes before they are compressed."""
    folder = Stock().folder
    there = next((one for one in (folder, *folder.parents) if one.exists()), folder)
    free = shutil.disk_usage(there).free
    if free < size // _LEAST_COMPRESSED:
        words = f"{folder} has no room to pack {format_bytes(size)}: {format_bytes(free)} are free there"
        yield Problem(errors.DISK_FULL, words, hint="`cenote env clean` removes old archives")
