"""Find what a plugin's code depends on: modules beside it, installed packages, and files that it reads.

It looks at the source alone, so that imports within functions are found before anything runs.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.machinery
import importlib.util
import json
import os.path
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cenote.language.plugins.shipped import SourceFile, is_from, source_of

if TYPE_CHECKING:  # imported where people's own code is looked at
    from importlib.metadata import Distribution

_IMPORTERS = ("import_module", "__import__")
_READERS = ("resource",)
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
"""Another one may give other last bits: `sum` of floats does since 3.12."""
_OF_ITSELF = (b"__doc__", b"getdoc", b"getsource", b"getcomments", b"docopt")
"""Words of code that looks at docstrings or comments."""
_OURS = "cenote"
"""Its version is a part of every content hash anyway."""
_NOT_PLUGINS = ("test", "tests", "conftest")


@dataclass
class Imports:
    """What was found, starting from some sources in one folder."""

    folder: Path
    """Where the plugin lies: modules that are beside it are its own."""
    modules: dict[str, SourceFile] = field(default_factory=dict)
    """Name → module beside the plugin, in the order found."""
    installed: set[str] = field(default_factory=set)
    """First parts of the names of all other modules, without those of the standard library."""
    read: dict[Path, None] = field(default_factory=dict)
    """Files that a call of `resource` names, and that are there."""

    def add(self, file: SourceFile) -> None:
        """Follow the imports of a source."""
        try:
            tree = ast.parse(file.source)
        except (SyntaxError, ValueError):
            return  # importing it tells where
        package = file.module if file.package else file.module.rpartition(".")[0]
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._want(alias.name)
            elif isinstance(node, ast.ImportFrom):
                self._from(node, package)
            elif isinstance(node, ast.Call):
                self._call(node, Path(file.path).parent)

    def add_module(self, name: str) -> None:
        """Take a module that lies in the folder, with those that it is in, and follow its imports."""
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            inner = ".".join(parts[:end])
            if inner not in self.modules and (file := _module_in(self.folder, inner)) is not None:
                self.modules[inner] = file
                self.add(file)

    def _from(self, node: ast.ImportFrom, package: str) -> None:
        base = node.module or ""
        if node.level:
            above = package.split(".") if package else []
            kept = above[: len(above) - (node.level - 1)]
            if not kept:
                return  # beyond the top: importing it tells
            base = ".".join([*kept, base] if base else kept)
        self._want(base)
        for alias in node.names:
            if _module_in(self.folder, f"{base}.{alias.name}") is not None:
                self._want(f"{base}.{alias.name}")

    def _call(self, node: ast.Call, folder: Path) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        first = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
        if not isinstance(first, str):
            return
        if called in _IMPORTERS and not first.startswith("."):
            self._want(first)
        elif called in _READERS and (folder / first).is_file():
            self.read[folder / first] = None

    def _want(self, name: str) -> None:
        top = name.partition(".")[0]
        if _is_known(top):
            return
        if is_beside(top, self.folder):
            self.add_module(name)
        else:
            self.installed.add(top)


def is_beside(top: str, folder: Path) -> bool:
    """Whether an import of this name means something in the folder.

    It does not where this process has a module of that name from elsewhere, which Python would take too (but for
    those that came along with another plugin: they make room), nor for a folder without `__init__.py` whose name is
    that of an installed package.
    """
    there = sys.modules.get(top)
    if there is not None and source_of(there) is None and not is_from(there, folder):
        return False
    if (folder / f"{top}.py").is_file() or (folder / top / "__init__.py").is_file() or _binary(folder, top) is not None:
        return True
    return _holds_modules(folder / top) and (there is not None or not _is_installed(top))


def modules_in_package(package: Path) -> Iterator[str]:
    """The names of the modules of a package that may declare plugins: hidden ones and tests do not."""
    for file in sorted(package.rglob("*.py")):
        parts = [package.name, *file.relative_to(package).with_suffix("").parts]
        name = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith(("_", ".", "test_")) or part in _NOT_PLUGINS for part in name[1:]):
            yield ".".join(name)


def digest_of_code(sources: Iterable[SourceFile], imports: Imports, *, as_written: bool = False) -> str:
    """Changes when anything changes that the code does: sources, versions of packages and Python, files that it reads.

    Where the folder lies is no part of it, nor are comments, formatting and docstrings: unless it is taken as written,
    or looks at them.
    """
    sources = list(sources)
    looked_at = (file.source for file in (*sources, *imports.modules.values()))
    as_written = as_written or any(word in source for source in looked_at for word in _OF_ITSELF)
    read: Callable[[bytes], bytes] = bytes if as_written else meaning_of
    hashed = hashlib.blake2b(digest_size=16)

    def add(*parts: str | bytes) -> None:
        for part in parts:
            content = part.encode() if isinstance(part, str) else part
            hashed.update(len(content).to_bytes(8, "little") + content)

    add("python", PYTHON)
    for file in sources:
        add("source", file.module, read(file.source))
    for name, file in sorted(imports.modules.items()):
        add("module", name, read(file.source))
    for name in sorted(imports.installed):
        add("package", name, version_of(name))
    for path in sorted(imports.read):
        add("file", os.path.relpath(path, imports.folder), digest_of_file(path))
    return hashed.hexdigest()


@cache
def meaning_of(source: bytes) -> bytes:
    """What a source says to Python: two that differ in comments, formatting and docstrings alone have the same."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # no Python, or not of this version
        return source
    return ast.dump(without_texts(tree)).encode(errors="surrogatepass")


def without_texts(tree: ast.Module) -> ast.Module:
    """The same tree, less its docstrings."""
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [one for one in body if not _is_text(one)]  # type: ignore[attr-defined]  # it has one
    return tree


def _is_text(statement: ast.stmt) -> bool:
    """A docstring, or a text that stands alone like one."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def digest_of_file(path: Path) -> str:
    """Of its content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def digest_of_content(content: bytes) -> str:
    """What `digest_of_file` is of a file with this content."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def version_of(top: str) -> str:
    """Of an installed package, by the name that is imported.

    One without a version, or that its author works on, has its sources instead, and what these import. If they have
    changed since this process looked last, it loads them again when they are next imported: what runs is what was
    hashed. Those with compiled modules cannot be loaded twice.
    """
    if released := _released(top):
        return released
    sources = _sources_reached(top)
    written = _digest_of(sources, bytes)
    if _looked_at.setdefault(top, written) != written:
        _looked_at[top] = written
        _unload([name for name in sources if not _released(name)])
    return _digest_of(sources, meaning_of)


def _digest_of(sources: Mapping[str, Sequence[tuple[str, bytes]]], read: Callable[[bytes], bytes]) -> str:
    hashed = hashlib.blake2b(digest_size=16)
    for name, files in sorted(sources.items()):
        hashed.update(f"{name}\0{_released(name)}\0{len(files)}\0".encode())
        for file, source in files:
            content = read(source) if file.endswith(".py") else source
            hashed.update(f"{file}\0{len(content)}\0".encode() + content)
    return hashed.hexdigest() if sources else ""


_looked_at: dict[str, str] = {}
"""Package without a version → the digest of its sources, when this process looked last."""


def _unload(tops: Iterable[str]) -> None:
    loaded = [name for name in sys.modules if name.partition(".")[0] in tops]
    endings = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    if not any(str(getattr(sys.modules[name], "__file__", "")).endswith(endings) for name in loaded):
        for name in loaded:
            del sys.modules[name]


def _sources_reached(top: str) -> dict[str, list[tuple[str, bytes]]]:
    """The files that a package without a version is made of, and all such that it imports; those with one have none."""
    found: dict[str, list[tuple[str, bytes]]] = {}
    left = [top]
    while left:
        name = left.pop()
        if name in found or _is_known(name):
            continue
        files = [] if _released(name) else _source_files(name)
        if files or _released(name):
            found[name] = files
        left += [other for _, source in files for other in _tops_in(source)]
    return found


@cache
def _tops_in(source: bytes) -> frozenset[str]:
    """The first parts of the names that a source imports."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):
        return frozenset()
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    return frozenset(name.partition(".")[0] for name in names)


def _is_known(top: str) -> bool:
    """Whether its version counts anyway."""
    return not top or top == _OURS or top in sys.stdlib_module_names


@cache
def _released(top: str) -> str:
    """Name and version of an installed package; empty for one without, and for one that its author works on."""
    found = _distributions(top)
    if any(_is_editable(one) for one in found):
        return ""
    return " ".join(sorted(f"{one.metadata['Name']} {one.version}" for one in found))


def _distributions(top: str) -> list[Distribution]:
    from importlib.metadata import PackageNotFoundError, distribution

    if not top:  # of a name that begins with a dot, or is empty
        return []
    try:
        return [distribution(top)]  # most are called what they are imported as
    except PackageNotFoundError:
        return [distribution(name) for name in sorted(set(_owners().get(top, ())))]


@cache
def _owners() -> dict[str, list[str]]:
    from importlib.metadata import packages_distributions

    return dict(packages_distributions())


def _is_editable(distribution: Distribution) -> bool:
    text = distribution.read_text("direct_url.json")
    return bool(text and json.loads(text).get("dir_info", {}).get("editable"))


def _source_files(top: str) -> list[tuple[str, bytes]]:
    """The files of a module or package that lies somewhere on the path, and what is in them."""
    spec = find_module(top)
    if spec is None:
        return []
    places = [Path(place) for place in spec.submodule_search_locations or ()]
    files = [(str(file.relative_to(place)), file) for place in places for file in sorted(place.rglob("*.py"))]
    if not places and spec.origin and spec.has_location:
        files = [(Path(spec.origin).name, Path(spec.origin))]
    return [(name, file.read_bytes()) for name, file in files]


def find_module(top: str) -> importlib.machinery.ModuleSpec | None:
    """Where a module would come from, without importing it; None where there is none."""
    try:
        return importlib.util.find_spec(top)
    except (ImportError, ValueError):  # a module without a spec, such as `__main__`
        return None


def _is_installed(top: str) -> bool:
    """As a package with an `__init__.py`, which goes before folders without one."""
    spec = find_module(top)
    return spec is not None and spec.origin is not None


def _module_in(folder: Path, name: str) -> SourceFile | None:
    """A module of the folder by its name; a folder without `__init__.py` counts as an empty package."""
    path = folder.joinpath(*name.split("."))
    for file, package in ((path / "__init__.py", True), (path.with_name(f"{path.name}.py"), False)):
        if file.is_file():
            return SourceFile(str(file), file.read_bytes(), name, package=package)
    if (binary := _binary(path.parent, path.name)) is not None:
        return SourceFile(str(binary), binary.read_bytes(), name, binary=True)
    return SourceFile(str(path), b"", name, package=True) if _holds_modules(path) else None


def _binary(folder: Path, name: str) -> Path | None:
    """A compiled module."""
    tried = (folder / f"{name}{suffix}" for suffix in importlib.machinery.EXTENSION_SUFFIXES)
    return next((path for path in tried if path.is_file()), None)


def _holds_modules(folder: Path) -> bool:
    return folder.is_dir() and next(folder.rglob("*.py"), None) is not None
