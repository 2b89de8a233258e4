"""Make wheels: small ones from a few lines, and those of this project's own packages from their installed files."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

_NOT_IN_WHEELS = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_cache.json")
_REQUIRED_NAME = re.compile(r"[A-Za-z0-9._-]+")


def small_wheel(
    folder: Path,
    name: str,
    files: Mapping[str, str],
    *,
    version: str = "1.0",
    tag: str = "py3-none-any",
    more: str = "",
) -> Path:
    """A wheel with these files; `more` is added to its METADATA."""
    info = f"{name}-{version}.dist-info"
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    file = folder / f"{name}-{version}-{tag}.whl"
    _write(file, info, {path: content.encode() for path, content in contents.items()})
    return file


def wheels_needed_by(name: str, folder: Path, *, extras: Iterable[str] = (), without: Iterable[str] = ()) -> list[Path]:
    """Wheels of all that an installed package needs, but not of itself, made from what is installed."""
    found: dict[str, Distribution] = {}
    waiting = [(_plain(name), frozenset(extras))]
    left_out = {_plain(one) for one in without}
    while waiting:
        wanted, with_extras = waiting.pop()
        try:
            package = distribution(wanted)
        except PackageNotFoundError:
            continue  # for other systems, or for other versions of Python
        found[wanted] = package
        needed = {*_requirements(package, with_extras)} - left_out - found.keys()
        waiting += [(one, frozenset[str]()) for one in needed]
    return [_repacked(found[one], folder) for one in sorted(found) if one != _plain(name)]


def _requirements(package: Distribution, extras: frozenset[str]) -> Iterator[str]:
    for requirement in package.requires or ():
        written, _, marker = requirement.partition(";")
        match = _REQUIRED_NAME.match(written)
        if match and ("extra" not in marker or any(f"'{extra}'" in marker.replace('"', "'") for extra in extras)):
            yield _plain(match.group())


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _repacked(package: Distribution, folder: Path) -> Path:
    stem = f"{re.sub(r'[-_.]+', '_', package.name)}-{package.version}"
    tags = [line.removeprefix("Tag: ") for line in (package.read_text("WHEEL") or "").splitlines() if "Tag: " in line]
    columns = [".".join(dict.fromkeys(column)) for column in zip(*(tag.split("-") for tag in tags), strict=True)]
    file = folder / f"{stem}-{'-'.join(columns)}.whl"
    _write(file, f"{stem}.dist-info", dict(_members(package, stem)))
    return file


def _members(package: Distribution, stem: str) -> Iterator[tuple[str, bytes]]:
    programs = {entry.name for entry in package.entry_points if entry.group in ("console_scripts", "gui_scripts")}
    for path in package.files or ():
        located = Path(str(path.locate())).resolve()
        if path.suffix == ".pyc" or (path.name in _NOT_IN_WHEELS and path.parts[0].endswith(".dist-info")):
            continue
        if ".." not in path.parts:
            first, *rest = path.parts
            name = "/".join([f"{stem}.dist-info" if first.endswith(".dist-info") else first, *rest])
        elif located.parent == Path(sys.prefix).resolve() / "bin":
            if path.name in programs:
                continue  # written anew where it is installed
            name = f"{stem}.data/scripts/{path.name}"
        else:
            name = f"{stem}.data/data/{located.relative_to(Path(sys.prefix).resolve())}"
        yield name, located.read_bytes()


def _write(file: Path, info: str, contents: Mapping[str, bytes]) -> None:
    """Not compressed: what is made here is read here."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        lines = []
        for path, content in contents.items():
            archive.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{path},sha256={digest},{len(content)}\n")
        archive.writestr(f"{info}/RECORD", "".join([*lines, f"{info}/RECORD,,\n"]))
