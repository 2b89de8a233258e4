"""Find plugins by kind and name: built in, installed, or in a Python file beside the workflow.

Names are listed without importing anything; a plugin's file is imported when the plugin is first used.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from cenote import errors
from cenote.names import did_you_mean, listed
from cenote.plugins import resources
from cenote.plugins.imports import Imports, digest_of_code, is_beside, modules_in_package, version_of
from cenote.plugins.kinds import NOT_PLUGINS, PLANNED, PluginKind
from cenote.plugins.resources import ResourceFile
from cenote.plugins.shipped import SourceFile, bring_along, spec_of
from cenote.signals import Interrupted
from cenote.storage import staying_here

Factory = type[Any]
"""A plugin's class: called with its settings as keyword arguments."""

_OURS = "cenote"


@dataclass(frozen=True)
class PluginCode:
    """A plugin from beside the workflow, and all that it depends on, as they were when it was loaded."""

    files: tuple[SourceFile, ...]
    """What may declare plugins."""
    modules: tuple[SourceFile, ...]
    """What these import from beside them."""
    resources: tuple[ResourceFile, ...]
    digest: str
    found_late: tuple[str, ...] = ()
    """Modules that the sources do not name: they were seen only when it was loaded. Not empty for files too."""


_added: dict[tuple[PluginKind, str], Factory] = {}
"""What plugin files and `registry:` entries brought in, in this process."""
_own: dict[str, PluginCode] = {}
"""Path of a plugin file or package → its code as it was when it was added last."""
_codes: dict[tuple[PluginKind, str], str] = {}
"""Plugin → the digest of the code that brought it in."""


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


class BadSettingsError(errors.CenoteError):
    """Settings that a plugin does not take. The check of a workflow reports them with their place in the file."""


def make(kind: PluginKind, name: str, settings: Mapping[str, Any]) -> Any:  # Any: one of the kind's own type
    """A plugin with these settings. Raises BadSettingsError, and what `load` raises."""
    factory = load(kind, name)
    with _refusing(kind, name):
        return factory.model_validate(dict(settings))


@contextmanager
def _refusing(kind: PluginKind, name: str) -> Iterator[None]:
    from pydantic import ValidationError  # listing names must not pay for it

    try:
        yield
    except ValidationError as problem:
        words = f"{kind.value} '{name}' does not accept its settings: {problem.errors()[0]['msg']}"
        raise BadSettingsError(errors.Problem(errors.BAD_VALUE, words)) from problem


@contextmanager
def blamed(kind: PluginKind, name: str) -> Iterator[None]:
    """What somebody's plugin raises before anything runs, SystemExit included, is a `bad-plugin`; ours is our fault."""
    try:
        with _refusing(kind, name):
            yield
    except (errors.CenoteError, Interrupted):
        raise
    except BaseException as problem:
        if (kind, name) not in _added and name in _built_in(kind):
            raise
        words = f"{kind.value} '{name}' fails: {errors.words_of(problem)}"
        raise errors.error(errors.BAD_PLUGIN, words, place=_place_in_plugin(problem)) from problem


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


def add(kind: PluginKind, name: str, factory: Factory, *, code: str | None = None) -> None:
    """Make a plugin known in this process; the last one of a name wins.

    `code` is the digest of what it does; None leaves it at what is known of the name.
    """
    _added[kind, name] = factory
    if code is not None:
        _codes[kind, name] = code


def code_digest(kind: PluginKind, name: str) -> str:
    """Changes when the code of a plugin does, or anything that this depends on; empty for what is built in."""
    if (kind, name) in _added:
        return _codes.get((kind, name), "")
    if name not in _built_in(kind) and name in _installed(kind):
        return version_of(_top(_installed(kind)[name]))
    return ""


def add_file(path: Path) -> ModuleType:
    """Import a plugin file, or a package; what it declares is known afterwards. Repeated calls import it once, as long
    as nothing of it has changed."""
    if path.is_dir():
        return _add_own(str(path), _package(path), path)
    if not path.is_file():
        beside = [other.name for other in path.parent.glob("*.py")]
        hint = did_you_mean(path.name, beside)
        raise errors.error(errors.MISSING_FILE, f"plugin file {_shown(path)} does not exist", hint=hint)
    return _add_own(str(path), [SourceFile(str(path), path.read_bytes(), target=str(path))], path)


def _package(path: Path) -> list[SourceFile]:
    names = list(modules_in_package(path)) if path.name.isidentifier() else []
    imports = Imports(path.parent)
    for name in names:
        imports.add_module(name)
    if not names:
        raise errors.error(errors.BAD_PLUGIN, f"{_shown(path)} is no package: it holds no Python file")
    return [replace(imports.modules[name], target=str(path)) for name in (path.name, *names) if name in imports.modules]


def _add_own(target: str, files: list[SourceFile], path: Path) -> ModuleType:
    """Load a plugin from beside the workflow with the modules there, and keep what it depends on."""
    imports = Imports(path.parent)
    for file in files:
        imports.add(file)
    mine = {file.module: file for file in files if file.module}
    modules = {**imports.modules, **mine}
    first = digest_of_code(files, imports)
    before = _own.get(target)
    stem = f"cenote_plugin_{path.stem}_{hashlib.blake2b((first + target).encode(), digest_size=6).hexdigest()}"
    files = [file if file.module else replace(file, name=stem) for file in files]
    if before is not None and before.found_late:  # by loading it: so that is how to find them again
        for name in (stem, *before.found_late):
            sys.modules.pop(name, None)
    bring_along([*_unchanged_beside(path), *modules.values()])
    known = set(sys.modules)
    with resources.noting() as read:
        loaded = [_load_source(file) for file in files]
    imports.modules = dict(modules)
    for name in [name for name in sys.modules if name not in known and is_beside(name.partition(".")[0], path.parent)]:
        imports.add_module(name)
    imports.read.update(dict.fromkeys(read))
    late = tuple(name for name in imports.modules if name not in modules)
    _own[target] = PluginCode(
        files=tuple(files),
        modules=tuple(file for name, file in sorted(imports.modules.items()) if name not in mine),
        resources=resources.describe(imports.read),
        digest=digest_of_code(files, imports),
        found_late=late or (("",) if read else ()),
    )
    for module in loaded:
        _add_declared(module, _own[target].digest)
    return loaded[0]


def _unchanged_beside(path: Path) -> Iterator[SourceFile]:
    """What other plugins of the folder import: they may do so later, in a function."""
    for target, code in _own.items():
        if Path(target).parent == path.parent and Path(target) != path:
            yield from (one for one in code.modules if _is_unchanged(one))


def _is_unchanged(file: SourceFile) -> bool:
    path = Path(file.path)
    return path.is_dir() if path.suffix == "" else path.is_file() and path.read_bytes() == file.source


def add_source(file: SourceFile) -> ModuleType:
    """A plugin file that was read elsewhere; under the same path and name, so that its objects may travel too."""
    module = _load_source(file)
    _add_declared(module, None)
    return module


def _load_source(file: SourceFile) -> ModuleType:
    name = file.module or file.name
    if name in sys.modules:
        return sys.modules[name]
    if not file.module:
        return _execute(name, file)
    with _explained(Path(file.path)):
        return importlib.import_module(name)


def add_travelled(target: str, kind: str | None, name: str | None, sources: Iterable[SourceFile]) -> None:
    """Make known a plugin where its folder may not be: a file from the sources that came along, others by import."""
    files = [one for one in sources if one.target == target]
    for file in files:
        add_source(file)
    if not files:
        add_import(target, kind=PluginKind(kind) if kind else None, name=name)


def sources_of(targets: Iterable[str]) -> tuple[SourceFile, ...]:
    """The code of plugins from beside the workflow, as it was then, and the modules that they import."""
    found = [_own[target] for target in targets if target in _own]
    files = [file for code in found for file in code.files]
    named = {file.module for file in files}
    beside = {one.module: one for code in found for one in code.modules if one.module not in named}
    return (*files, *beside.values())


def resources_of(targets: Iterable[str]) -> tuple[ResourceFile, ...]:
    """The files that plugins from beside the workflow read."""
    found = [one for target in targets if target in _own for one in _own[target].resources]
    return tuple(dict.fromkeys(found))


def add_import(target: str, *, kind: PluginKind | None = None, name: str | None = None) -> None:
    """Make known a `module` with its declared plugins, or one `module:object` under the given kind and name."""
    if ":" in target and kind is not None and name is not None:
        code = _code_of(target)  # before it is imported: what has changed is loaded again
        add(kind, name, _imported(kind, name, target), code=code)
        return
    code = _code_of(target)
    try:
        module = importlib.import_module(target)
    except Interrupted:
        raise
    except BaseException as problem:  # a plugin may raise anything, SystemExit included
        raise errors.error(
            errors.BAD_PLUGIN, f"plugin '{target}' cannot be imported: {errors.words_of(problem)}"
        ) from problem
    _add_declared(module, code)


def _code_of(target: str) -> str:
    """The digest of installed code, by `module` or `module:object`."""
    return version_of(_top(target)) if _top(target) != _OURS else ""


def _top(target: str) -> str:
    return target.partition(":")[0].partition(".")[0]


def _execute(name: str, file: SourceFile) -> ModuleType:
    path = Path(file.path)
    spec = spec_of(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _explained(path):
            assert spec.loader is not None
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """While a plugin is loaded: modules beside it can be imported, what goes wrong is told with its place, and the
    working directory stays: names of data and of the output folder count from it."""
    sys.path.insert(0, str(path.parent))
    try:
        with staying_here():
            yield
    except errors.CenoteError as problem:  # it declares nonsense, and that was explained
        raise errors.CenoteError(one.at(_place_in(path, problem)) for one in problem.problems) from problem
    except Interrupted:
        raise
    except BaseException as problem:  # a plugin may raise anything, SystemExit included
        told = (
            f"{type(problem).__name__}: {problem.msg}" if isinstance(problem, SyntaxError) else errors.words_of(problem)
        )
        raise errors.error(
            errors.BAD_PLUGIN,
            f"plugin file {path.name} fails: {told}",
            place=_place_in(path, problem),
        ) from problem
    finally:
        sys.path.remove(str(path.parent))


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


def _place_in_plugin(problem: BaseException) -> errors.Place | None:
    """Where in a plugin file, if it was there."""
    return next((place for path in _own_files() if (place := _place_in(Path(path), problem))), None)


def _own_files() -> Iterator[str]:
    yield from (file.path for code in _own.values() for file in (*code.files, *code.modules))


def _add_declared(module: ModuleType, code: str | None) -> None:
    """A class or function declares itself by carrying `cenote_plugin = (kind, name)`; decorators set it."""
    for value in list(vars(module).values()):
        declared = getattr(value, "cenote_plugin", None)
        if isinstance(declared, tuple) and len(declared) == 2:
            kind, name = declared
            factory = getattr(value, "cenote_factory", value)
            add(PluginKind(kind), name, _checked(PluginKind(kind), factory, f"{kind} '{name}'"), code=code)


@cache
def _built_in(kind: PluginKind) -> dict[str, str]:
    """Name → module, from the modules and packages of the kind's folder."""
    root = Path(__file__).parent.parent / kind.plural
    return {".".join(parts): ".".join((kind.package, *parts)) for parts in _plugins_below(root)}


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
def _installed(kind: PluginKind) -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group=kind.entry_points)}


@cache
def _built_in_class(kind: PluginKind, name: str) -> Factory:
    module = importlib.import_module(_built_in(kind)[name])
    interface = _interface(kind)
    found = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, interface)
        and f"{value.__module__}.".startswith(f"{module.__name__}.")
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
    except Interrupted:
        raise
    except BaseException as problem:
        raise errors.error(
            errors.BAD_PLUGIN, f"{what} ({target}) cannot be imported: {errors.words_of(problem)}"
        ) from problem
    return _checked(kind, getattr(value, "cenote_factory", value), f"{what} ({target})")


def _checked(kind: PluginKind, factory: Any, what: str) -> Factory:  # Any: whatever somebody declared
    """A class of the kind with every method that the kind asks for; raises `bad-plugin` for anything else."""
    interface = _interface(kind)
    if inspect.isclass(factory) and issubclass(factory, interface):
        if missing := sorted(getattr(factory, "__abstractmethods__", ())):
            raise errors.error(
                errors.BAD_PLUGIN,
                f"{what} has no method {listed(f'`{name}`' for name in missing)}",
                hint=f"see {interface.__module__}.{interface.__name__}",
            )
        return factory
    raise errors.error(
        errors.BAD_PLUGIN,
        f"{what} is no {kind.value}: it is {_described(factory)}",
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
