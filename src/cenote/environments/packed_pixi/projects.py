"""Find the code of packages that a lock names by their folder: it travels beside the environment."""

from __future__ import annotations

import sys
from pathlib import Path

from cenote import errors
from cenote.environments.packed_pixi.lock import LockedEnvironment, LockedSource
from cenote.packing.code import CodeProject, editable_projects
from cenote.packing.software import normal_name

_COMPILED = ("CMakeLists.txt", "meson.build", "Cargo.toml", "setup.py")
"""What tells that there is more to it than Python files; `setup.py` may."""


def projects_of(locked: LockedEnvironment) -> list[CodeProject]:
    """What is edited here is taken as it is installed, the rest from its sources. Raises where that cannot be done."""
    edited = {project.name for project in editable_projects(sys.path)}
    return [_project(locked, one) for one in locked.sources if normal_name(one.name) not in edited]


def _project(locked: LockedEnvironment, source: LockedSource) -> CodeProject:
    module = normal_name(source.name).replace("-", "_")
    places = [source.folder / "src" / module, source.folder / module]
    found = next((place for place in places if any(place.glob("*.py"))), None)
    if found is None or any((source.folder / name).exists() for name in _COMPILED):
        raise errors.error(
            errors.BAD_ENVIRONMENT,
            f"'{source.name}', which {locked.lock} takes from {source.folder}, is not Python code that can be sent"
            if found
            else f"'{source.name}', which {locked.lock} takes from {source.folder}, has no {Path('src', module)} there",
            hint="`pip install -e` it where cenote is installed, or pack what pixi installed:"
            f" `prefix: .pixi/envs/{locked.name}`",
        )
    return CodeProject(normal_name(source.name), source.version or "0", (found,))
