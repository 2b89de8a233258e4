"""Merge two documents key by key: what stands over wins, what it leaves out shines through."""

from __future__ import annotations

from cenote.language.origins import KeyPath
from cenote.language.yaml.source import Located

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
