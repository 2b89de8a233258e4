"""Look at people's own functions and classes: their parameters, how to call them, a hash of their source."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any, get_type_hints

from cenote import errors
from cenote.plugins.imports import meaning_of
from cenote.values import dataclass

Parameters = Mapping[str, tuple[Any, Any]]
"""Name → (type, default); `...` where there is no default."""


@dataclass(frozen=True)
class OwnCode:
    """A function or class, ready to be called with the params of a stage."""

    source: Any
    parameters: Parameters
    for_instance: frozenset[str]
    """Parameters that go to the constructor of a class."""
    for_call: frozenset[str]
    """Parameters that go to each call."""
    attributes: frozenset[str] = frozenset()
    """Parameters that are set on the instance of a class without a constructor of its own."""

    def ready(self, params: Mapping[str, Any]) -> Callable[[Any], Any]:
        """What takes events: the function, or a prepared instance, with the params bound."""
        called = {name: params[name] for name in self.for_call}
        if not inspect.isclass(self.source):
            return lambda events: self.source(events, **called)
        instance: Any = self.source(**{name: params[name] for name in self.for_instance})
        for name in self.attributes:
            setattr(instance, name, params[name])
        prepare: Callable[[], None] | None = getattr(instance, "prepare", None)
        if prepare is not None:
            prepare()
        run: Any = getattr(instance, "run", instance)  # a method, or the instance itself if it can be called
        return lambda events: run(events, **called)

    def of_params(self, function: Callable[..., Iterable[str]], params: Mapping[str, Any]) -> Iterable[str]:
        """Call a function of the params: it takes them as one mapping, or by name."""
        wanted = list(inspect.signature(function).parameters.values())
        if len(wanted) == 1 and wanted[0].name not in params and wanted[0].kind is not inspect.Parameter.VAR_KEYWORD:
            return function(params)
        if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in wanted):
            return function(**params)
        return function(**{parameter.name: params[parameter.name] for parameter in wanted if parameter.name in params})


def own_code(what: str, source: Any) -> OwnCode:
    """Look at a function or class. Raises `bad-plugin` when it cannot be called as an operation is."""
    if not inspect.isclass(source):
        called = _after_events(what, source, skip=1)
        return OwnCode(source, called, frozenset(), frozenset(called))
    run = getattr(source, "run", None) or vars(source).get("__call__")
    if run is None:
        raise _bad(what, source, "needs a method run(self, events)")
    called = _after_events(what, run, skip=2)
    if "__init__" in vars(source):
        made = parameters_of(what, source.__init__, skip=1)
        return OwnCode(source, {**made, **called}, frozenset(made), frozenset(called))
    hints = _hints(what, source)
    attributes = {name: (hint, getattr(source, name, ...)) for name, hint in hints.items() if not name.startswith("_")}
    return OwnCode(source, {**attributes, **called}, frozenset(), frozenset(called), frozenset(attributes))


def _after_events(what: str, function: Any, *, skip: int) -> Parameters:
    given = list(inspect.signature(function).parameters.values())
    if len(given) < skip or given[skip - 1].kind is inspect.Parameter.KEYWORD_ONLY:
        raise _bad(what, function, "must take the events as its first argument")
    return parameters_of(what, function, skip=skip)


def parameters_of(what: str, function: Any, *, skip: int) -> Parameters:
    """The parameters of a function after the first ones, which are no settings. Raises `bad-plugin`, which begins with
    `what`, for those that cannot be checked."""
    hints = _hints(what, function)
    found: dict[str, tuple[Any, Any]] = {}
    for parameter in list(inspect.signature(function).parameters.values())[skip:]:
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise _bad(what, function, f"has '{parameter}': name its parameters, so that they can be checked")
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        found[parameter.name] = (hints.get(parameter.name, _type_of(default)), default)
    return found


def _type_of(default: Any) -> Any:
    """The type that a default suggests; a whole number stays one, and nothing is guessed from None."""
    return Any if default is ... or default is None else type(default)


def _hints(what: str, source: Any) -> dict[str, Any]:
    try:
        return get_type_hints(source, include_extras=True)
    except NameError as problem:
        raise _bad(what, source, f"has an annotation that cannot be read: {problem}") from problem


def field_name(parameter: str, parent: type[Any]) -> str:
    """The field of a parameter: its own name, unless every plugin of the kind has something of that name."""
    taken = hasattr(parent, parameter) or parameter.startswith(("_", "model_"))
    return f"param_{parameter.lstrip('_')}" if taken else parameter


def fingerprint_of(source: Any) -> str:
    """Of the whole file, so that a change of anything that Python does in it counts as a change of the operation."""
    try:
        file = inspect.getsourcefile(source)
        text = Path(file).read_bytes() if file and Path(file).is_file() else dedent(inspect.getsource(source)).encode()
        text = meaning_of(text)
    except (OSError, TypeError):  # typed at a prompt: there is no source to look at
        code = getattr(source, "__code__", None)
        text = code.co_code + repr(code.co_consts).encode() if code else repr(source).encode()
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def _bad(what: str, source: Any, lacks: str) -> errors.CenoteError:
    code = getattr(source, "__code__", None)
    place = errors.Place(code.co_filename, code.co_firstlineno, 1) if code else None
    name = getattr(source, "__qualname__", repr(source))
    return errors.error(errors.BAD_PLUGIN, f"{what}: {name} {lacks}", place=place)
