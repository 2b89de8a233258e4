"""Find the plugins that other packages bring, by their entry points, without asking where nobody has any."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from cenote.lean_imports import imported
from cenote.plugins.kinds import PluginKind

_OURS, _PYDANTIC = b"[cenote.", b"[pydantic]"
"""How groups of entry points begin."""
_KNOWN_FINDERS = ("_frozen_importlib_external", "importlib", "importlib_metadata")
"""Whose packages lie in the folders of `sys.path`."""


@cache
def installed(kind: PluginKind) -> dict[str, str]:
    """Name → `module:object` of every plugin of this kind that an installed package declares."""
    if not _may_be_declared(_OURS):
        return {}
    from importlib.metadata import entry_points  # takes as long to import as all that is looked at here

    return {point.name: point.value for point in entry_points(group=kind.package)}


def look_again() -> None:
    """Forget what was found: `sys.path` may be another one from now on."""
    installed.cache_clear()
    _texts.cache_clear()


def spare_pydantic_its_search() -> None:
    """Tell pydantic that it has no plugins, where it has none: it would look into every package that is installed."""
    if not _may_be_declared(_PYDANTIC):
        loader = imported("pydantic.plugin._loader")
        if getattr(loader, "_plugins", ()) is None:
            vars(loader)["_plugins"] = {}


def _may_be_declared(group: bytes) -> bool:
    texts = _texts()
    return texts is None or any(group in text for text in texts)


@cache
def _texts() -> tuple[bytes, ...] | None:
    """All entry points of all packages, as they are written; None where packages may be elsewhere than in folders."""
    finders = [one for one in sys.meta_path if hasattr(one, "find_distributions")]
    if any(_home(finder) not in _KNOWN_FINDERS for finder in finders):
        return None
    if any(os.path.isfile(folder) for folder in sys.path):  # noqa: PTH113  # an archive; this is asked at every start
        return None
    return tuple(text for folder in sys.path for text in _texts_in(folder or "."))


def _home(finder: object) -> str:
    kind = finder if isinstance(finder, type) else type(finder)
    return kind.__module__.partition(".")[0]


def _texts_in(folder: str) -> Iterator[bytes]:
    try:
        names = os.listdir(folder)  # noqa: PTH208  # as above
    except OSError:
        return
    for name in names:
        if name.lower().endswith("-info"):  # of a wheel, of setuptools, or within an egg
            try:
                yield Path(folder, name, "entry_points.txt").read_bytes()
            except OSError:
                continue
