"""This file finds plugins by kind and name: built in, installed, or in a Python file beside the workflow.

Names are listed without importing anything; a plugin's file is imported when the plugin is first used.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from cenote import errors
from cenote.names import did_you_mean, listed
from cenote.plugins.kinds import INTERFACE_FILES, PLANNED, PluginKind
from cenote.plugins.shipped import SourceFile, modules_beside, spec_of

Factory = type[Any]
"""A plugin's class: called with its settings as keyword arguments."""

_added: dict[tuple[PluginKind, str], Factory] = {}
"""What plugin files and `registry:` entries brought in, in this process."""
_files: dict[str, SourceFile] = {}
"""Path of a plugin file → the file as it was when it was added last."""


def names(kind: PluginKind) -> tuple[str, ...]:
    """Every name of this kind that can be used now, sorted."""
    added = {name for of_kind, name in _added if of_kind is kind}
    return tuple(sorted({*_built_in(kind), *_installed(kind), *added}))


def built_in_names(kind: PluginKind) -> tuple[str, ...]:
    """The names of this kind that come with the package, whatever else is installed here; sorted."""
    return tuple(sorted(_built_in(kind)))


def is_planned(kind: PluginKind, name: str) -> str | None:
    """The later work that will bring this name, if it is known but not here yet."""
    return None if name in names(kind) else PLANNED.get(kind, {}).get(name)


def load(kind: PluginKind, name: str) -> Factory:
    """The plugin's class. Raises `unknown-operation` or `unknown-plugin` with the nearest name."""
    if (kind, name) in _added:
        return _added[kind, name]
    if name in _built_in(kind):
        return _built_in_class(kind, name)
    if name in _installed(kind):
        return _imported(kind, name, _installed(kind)[name])
    raise errors.CenoteError(unknown(kind, name))


def unknown(kind: PluginKind, name: str) -> errors.Problem:
    """The problem to report for a name that is not there."""
    later = is_planned(kind, name)
    if later:
        return errors.Problem(errors.NOT_AVAILABLE, f"not available yet: {kind.value} '{name}' comes with {later}")
    family = errors.UNKNOWN_OPERATION if kind is PluginKind.OPERATION else errors.UNKNOWN_PLUGIN
    known = names(kind)
    hint = did_you_mean(name, known)
    if hint is None and kind is PluginKind.OPERATION:
        hint = "name the Python file that defines it under `plugins:`"
    return errors.Problem(
        family, f"there is no {kind.value} '{name}'", details=(f"{kind.plural}: {listed(known)}",), hint=hint
    )


def add(kind: PluginKind, name: str, factory: Factory) -> None:
    """Make a plugin known in this process; the last one of a name wins."""
    _added[kind, name] = factory


def add_file(path: Path) -> ModuleType:
    """Import a plugin file; what it declares is known afterwards. Repeated calls import it once."""
    if not path.is_file():
        beside = [other.name for other in path.parent.glob("*.py")]
        hint = did_you_mean(path.name, beside)
        raise errors.error(errors.MISSING_FILE, f"plugin file {_shown(path)} does not exist", hint=hint)
    return add_source(SourceFile(str(path), path.read_bytes()))


def add_source(file: SourceFile) -> ModuleType:
    """The same for a plugin file that was read elsewhere; under the same path, so that its objects may travel too."""
    path = Path(file.path)
    name = f"cenote_plugin_{path.stem}_{hashlib.blake2b(file.source + file.path.encode(), digest_size=6).hexdigest()}"
    module = sys.modules[name] if name in sys.modules else _execute(name, file)
    _files[file.path] = file
    _add_declared(module)
    return module


def add_travelled(target: str, kind: str | None, name: str | None, sources: Iterable[SourceFile]) -> None:
    """Make known a plugin where its folder may not be: a file from the sources that came along, others by import."""
    file = next((one for one in sources if one.path == target and not one.module), None)
    if file is not None:
        add_source(file)
    else:
        add_import(target, kind=PluginKind(kind) if kind else None, name=name)


def sources_of(targets: Iterable[str]) -> tuple[SourceFile, ...]:
    """Plugin files that were added, as they were then, and the modules beside them that they import."""
    files = [_files[target] for target in targets if target in _files]
    beside = {one.module: one for file in files for one in modules_beside(Path(file.path))}
    return (*files, *beside.values())


def add_import(target: str, *, kind: PluginKind | None = None, name: str | None = None) -> None:
    """Make known a `module` with its declared plugins, or one `module:object` under the given kind and name."""
    if ":" in target and kind is not None and name is not None:
        add(kind, name, _imported(kind, name, target))
        return
    try:
        module = importlib.import_module(target)
    except Exception as problem:
        raise errors.error(
            errors.BAD_PLUGIN, f"plugin '{target}' cannot be imported: {type(problem).__name__}: {problem}"
        ) from problem
    _add_declared(module)


def _execute(name: str, file: SourceFile) -> ModuleType:
    path = Path(file.path)
    spec = spec_of(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        assert spec.loader is not None
        spec.loader.exec_module(module)
    except errors.CenoteError as problem:  # it declares nonsense, and that was explained
        del sys.modules[name]
        raise errors.CenoteError(one.at(_place_in(path, problem)) for one in problem.problems) from problem
    except Exception as problem:
        del sys.modules[name]
        words = problem.msg if isinstance(problem, SyntaxError) else str(problem)
        raise errors.error(
            errors.BAD_PLUGIN,
            f"plugin file {path.name} fails: {type(problem).__name__}: {words}",
            place=_place_in(path, problem),
        ) from problem
    finally:
        sys.path.remove(str(path.parent))
    return module


def _shown(path: Path) -> str:
    """As a person who works here would call it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _place_in(path: Path, problem: BaseException) -> errors.Place | None:
    if isinstance(problem, SyntaxError) and problem.filename == str(path) and problem.lineno:
        return errors.Place(_shown(path), problem.lineno, problem.offset or 1)
    step, line = problem.__traceback__, None
    while step is not None:
        if step.tb_frame.f_code.co_filename == str(path):
            line = step.tb_lineno
        step = step.tb_next
    return errors.Place(_shown(path), line, 1) if line else None


def _add_declared(module: ModuleType) -> None:
    """A class or function declares itself by carrying `cenote_plugin = (kind, name)`; decorators set it."""
    for value in list(vars(module).values()):
        declared = getattr(value, "cenote_plugin", None)
        if isinstance(declared, tuple) and len(declared) == 2:
            kind, name = declared
            add(PluginKind(kind), name, getattr(value, "cenote_factory", value))


@cache
def _built_in(kind: PluginKind) -> dict[str, str]:
    """Name → module, from the files of the kind's package."""
    root = Path(__file__).parent.parent / kind.plural
    found: dict[str, str] = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        if parts[-1] not in INTERFACE_FILES and not any(part.startswith("_") for part in parts):
            found[".".join(parts)] = ".".join((kind.package, *parts))
    return found


@cache
def _installed(kind: PluginKind) -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group=kind.entry_points)}


@cache
def _built_in_class(kind: PluginKind, name: str) -> Factory:
    module = importlib.import_module(_built_in(kind)[name])
    interface = _interface(kind)
    found = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, interface) and value.__module__ == module.__name__
    ]
    if len(found) != 1:
        raise TypeError(f"{module.__name__} must hold one {interface.__name__} class, it holds {len(found)}")
    return found[0]


def _interface(kind: PluginKind) -> type[Any]:
    """The class that all plugins of a kind derive from."""
    found: type[Any] = getattr(importlib.import_module(f"{kind.package}.interface"), kind.value.capitalize())
    return found


def _imported(kind: PluginKind, name: str, target: str) -> Factory:
    what = f"{kind.value} '{name}'"
    module_name, _, attribute = target.partition(":")
    try:
        value: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            value = getattr(value, part)
    except Exception as problem:
        raise errors.error(
            errors.BAD_PLUGIN, f"{what} ({target}) cannot be imported: {type(problem).__name__}: {problem}"
        ) from problem
    factory: Any = getattr(value, "cenote_factory", value)
    if inspect.isclass(factory) and issubclass(factory, _interface(kind)):
        return factory
    interface = _interface(kind)
    raise errors.error(
        errors.BAD_PLUGIN,
        f"{what} ({target}) is no {kind.value}: it is {_described(factory)}",
        hint="decorate the function with `@operation(...)`"
        if kind is PluginKind.OPERATION
        else f"write a class derived from {interface.__module__}.{interface.__name__}",
    )


def _described(value: object) -> str:
    """`a function`, `a class that is derived from nothing of ours`, `a module`."""
    if inspect.isclass(value):
        return "a class of another kind"
    return "a function" if callable(value) else f"of type {type(value).__name__}"


def forget_added(keep: Iterable[tuple[PluginKind, str]] = ()) -> Callable[[], None]:
    """Drop plugins added in this process (tests); returns a function that puts them back."""
    before = dict(_added)
    kept = set(keep)
    for key in [key for key in _added if key not in kept]:
        del _added[key]

    def restore() -> None:
        _added.clear()
        _added.update(before)

    return restore
