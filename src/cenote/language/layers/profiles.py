"""Merge layers: profiles by name, by path or in a package, pool profiles, the command line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from cenote.common import errors, storage
from cenote.common.errors import Place, Problem
from cenote.common.text import did_you_mean, listed
from cenote.language.plugins.imports import find_module
from cenote.language.systematics import KeyPath
from cenote.language.yaml.source import Content, Located, parse_yaml

# Merge two documents key by key: what stands over wins, what it leaves out shines through.


RIVALS = {"workers": "elastic", "elastic": "workers"}
"""Keys of a pool that exclude each other: writing one in a later layer takes the other away."""


def merge(under: Located, over: Located, *, concatenate: bool = False, path: KeyPath = ()) -> Located:
    """Mappings merge deep, scalars of `over` win; lists are replaced, or concatenated with `under` first.

    A null takes away what stands below it.
    """
    if isinstance(under.value, dict) and isinstance(over.value, dict):
        merged = without_rivals(under.value, over.value, path)
        for key, child in over.value.items():
            below = merged.get(key)
            if below is None:
                merged[key] = child
            elif child.value is None:
                del merged[key]
            else:
                merged[key] = merge(below, child, concatenate=concatenate, path=(*path, key))
        return over.holding(merged)
    if concatenate and isinstance(under.value, list) and isinstance(over.value, list):
        return over.holding([*under.value, *over.value])
    return over


def without_rivals(under: dict[str, Located], over: dict[str, Located], path: KeyPath) -> dict[str, Located]:
    """The entries below, without those that an entry above excludes."""
    if not is_pool(path):
        return dict(under)
    excluded = {RIVALS[key] for key in over if key in RIVALS} - set(over)
    return {key: child for key, child in under.items() if key not in excluded}


def is_pool(path: KeyPath) -> bool:
    """Whether a pool or pool profile stands at this path."""
    return (len(path) == 3 and path[:2] == ("execution", "pools")) or (len(path) == 2 and path[0] == "pool_profiles")


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


# Apply what the command line or a script sets: `--set execution.pools.gpu.workers=10`.


LAYER = "command line"
_STEP = re.compile(r'"([^"]+)"|([^."]+)')


def parse_assignment(assignment: str) -> tuple[tuple[str, ...], Located]:
    """`a.b.c=VALUE` as the keys and the located value. A key that holds a dot is put in double quotes."""
    target, equals, written = assignment.partition("=")
    steps = tuple(quoted or plain for quoted, plain in _STEP.findall(target.strip()))
    if not equals or not steps:
        raise errors.error(
            errors.USAGE,
            f"cannot set {assignment}: this is not KEY=VALUE",
            hint="for example execution.backend=local",
        )
    parsed = parse_yaml(written, file=None, layer=LAYER)
    if parsed.root is None:
        why = "; ".join(problem.message for problem in parsed.problems)
        raise errors.error(errors.USAGE, f"cannot set {assignment}: the value is {why}")
    return steps, parsed.root


def assign(root: Located, steps: tuple[str, ...], value: Located, *, path: KeyPath = ()) -> Located:
    """The document with this value set: mappings are merged into, everything else is replaced."""
    if not steps:
        return merge(root, value, path=path)
    step, rest = steps[0], steps[1:]
    if isinstance(root.value, list):
        index = _index(root.value, step, path)
        items = list(root.value)
        items[index] = assign(items[index], rest, value, path=(*path, index))
        return root.holding(items)
    if root.value is not None and not isinstance(root.value, dict):
        raise errors.error(
            errors.USAGE, f"cannot set {_dotted((*path, *steps))}: '{_dotted(path)}' holds a single value, not keys"
        )
    entries: dict[str, Located] = root.value or {}
    child = assign(entries.get(step) or Located(None, LAYER), rest, value, path=(*path, step))
    kept: dict[str, Located] = without_rivals(entries, {step: child}, path)
    new: Content = {**kept, step: child}
    return root.holding(new)


def _index(items: list[Located], step: str, path: KeyPath) -> int:
    """The position of a list's item: by number, or by the `id` or `name` it carries."""
    if step.isdecimal() and int(step) < len(items):
        return int(step)
    names = [_name_of(item) for item in items]
    if step in names:
        return names.index(step)
    known = [name for name in names if name]
    message = f"cannot set {_dotted((*path, step))}: there is no '{step}' in {_dotted(path)}"
    raise errors.CenoteError(errors.unknown_name(errors.USAGE, message, step, known, what="there are"))


def _name_of(item: Located) -> str | None:
    named = item.get("id") or item.get("name")
    return named.text if named else None


def _dotted(path: KeyPath) -> str:
    return ".".join(str(step) for step in path)
