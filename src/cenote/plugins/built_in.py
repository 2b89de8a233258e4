"""Find the plugins that come with the package: modules and packages in the folder of their kind."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from cenote.plugins.kinds import NOT_PLUGINS, PluginKind


@cache
def built_in(kind: PluginKind) -> dict[str, str]:
    """Name → module, from the modules and packages of the kind's folder."""
    root = Path(__file__).parent.parent / kind.plural
    return {kind.spelled(".".join(parts)): ".".join((kind.package, *parts)) for parts in _plugins_below(root)}


def _plugins_below(folder: Path, parts: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """A module or a package is a plugin; a folder whose `__init__.py` is empty only adds a dot to names."""
    for path in folder.iterdir():
        here = (*parts, path.stem)
        if path.name.startswith(("_", ".")) or path.stem in NOT_PLUGINS:
            continue
        if path.suffix == ".py":
            yield here
        elif (init := path / "__init__.py").is_file():
            yield from [here] if init.stat().st_size else _plugins_below(path, here)


@cache
def built_in_class(kind: PluginKind, name: str) -> type[Any]:
    """The only class of the kind that can be made in a plugin's module or package."""
    module = importlib.import_module(built_in(kind)[name])
    interface = interface_of(kind)
    found = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, interface)
        and not inspect.isabstract(value)  # what several share, such as a generic base with its parameter
        and f"{value.__module__}.".startswith(f"{module.__name__}.")
    ]
    if len(found) != 1:
        raise TypeError(f"{module.__name__} must hold one {interface.__name__} class, it holds {len(found)}")
    return found[0]


def interface_of(kind: PluginKind) -> type[Any]:
    """The class that all plugins of a kind derive from."""
    found: type[Any] = getattr(importlib.import_module(f"{kind.package}.interface"), kind.value.capitalize())
    return found
