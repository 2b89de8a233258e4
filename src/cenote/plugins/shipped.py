"""This file carries people's own modules to places where their folder is not: sources travel, and run from memory."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType


@dataclass(frozen=True)
class SourceFile:
    """A Python file as it was when it was loaded."""

    path: str
    source: bytes
    module: str = ""
    """What others import it as; empty for a plugin file, which nobody imports."""
    package: bool = False


class SourceInMemory(importlib.abc.SourceLoader):
    """Loads a module from a source that is at hand; nothing is read, and no bytecode is written beside the file."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file

    def get_filename(self, fullname: str) -> str:  # noqa: ARG002  # importlib's signature
        """Where it was written: for tracebacks."""
        return self._file.path

    def get_data(self, path: bytes | str) -> bytes:
        """The source."""
        if path != self._file.path:
            raise FileNotFoundError(path)
        return self._file.source

    def is_package(self, fullname: str) -> bool:  # noqa: ARG002  # importlib's signature
        """Whether it has modules within."""
        return self._file.package


class _Shipped(importlib.abc.MetaPathFinder):
    """Finds modules that came along, before any others: where they come from, they were found first too."""

    def __init__(self, files: Iterable[SourceFile]) -> None:
        self._files = {file.module: file for file in files}

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002  # importlib's signature
        target: ModuleType | None = None,  # noqa: ARG002  # importlib's signature
    ) -> importlib.machinery.ModuleSpec | None:
        file = self._files.get(fullname)
        return spec_of(fullname, file) if file else None


def spec_of(name: str, file: SourceFile) -> importlib.machinery.ModuleSpec:
    """How to import a source under a name."""
    spec = importlib.util.spec_from_file_location(name, file.path, loader=SourceInMemory(file))
    assert spec is not None  # there is a loader
    return spec


def modules_beside(plugin: Path) -> Iterator[SourceFile]:
    """The modules of the plugin's own folder that are imported in this process: by it, or by its modules."""
    folder = plugin.parent
    for name, module in sorted(sys.modules.items()):
        top = sys.modules.get(name.partition(".")[0])
        if _origin(top) not in (folder / f"{_name(top)}.py", folder / _name(top) / "__init__.py"):
            continue
        origin = _origin(module)
        if origin is not None and origin.suffix == ".py" and origin.is_file():
            yield SourceFile(str(origin), origin.read_bytes(), name, package=origin.name == "__init__.py")


def bring_along(files: Iterable[SourceFile]) -> None:
    """Let modules be imported that came along; those that this process has already are left as they are."""
    missing = [file for file in files if file.module and file.module not in sys.modules]
    if missing:
        sys.meta_path.insert(0, _Shipped(missing))


def _origin(module: ModuleType | None) -> Path | None:
    spec = getattr(module, "__spec__", None)
    return Path(spec.origin) if spec is not None and spec.origin and spec.has_location else None


def _name(module: ModuleType | None) -> str:
    return module.__name__ if module is not None else ""
