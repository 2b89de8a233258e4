"""List the software in a prefix: packages with their versions, Python, platform."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

import msgspec

from cenote.common import errors, storage
from cenote.common.values import dataclass

_MACHINES = {"x86_64": "64", "i686": "32"}
"""Where conda has another name than Linux."""
NOARCH = "noarch"


@dataclass(frozen=True)
class Software:
    """What is installed in a prefix."""

    python: str = ""
    """Its version, or only the first two numbers of it; empty where nothing tells."""
    platform: str = ""
    """As conda names it: `linux-64`."""
    packages: dict[str, str] = field(default_factory=dict)
    """Name, as PyPI spells it → version; sorted."""


def software_of(prefix: Path) -> Software:
    """Everything that conda or an installer of Python packages recorded there."""
    records = list(conda_records(prefix))
    packages = {normal_name(one["name"]): str(one["version"]) for one in records}
    for folder in site_packages(prefix):
        for info in folder.glob("*-*.dist-info"):  # the metadata in there would take long to read
            package, _, version = info.stem.rpartition("-")
            packages[normal_name(package)] = version
    platforms = {str(one["subdir"]) for one in records if one.get("subdir", NOARCH) != NOARCH}
    return Software(
        python=packages.get("python") or _configured_python(prefix) or _library_python(prefix),
        platform=platforms.pop() if len(platforms) == 1 else this_platform(),
        packages=dict(sorted(packages.items())),
    )


def normal_name(name: str) -> str:
    """One spelling of each package."""
    return re.sub(r"[-_.]+", "-", name).lower()


def this_platform() -> str:
    """Of this machine, as conda names it."""
    machine = platform.machine()
    return f"{platform.system().lower()}-{_MACHINES.get(machine, machine)}"


def conda_records(prefix: Path) -> Iterator[dict[str, Any]]:  # Any: JSON as conda writes it
    """What conda, or a program like it, wrote about each package that it installed; in the order of their names."""
    for file in sorted((prefix / "conda-meta").glob("*.json")):
        record = json_object(file)
        if "name" in record and "version" in record:
            yield record


def json_object(file: Path) -> dict[str, Any]:  # Any: JSON
    """What a file of a prefix says."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except msgspec.DecodeError as problem:
        raise errors.error(errors.BAD_ENVIRONMENT, f"{file} is damaged: {problem}") from problem


def site_packages(prefix: Path) -> list[Path]:
    """The folders that its Python imports packages from."""
    found = prefix.glob("lib*/python3.*/site-packages")
    return sorted({storage.resolved(folder) for folder in found})  # `lib64` is often a link to `lib`


def _configured_python(prefix: Path) -> str:
    """Of a virtual environment."""
    written = venv_settings(prefix)
    return ".".join((written.get("version_info") or written.get("version", "")).split(".")[:3])


def _library_python(prefix: Path) -> str:
    """Of software that was built or put together otherwise, as sites do: the first two numbers."""
    found = {folder.parent.name.removeprefix("python") for folder in prefix.glob("lib*/python3.*/site-packages")}
    return found.pop() if len(found) == 1 else ""


def venv_settings(prefix: Path) -> dict[str, str]:
    """What `pyvenv.cfg` says; nothing where there is none."""
    file = prefix / "pyvenv.cfg"
    if not file.is_file():
        return {}
    lines = (line.partition("=") for line in file.read_text(encoding="utf-8").splitlines())
    return {key.strip().lower(): value.strip() for key, _, value in lines}
