"""Look at own functions: parameters, what they declare, their code; keep from them what they do not name."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from textwrap import dedent
from typing import Any, NoReturn, get_type_hints

import numpy as np

from cenote.analysis.expressions.arrays import is_on_device, on_host
from cenote.analysis.operations.support.evaluation import event_column
from cenote.analysis.operations.support.events import Column, Events, NoColumnError
from cenote.common import errors
from cenote.common.arrays import ak
from cenote.common.text import listed
from cenote.common.values import dataclass
from cenote.language.plugins.imports import meaning_of
from cenote.language.plugins.own_files import WORDS

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


# Compare what own code returns with what it declared, and say the difference in the author's words.


class ReturnedWrongError(TypeError):
    """Own code returned something else than it declared."""


@dataclass(frozen=True)
class Declared:
    """What a call may read and must return."""

    operation: str
    stage: str
    reads: tuple[str, ...]
    adds: tuple[str, ...]
    filters: bool
    product: bool

    @property
    def in_words(self) -> str:
        """`columns a, b; one boolean per event`."""
        words = [f"columns {', '.join(self.adds)}"] if self.adds else []
        words += ["one boolean per event"] if self.filters else []
        words += ["a product"] if self.product else []
        return "; ".join(words) or "nothing"

    def wrong(self, what: str) -> ReturnedWrongError:
        """An error that names the stage, the operation and the declaration."""
        return ReturnedWrongError(
            f"operation '{self.operation}' of stage '{self.stage}' {what}; it declares {self.in_words}"
        )

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Adds to an error about a missing column that only declared ones are handed over."""
        try:
            yield
        except NoColumnError as problem:
            problem.add_note(
                f"'{self.operation}' receives only the columns it declares, reads={list(self.reads)}: add it there"
            )
            raise


@dataclass(frozen=True)
class Returned:
    """What came back, taken apart."""

    columns: Mapping[str, Column] = field(default_factory=dict)
    mask: Column | None = None
    product: Any | None = None


def parts_of(value: Any, declared: Declared, events: Events) -> Returned:
    """Take apart what was returned. Raises ReturnedWrongError when it is not what was declared."""
    wanted = [bool(declared.adds), declared.filters, declared.product]
    if not any(wanted):
        return Returned() if value is None else _undeclared(value, declared, events)
    values = value if sum(wanted) > 1 else (value,)
    if not isinstance(values, tuple) or len(values) != sum(wanted):
        raise declared.wrong(f"returned {_kind(value)} where a tuple of {sum(wanted)} is expected")
    remaining = iter(values)
    return Returned(
        columns=_columns(next(remaining), declared, events) if declared.adds else {},
        mask=_mask(next(remaining), declared, events) if declared.filters else None,
        product=_product(next(remaining), declared) if declared.product else None,
    )


def _undeclared(value: Any, declared: Declared, events: Events) -> Returned:
    """A mask needs no declaration: nothing else looks like one."""
    if (isinstance(value, np.ndarray | ak.Array) or is_on_device(value)) and "bool" in str(
        getattr(value, "dtype", ak.type(value))
    ):
        return Returned(mask=_mask(value, declared, events))
    if isinstance(value, Mapping):
        raise declared.wrong(f"returned the columns {listed(map(str, value))}: name them under adds=")
    raise declared.wrong(f"returned {_kind(value)}: declare adds=, filter=True or product=")


def _columns(value: Any, declared: Declared, events: Events) -> Mapping[str, Column]:
    if not isinstance(value, Mapping):
        raise declared.wrong(f"returned {_kind(value)} where a mapping of columns is expected")
    if missing := [name for name in declared.adds if name not in value]:
        raise declared.wrong(f"did not return the column {listed(missing)}")
    if extra := [str(name) for name in value if name not in declared.adds]:
        raise declared.wrong(f"returned the column {listed(extra)} too")
    return {name: _column(name, value[name], declared, events) for name in declared.adds}


def _column(name: str, value: Any, declared: Declared, events: Events) -> Column:
    column = np.asarray(value) if isinstance(value, list | tuple) and not any(_nested(v) for v in value) else value
    column = ak.Array(column) if isinstance(column, list | tuple) else column
    try:
        return event_column(column, events, f"column '{name}'")
    except (ValueError, TypeError) as problem:
        raise declared.wrong(f"returned a wrong column: {problem}") from None


def _nested(value: Any) -> bool:
    return value is None or isinstance(value, list | tuple | np.ndarray)


def _mask(value: Any, declared: Declared, events: Events) -> Column:
    mask = np.asarray(on_host(value))
    if mask.dtype != np.bool_ or mask.shape != (events.size,):
        raise declared.wrong(
            f"returned {mask.dtype} of shape {mask.shape} where {events.size} booleans are due, one per event"
        )
    return mask


def _product(value: Any, declared: Declared) -> Any:
    if value is None:
        raise declared.wrong("returned None where a product is expected: is a 'return' missing?")
    return value


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a value of type {type(value).__name__}"


# Keep from own code what it does not name: its results are taken to be the same whatever that is.


class LooksUnnamedError(TypeError):
    """Own code looked at something that its source does not name."""


class Unseen:
    """Stands in the place of an attribute of events. It holds nothing; whoever looks at it is told so."""

    __slots__ = ("_looked", "_message")

    def __init__(self, message: str, looked: list[str] | None = None) -> None:
        self._message = message
        self._looked = [] if looked is None else looked

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)  # what Python asks of any object
        self._refuse()

    def _refuse(self, *_: object) -> NoReturn:
        self._looked.append(self._message)
        raise LooksUnnamedError(self._message)

    @property  # type: ignore[misc]  # for `isinstance`, which would say no
    def __class__(self) -> type:
        self._refuse()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Unseen, (self._message,)


for _name in ("str", "repr", "format", "bool", "len", "iter", "contains", "getitem", "eq", "ne", "lt", "gt", "hash"):
    setattr(Unseen, f"__{_name}__", Unseen._refuse)  # noqa: SLF001  # its own


@contextmanager
def seeing_only(named: Collection[str] | None, events: Events, operation: str) -> Iterator[Events]:
    """The events for code that names these attributes (None: nobody knows). Raises LooksUnnamedError after code that
    looked at others, also where it has caught that."""
    if named is None:
        yield events
        return
    looked: list[str] = []
    hidden = {
        word: Unseen(
            f"operation '{operation}' looks at `events.{word}`, which its code does not name: write `events.{word}` "
            "there, so that results of another one are not taken for its own",
            looked,
        )
        for word in WORDS
        if word not in named
    }
    changes: dict[str, Any] = {**hidden, "live": None}  # Any: these are none of their types
    yield replace(events, **changes)
    if looked:
        raise LooksUnnamedError(looked[0])
