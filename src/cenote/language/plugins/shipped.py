"""Carry people's own modules to places where their folder is not: sources travel, and run from memory."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import field
from functools import cache
from pathlib import Path
from types import ModuleType

from cenote.common import errors
from cenote.common.software import PREFIX_VARIABLE
from cenote.common.values import dataclass


@dataclass(frozen=True)
class SourceFile:
    """A Python file as it was when it was loaded."""

    path: str
    source: bytes
    module: str = ""
    """What others import it as; empty for a plugin file, which no module imports."""
    package: bool = False
    target: str = ""
    """The plugin, as the workflow names it, whose declarations are in here; empty for a module that only helps."""
    name: str = ""
    """What a plugin file is called as a module: the same here and there, so that its objects may travel."""
    binary: bool = False
    """A compiled module."""
    mentions: tuple[str, ...] | None = field(default=None, compare=False)
    """For a file that declares plugins: which of `mentions.WORDS` its code names; None where nobody looked."""


class SourceInMemory(importlib.abc.SourceLoader):
    """Loads a module from a source that is at hand; nothing is read, and no bytecode is written beside the file."""

    def __init__(self, file: SourceFile) -> None:
        self.file = file

    def get_filename(self, fullname: str) -> str:  # noqa: ARG002  # importlib's signature
        """Where it was written: for tracebacks."""
        return self.file.path

    def get_data(self, path: bytes | str) -> bytes:
        """The source."""
        if path != self.file.path:
            raise FileNotFoundError(path)
        return self.file.source

    def is_package(self, fullname: str) -> bool:  # noqa: ARG002  # importlib's signature
        """Whether it has modules within."""
        return self.file.package


class _Shipped(importlib.abc.MetaPathFinder):
    """Finds modules that came along, before any others: where they come from, they were found first too."""

    def __init__(self) -> None:
        self.files: dict[str, SourceFile] = {}
        self.folders: frozenset[Path] = frozenset()
        """Where plugins lie, if a module from there that did not come along must not be imported: it would change
        results unseen."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002  # importlib's signature
    ) -> importlib.machinery.ModuleSpec | None:
        file = self.files.get(fullname)
        if file is not None:
            return spec_of(fullname, file)
        if self.folders and self._is_left_out(fullname, path):
            raise errors.error(
                errors.BAD_PLUGIN,
                f"module '{fullname}': it was not known when the run was planned",
                hint=f"name it in the code, as in `import {fullname}`, so that a change of it counts",
            )
        return None

    def _is_left_out(self, name: str, path: Sequence[str] | None) -> bool:
        """Whether a module would come from beside the plugins, or out of a package that came along."""
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or name.partition(".")[0] in self.files:
            return spec is not None
        places = [*(spec.submodule_search_locations or ()), *([spec.origin] if spec.has_location else [])]
        return any(Path(place or "").absolute().parent in self.folders for place in places)


_FINDER = _Shipped()


def spec_of(name: str, file: SourceFile) -> importlib.machinery.ModuleSpec:
    """How to import a source under a name."""
    if file.binary:
        spec = importlib.util.spec_from_file_location(name, _unpacked(file))
    else:
        spec = importlib.util.spec_from_file_location(name, file.path, loader=SourceInMemory(file))
    assert spec is not None  # there is a loader
    return spec


def own_path() -> tuple[str, ...]:
    """The folders that this process imports from, and another one of the same Python by itself does not."""
    roots = {Path(root).absolute() for root in (sys.prefix, sys.base_prefix, sys.exec_prefix)}
    folders = [Path(entry).absolute() for entry in sys.path]
    return tuple(dict.fromkeys(str(one) for one in folders if roots.isdisjoint((one, *one.parents))))


def extend_path(folders: Iterable[str]) -> None:
    """Import from these folders of the driver's machine too, after all others; not where an environment brought the
    software, which would then not be the same everywhere."""
    if PREFIX_VARIABLE in os.environ:
        return
    known = {str(Path(entry).absolute()) for entry in sys.path}
    sys.path.extend(folder for folder in folders if folder not in known)


def bring_along(files: Iterable[SourceFile], *, complete: bool = False) -> None:
    """Let modules be imported from these sources, instead of those that were brought along before.

    If they are `complete`, other modules from beside them are an error.


    If one of them was loaded from anything else (an older version of the file, say), all are loaded again when they
    are next imported, for they import each other: what runs is what was hashed. Compiled ones cannot be loaded twice.
    """
    files = list(files)
    _FINDER.files = {file.module: file for file in files if file.module}
    _FINDER.folders = frozenset(_folder_of(file) for file in files) if complete else frozenset()
    there = {name: file for name, file in _FINDER.files.items() if name in sys.modules and not file.binary}
    if any(source_of(sys.modules[name]) != file for name, file in there.items()):
        for name in there:
            del sys.modules[name]
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


def _folder_of(file: SourceFile) -> Path:
    """Where the plugin lies that a source belongs to: modules there are imported by their names alone."""
    above = file.module.count(".") + file.package if file.module else 0
    is_folder = file.package and Path(file.path).name != "__init__.py"  # an empty package, without a file
    return Path(file.path).absolute().parents[above - is_folder]


def source_of(module: ModuleType) -> SourceFile | None:
    """What a module was loaded from, if it came along."""
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    return loader.file if isinstance(loader, SourceInMemory) else None


def is_from(module: ModuleType, folder: Path) -> bool:
    """Whether a module of no package lies in this folder: as a file, or as a folder of modules."""
    spec = getattr(module, "__spec__", None)
    if spec is None:
        return False
    own = source_of(module)
    places = [own.path] if own is not None else [*(spec.submodule_search_locations or ())]
    if spec.origin and spec.has_location:
        places.append(spec.origin)
    found = {Path(place).resolve() for place in places}
    here = (folder / module.__name__).resolve()
    return not found.isdisjoint((here, here / "__init__.py", here.with_name(f"{here.name}.py"))) or any(
        place.parent == here.parent and place.name.partition(".")[0] == here.name for place in found
    )


@cache
def _unpacked(file: SourceFile) -> str:
    """Where a compiled module can be loaded from: its own place, or one for this process alone."""
    if Path(file.path).is_file() and Path(file.path).read_bytes() == file.source:
        return file.path
    target = Path(tempfile.mkdtemp(prefix="cenote-module-")) / Path(file.path).name
    target.write_bytes(file.source)
    return str(target)
