"""Name the kinds of plugins, and find those that come with Cenote or that other packages bring."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from cenote.common import errors
from cenote.common.arrays import imported
from cenote.common.signals import Interrupted


class PluginKind(Enum):
    """A kind of plugin; its value is the word used in YAML, entry points and errors."""

    OPERATION = "operation"
    SOURCE = "source"
    SINK = "sink"
    RENDERER = "renderer"
    MODIFIER = "modifier"
    BACKEND = "backend"
    STRATEGY = "strategy"
    PRODUCT = "product"
    ENVIRONMENT = "environment"
    CREDENTIAL = "credential"

    @property
    def plural(self) -> str:
        """The word for several of them: the name of the folders that the built-in ones live in."""
        return "strategies" if self is PluginKind.STRATEGY else f"{self.value}s"

    def spelled(self, name: str) -> str:
        """The name in YAML of a plugin whose module has this name: `packed_pixi` is the environment `packed-pixi`."""
        return name.replace("_", "-") if self is PluginKind.ENVIRONMENT else name

    @property
    def group(self) -> str:
        """The group of entry points by which installed packages declare plugins of this kind."""
        return f"cenote.{self.plural}"

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages whose files are the built-in plugins of this kind. The first one has the kind's interface."""
        return tuple(f"cenote.{wing}.{self.plural}" for wing in _WINGS[self.value])


_COMPUTING, _RUNNING = ("analysis",), ("execution",)
_WINGS = {
    "operation": _COMPUTING,
    "source": _COMPUTING,
    "sink": _COMPUTING,
    "renderer": _COMPUTING,
    "modifier": _COMPUTING,
    "product": _COMPUTING,
    "backend": _RUNNING,
    "strategy": (*_RUNNING, "service"),
    "environment": _RUNNING,
    "credential": _RUNNING,
}
"""Kind → the parts of Cenote that have plugins of it."""
NOT_PLUGINS = frozenset({"interface", "support"})
"""In a plugin folder: what a plugin of the kind is, and what several of them share."""

PLANNED: dict[PluginKind, dict[str, str]] = {
    PluginKind.CREDENTIAL: {"kerberos": "Kerberos tickets for workers"},
}
"""Names the language knows already, and the later piece of work that makes them run."""


# Find the plugins that come with the package: modules and packages in the folder of their kind.


_SOURCES = Path(__file__).parents[3]
"""The folder that the package `cenote` lies in."""


@cache
def built_in(kind: PluginKind) -> dict[str, str]:
    """Name → module, from the modules and packages of the kind's folders."""
    return {
        kind.spelled(".".join(parts)): ".".join((package, *parts))
        for package in kind.packages
        for parts in _plugins_below(_SOURCES.joinpath(*package.split(".")))
    }


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
    found: type[Any] = getattr(importlib.import_module(f"{kind.packages[0]}.interface"), kind.value.capitalize())
    return found


# Find the plugins that other packages bring, by their entry points, without asking where nobody has any.


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

    return {point.name: point.value for point in entry_points(group=kind.group)}


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


# Import what somebody names: `module:object`.


def named_object(target: str, what: str, *, if_absent: str | None = None) -> Any:  # Any: whatever it is
    """What is called so. Raises `bad-plugin`, with the hint where a module is not there; `what` begins the message."""
    module_name, _, attribute = target.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Interrupted:
        raise
    except BaseException as problem:  # a module may raise anything, SystemExit included
        words = f"{what} ({target}) cannot be imported: {errors.words_of(problem)}"
        hint = if_absent if isinstance(problem, ImportError) else None
        raise errors.error(errors.BAD_PLUGIN, words, hint=hint) from problem
    return found
