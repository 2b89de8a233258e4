"""Find profiles by name, by path or in a package, and fill pools in from pool profiles."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from cenote import errors, storage
from cenote.errors import Place, Problem
from cenote.language.layers.merge import merge
from cenote.language.yaml.source import Located
from cenote.names import did_you_mean, listed
from cenote.plugins.imports import find_module

ALWAYS_THERE = frozenset({"registry", "basic", "hep", "hep_debug"})
"""Profiles of FAST-HEP that switch capabilities on which are built in here."""
BUILT_IN_PACKAGES = "fasthep_"
SUFFIXES = (".yaml", ".yml")


def is_file_name(name: str) -> bool:
    """Whether a profile is named by its path."""
    return "/" in name or name.endswith(SUFFIXES)


def find_profile(name: str, *, folder: Path, beside: Path) -> Path | None:
    """The file of a profile; None for one that is built in. `folder` is the workflow's, `beside` the naming file's.

    Raises `unknown-profile` with the profiles that are there, or `missing-file`.
    """
    if is_file_name(name):
        return _by_path(name, (beside, folder))
    if ":" in name:
        return _in_package(name)
    places = search_folders(folder)
    for place in places:
        for suffix in SUFFIXES:
            if storage.is_file(place / f"{name}{suffix}"):
                return place / f"{name}{suffix}"
    if name in ALWAYS_THERE:
        return None
    known = profile_names(folder)
    raise errors.error(
        errors.UNKNOWN_PROFILE,
        f"there is no profile '{name}'",
        details=(f"profiles: {listed(known)}", f"looked in: {', '.join(str(place) for place in places)}"),
        hint=did_you_mean(name, known),
    )


def profile_names(folder: Path) -> set[str]:
    """Every profile that a workflow in this folder can name without a path."""
    files = [file for place in search_folders(folder) if place.is_dir() for file in place.iterdir()]
    return {*ALWAYS_THERE, *(file.stem for file in files if file.suffix in SUFFIXES)}


def search_folders(folder: Path) -> list[Path]:
    """Where profiles named without a path are looked for, in this order."""
    extra = [Path(entry) for entry in os.environ.get("CENOTE_PROFILES", "").split(os.pathsep) if entry]
    own = storage.expanded("~/.config/cenote/profiles")
    return [folder / ".cenote" / "profiles", folder / "profiles", own, Path("/etc/cenote/profiles"), *extra]


def _by_path(name: str, folders: Iterable[Path]) -> Path:
    tried = [folder / storage.expanded(name) for folder in folders]
    return next((path for path in tried if storage.is_file(path)), tried[0])


def _in_package(name: str) -> Path | None:
    """`package:name` is `profiles/name.yaml` of an installed package, which is not imported for it."""
    package, _, profile = name.partition(":")
    top, *inner = package.split(".")
    spec = find_module(top) if top.isidentifier() else None
    for root in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(root, *inner, "profiles", f"{profile}.yaml")
        if storage.is_file(path):
            return path
    if top.startswith(BUILT_IN_PACKAGES):
        return None
    what = "has no profile of that name" if spec else "is not installed"
    raise errors.error(errors.UNKNOWN_PROFILE, f"profile '{name}': the package '{package}' {what}")


def fill_pools(root: Located, problems: list[Problem]) -> Located:
    """Every pool that says `use: NAME` with the pool profile of that name merged under its own keys."""
    pools, execution = root.get("execution", "pools"), root.get("execution")
    if pools is None or execution is None or not pools.mapping:
        return root
    known = root.get("pool_profiles")
    filled = {
        name: _filled(name, pool, known.mapping if known else {}, problems) for name, pool in pools.mapping.items()
    }
    new_execution = execution.holding({**execution.mapping, "pools": pools.holding(filled)})
    return root.holding({**root.mapping, "execution": new_execution})


def _filled(name: str, pool: Located, known: Mapping[str, Located], problems: list[Problem]) -> Located:
    merged, used = pool, pool.get("use")
    trail: list[str] = []
    while used is not None and used.text is not None:
        if used.text in trail:
            circle = " → ".join([*trail[trail.index(used.text) :], used.text])
            problems.append(
                Problem(errors.INCLUDE_CYCLE, f"pool profiles use each other in a circle: {circle}", place=used.place)
            )
            return merged
        trail.append(used.text)
        profile = known.get(used.text)
        if profile is None:
            problems.append(_unknown_pool_profile(used.text, used.place, known))
            return merged
        merged = merge(profile.without("use"), merged, path=("execution", "pools", name))
        used = profile.get("use")
    return merged


def _unknown_pool_profile(name: str, place: Place | None, known: Iterable[str]) -> Problem:
    names = list(known)
    return Problem(
        errors.UNKNOWN_PROFILE,
        f"there is no pool profile '{name}'",
        place=place,
        details=(f"pool profiles: {listed(names)}",),
        hint=did_you_mean(name, names) or "define it under `pool_profiles`, in this file or a profile",
    )
