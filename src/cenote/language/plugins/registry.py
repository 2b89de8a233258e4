"""Find plugins by kind and name, and ask backends and strategies what they are capable of.

Names are listed without importing anything; a plugin's file is imported when the plugin is first used.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from cenote.common import errors
from cenote.common.errors import CenoteError
from cenote.common.signals import Interrupted
from cenote.common.text import did_you_mean, listed, with_article
from cenote.language.plugins import own_files, own_functions
from cenote.language.plugins.imports import version_of
from cenote.language.plugins.kinds import (
    PLANNED,
    PluginKind,
    built_in,
    built_in_class,
    installed,
    interface_of,
    named_object,
)
from cenote.language.plugins.shipped import SourceFile

Factory = type[Any]
"""A plugin's class: called with its settings as keyword arguments."""

_OURS = "cenote"
_ADAPTERS = {
    kind: f"{kind.packages[0]}.support.fasthep_function"
    for kind in (PluginKind.OPERATION, PluginKind.SOURCE, PluginKind.SINK)
}
"""Make plugins of functions that were written for FAST-HEP; imported where there is one."""
DESCRIBED_BY = " described by "
"""Stands in a target between `module:function` and the `module:object` that describes it, where that is elsewhere."""

_added: dict[tuple[PluginKind, str], Factory] = {}
"""What plugin files and `registry:` entries brought in, in this process."""
_codes: dict[tuple[PluginKind, str], str] = {}
"""Plugin → the digest of the code that brought it in."""


def names(kind: PluginKind) -> tuple[str, ...]:
    """Every name of this kind that can be used now, sorted."""
    added = {name for of_kind, name in _added if of_kind is kind}
    return tuple(sorted({*built_in(kind), *installed(kind), *added}))


def built_in_names(kind: PluginKind) -> tuple[str, ...]:
    """The names of this kind that come with the package, whatever else is installed here; sorted."""
    return tuple(sorted(built_in(kind)))


def is_planned(kind: PluginKind, name: str) -> str | None:
    """The later work that will bring this name, if it is known but not here yet."""
    return None if name in names(kind) else PLANNED.get(kind, {}).get(name)


def load(kind: PluginKind, name: str) -> Factory:
    """The plugin's class. Raises `unknown-operation` or `unknown-plugin` with the nearest name."""
    if (kind, name) in _added:
        return _added[kind, name]
    if name in built_in(kind):
        return built_in_class(kind, name)
    if name in installed(kind):
        return _imported(kind, name, installed(kind)[name])
    raise errors.CenoteError(unknown(kind, name))


class BadSettingsError(errors.CenoteError):
    """Settings that a plugin does not take. The check of a workflow reports them with their place in the file."""


def make(kind: PluginKind, name: str, settings: Mapping[str, Any]) -> Any:  # Any: one of the kind's own type
    """A plugin with these settings. Raises BadSettingsError, and what `load` raises."""
    factory = load(kind, name)
    with _refusing(kind, name):
        return factory.model_validate(dict(settings))


def make_typed(kind: PluginKind, spec: Mapping[str, Any]) -> Any:  # Any: as above
    """A plugin that a mapping names by its `type`, with the keys beside it as settings. Raises what `make` raises."""
    return make(kind, spec["type"], {name: value for name, value in spec.items() if name != "type"})


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
    """What a user's plugin raises before anything runs, SystemExit included, is a `bad-plugin`; ours is our fault."""
    try:
        with _refusing(kind, name):
            yield
    except (errors.CenoteError, Interrupted):
        raise
    except BaseException as problem:
        if (kind, name) not in _added and name in built_in(kind):
            raise
        words = f"{kind.value} '{name}' fails: {errors.words_of(problem)}"
        raise errors.error(errors.BAD_PLUGIN, words, place=own_files.place_in_plugin(problem)) from problem


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


def has_foreign() -> bool:
    """Whether code that does not come with this package was made known, or may have been imported, in this process."""
    return bool(_added or own_functions.names()) or any(installed(kind) for kind in PluginKind)


def code_digest(kind: PluginKind, name: str) -> str:
    """Changes when the code of a plugin does, or anything that this depends on; empty for what is built in."""
    if (kind, name) in _added:
        return _codes.get((kind, name), "")
    if name not in built_in(kind) and name in installed(kind):
        return version_of(_top(installed(kind)[name]))
    return ""


def add_file(path: Path) -> ModuleType:
    """Import a plugin file, or a package; what it declares is known afterwards."""
    modules, code = own_files.load_file(path)
    mentions = own_files.mentions_of(str(path))
    for module in modules:
        _add_declared(module, code, mentions)
    return modules[0]


def add_travelled(target: str, kind: str | None, name: str | None, sources: Iterable[SourceFile]) -> None:
    """Make known a plugin where its folder may not be: a file from the sources that came along, others by import."""
    if kind == own_functions.KIND and name is not None:
        own_functions.add(name, target)
        return
    files = [one for one in sources if one.target == target]
    for file in files:
        _add_declared(own_files.load_source(file), None, file.mentions)
    if not files:
        add_import(target, kind=PluginKind(kind) if kind else None, name=name)


def add_import(target: str, *, kind: PluginKind | None = None, name: str | None = None) -> None:
    """Make known a `module` with its declared plugins, or one `module:object` under the given kind and name."""
    code = _code_of(target)  # before it is imported: what has changed is loaded again
    if ":" in target and kind is not None and name is not None:
        add(kind, name, _imported(kind, name, target), code=code)
        return
    try:
        module = importlib.import_module(target)
    except Interrupted:
        raise
    except BaseException as problem:  # a plugin may raise anything, SystemExit included
        raise errors.error(
            errors.BAD_PLUGIN, f"plugin '{target}' cannot be imported: {errors.words_of(problem)}"
        ) from problem
    _add_declared(module, code, None)


def _code_of(target: str) -> str:
    """The digest of installed code, by `module` or `module:object`."""
    return version_of(_top(target)) if _top(target) != _OURS else ""


def _top(target: str) -> str:
    return target.partition(":")[0].partition(".")[0]


def _add_declared(module: ModuleType, code: str | None, mentions: tuple[str, ...] | None) -> None:
    """A class or function declares itself by carrying `cenote_plugin = (kind, name)`; decorators set it."""
    for value in list(vars(module).values()):
        declared = getattr(value, "cenote_plugin", None)
        if isinstance(declared, tuple) and len(declared) == 2:
            word, name = declared
            kind = next((one for one in PluginKind if one.value == word), None)
            if kind is None:
                known = [one.value for one in PluginKind]
                what = f"'{word}', which {module.__name__} declares for '{name}', is not a kind of plugin"
                hint = did_you_mean(str(word), known)
                raise errors.error(errors.BAD_PLUGIN, what, details=(f"kinds: {listed(known)}",), hint=hint)
            factory = getattr(value, "cenote_factory", value)
            checked: Any = _checked(kind, factory, f"{word} '{name}'")
            checked.mentions = mentions
            add(kind, name, checked, code=code)


def _imported(kind: PluginKind, name: str, target: str) -> Factory:
    what = f"{kind.value} '{name}'"
    written, _, described_by = target.partition(DESCRIBED_BY)
    value = named_object(written, what)
    if kind in _ADAPTERS and inspect.isfunction(value) and not hasattr(value, "cenote_factory"):
        adapter: Any = importlib.import_module(_ADAPTERS[kind])
        description = named_object(described_by, f"the description of {what}") if described_by else None
        with blamed(kind, name):
            return cast(Factory, adapter.adapted(value, name, f"{what} ({written})", description))
    return _checked(kind, getattr(value, "cenote_factory", value), f"{what} ({written})")


def _checked(kind: PluginKind, factory: Any, what: str) -> Factory:  # Any: whatever somebody declared
    """A class of the kind with every method that the kind asks for; raises `bad-plugin` for anything else."""
    interface = interface_of(kind)
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
        f"{what} is not {with_article(kind.value)}: it is {_described(factory)}",
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
    before, functions = dict(_added), own_functions.replace_all({})
    kept = set(keep)
    for key in [key for key in _added if key not in kept]:
        del _added[key]

    def restore() -> None:
        _added.clear()
        _added.update(before)
        own_functions.replace_all(functions)

    return restore


# Ask backends and strategies what they are, so that their names decide nothing.


def runs_here(backend: str) -> bool:
    """Whether a backend runs all tasks on this machine, whatever the strategies of its pools."""
    return _is(PluginKind.BACKEND, backend, "runs_here")


def shares_process(backend: str) -> bool:
    """Whether the tasks that a worker of this backend runs at once share its process."""
    return _is(PluginKind.BACKEND, backend, "shares_process")


def starts_here(strategy: str) -> bool:
    """Whether a strategy starts workers as processes of this machine, instead of jobs of a batch system."""
    return _is(PluginKind.STRATEGY, strategy, "starts_here")


def _is(kind: PluginKind, name: str, capability: str) -> bool:
    """What the class says; no for one that cannot be loaded, which is refused where it is needed."""
    try:
        return bool(getattr(load(kind, name), capability, False))
    except (CenoteError, ImportError):
        return False
