"""Read pixi.lock: what one environment has on one platform, or why it cannot be packed from there."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

from cenote.common import errors
from cenote.common.errors import Problem
from cenote.common.text import did_you_mean, listed
from cenote.common.values import dataclass

VERSIONS = (6, 7)
_CONDA_FILES = (".conda", ".tar.bz2")
_INSTALLED = "install it with pixi, and pack the folder: `prefix: .pixi/envs/{environment}`"
_Data = Mapping[str, Any]  # Any: YAML as pixi writes it


@dataclass(frozen=True)
class LockedPackage:
    """A file that is installed as it is."""

    name: str
    location: str
    """A URL; `file:` for files here."""
    sha256: str
    size: int | None = None
    """Bytes, where the lock says it."""

    @property
    def local_file(self) -> Path | None:
        """Where it lies on this machine, if it does."""
        url = urlsplit(self.location)
        return Path(unquote(url.path)) if url.scheme == "file" else None

    @property
    def file_name(self) -> str:
        """`numpy-2.0-0.conda`."""
        return unquote(urlsplit(self.location).path.rpartition("/")[2])


@dataclass(frozen=True)
class LockedSource:
    """A package that is installed from its sources on this machine."""

    name: str
    version: str
    folder: Path


@dataclass(frozen=True)
class LockedEnvironment:
    """An environment of a lock, for one platform."""

    lock: Path
    digest: str
    """SHA-256 of the lock file."""
    name: str
    platform: str
    """As the lock names it: since version 7 `linux-64-cuda` may stand for a sort of `linux-64`."""
    subdir: str
    """As conda names it: `linux-64`."""
    conda: tuple[LockedPackage, ...]
    wheels: tuple[LockedPackage, ...]
    sources: tuple[LockedSource, ...]
    """The project itself, mostly."""


def read_environment(lock: Path, *, environment: str, platform: str, defined: Container[str] = ()) -> LockedEnvironment:
    """Raises every reason why this cannot be packed.

    `platform` is a name of the lock's, or of conda's; `defined` are the environments that the manifest has.
    """
    digest, data = _read(lock, lock.stat().st_mtime_ns, lock.stat().st_size)
    environments: _Data = data["environments"]
    if environment not in environments:
        raise errors.error(
            errors.BAD_VALUE,
            f"{lock} has no environment '{environment}'",
            details=(f"environments of the lock: {listed(environments)}",),
            hint=f"the manifest has it: {_RELOCK}"
            if environment in defined
            else did_you_mean(environment, environments),
        )
    written: _Data = environments[environment].get("packages") or {}
    name = _platform(lock, environment, written, _subdirs(data, written), platform)
    entries = {_place(entry): entry for entry in data.get("packages", ())}
    found = [{**entries.get(_place(entry), {}), **entry} for entry in written[name]]
    return _checked(lock, digest, environment, name, _subdirs(data, written)[name], found)


def sha256_of(file: Path) -> str:
    """Of a file, in hex."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@cache
def _read(lock: Path, changed: int, size: int) -> tuple[str, _Data]:
    """A lock is parsed once: a large one takes a second. What it is asked with changes when the file does."""
    del changed, size
    text = lock.read_bytes()
    try:
        data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        place = errors.Place(str(lock), mark.line + 1, mark.column + 1) if mark else None
        raise errors.error(errors.BAD_YAML, "the lock of pixi is not YAML", place=place, hint=_RELOCK) from problem
    version = data.get("version") if isinstance(data, dict) else None
    if version not in VERSIONS:
        says = "has no version" if version is None else f"has version {version}"
        raise errors.error(
            errors.BAD_ENVIRONMENT,
            f"{lock} {says}; versions {VERSIONS[0]} and {VERSIONS[-1]} of pixi's locks can be packed",
            hint=_RELOCK if not isinstance(version, int) or version < VERSIONS[0] else None,
        )
    if not isinstance(data.get("environments"), dict):
        raise errors.error(errors.BAD_ENVIRONMENT, f"{lock} has no environments", hint=_RELOCK)
    return hashlib.sha256(text).hexdigest(), data


_RELOCK = "`pixi lock` writes it anew"


def _subdirs(data: _Data, written: _Data) -> dict[str, str]:
    """Platform as the lock names it → as conda does."""
    declared = {one["name"]: one.get("subdir", one["name"]) for one in data.get("platforms", ())}
    return {name: declared.get(name, name) for name in written}


def _platform(lock: Path, environment: str, written: _Data, subdirs: Mapping[str, str], wanted: str) -> str:
    """The name in the lock of the platform that is wanted."""
    if wanted in written:
        return wanted
    fitting = [name for name, subdir in subdirs.items() if subdir == wanted]
    if len(fitting) == 1:
        return fitting[0]
    where = f"environment '{environment}' of {lock}"
    if fitting:
        what = f"{where} has several sorts of the platform '{wanted}': {listed(fitting)}"
        raise errors.error(errors.BAD_VALUE, what, hint="name one of them by `platform`")
    hint = did_you_mean(wanted, written) or "add it to `platforms` in the manifest, then `pixi lock`"
    what = f"{where} has nothing for the platform '{wanted}'"
    raise errors.error(errors.BAD_VALUE, what, details=(f"platforms of the lock: {listed(written)}",), hint=hint)


def _place(entry: _Data) -> tuple[str, str]:
    """What names an entry: its sort, and where the package is."""
    return next((kind, str(entry[kind])) for kind in ("conda", "conda_source", "pypi") if kind in entry)


def _checked(
    lock: Path, digest: str, environment: str, platform: str, subdir: str, entries: Iterable[_Data]
) -> LockedEnvironment:
    problems: list[Problem] = []
    conda: list[LockedPackage] = []
    wheels: list[LockedPackage] = []
    sources: list[LockedSource] = []
    built: list[str] = []
    for entry in entries:
        kind, location = _place(entry)
        url = _url(location, lock)
        if kind == "conda" and url.endswith(_CONDA_FILES):
            conda.append(_package(entry, url.rpartition("/")[2].rsplit("-", 2)[0], url))
        elif kind == "pypi" and urlsplit(url).path.endswith(".whl"):
            wheels.append(_package(entry, str(entry.get("name", "")), url))
        elif kind == "pypi" and url.startswith("file:") and not urlsplit(url).path.endswith((".gz", ".zip")):
            folder = Path(unquote(urlsplit(url).path)).resolve()
            sources.append(LockedSource(str(entry.get("name", location)), str(entry.get("version", "")), folder))
        else:
            built.append(str(entry.get("name") or location.partition("[")[0]))
    if built:
        problems.append(
            Problem(
                errors.BAD_ENVIRONMENT,
                f"environment '{environment}' of {lock} has packages that must be built from their sources:"
                f" {listed(built)}",
                hint=_INSTALLED.format(environment=environment),
            )
        )
    if bare := [one.name for one in (*conda, *wheels) if not one.sha256]:
        what = f"{lock} has no SHA-256 of {listed(bare)}, so the files that are fetched cannot be checked"
        problems.append(Problem(errors.BAD_ENVIRONMENT, what, hint=_RELOCK))
    if not any(one.name == "python" for one in conda):
        hint = "workers are Python programs: add `python` to its dependencies, then `pixi lock`"
        what = f"environment '{environment}' of {lock} has no Python for {platform}"
        problems.append(Problem(errors.BAD_ENVIRONMENT, what, hint=hint))
    if problems:
        raise errors.CenoteError(problems)
    return LockedEnvironment(lock, digest, environment, platform, subdir, tuple(conda), tuple(wheels), tuple(sources))


def _package(entry: _Data, name: str, url: str) -> LockedPackage:
    fragment = urlsplit(url).fragment.removeprefix("sha256=")
    return LockedPackage(name, url.partition("#")[0], str(entry.get("sha256") or fragment), entry.get("size"))


def _url(location: str, lock: Path) -> str:
    """Locations without a scheme are paths, from the folder of the lock."""
    plain = location.removeprefix("direct+")
    if "://" in plain:
        return plain
    return Path(lock.parent, plain).absolute().as_uri()
