"""Let a function that was written for FAST-HEP be an operation, by the description that stands beside it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from pydantic import ConfigDict, Field, create_model

from cenote.analysis.expressions.parser import expression
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import DatasetInfo, Events, flat
from cenote.analysis.operations.support.own_code import field_name, fingerprint_of
from cenote.common import errors
from cenote.common.arrays import ak
from cenote.common.errors import CenoteError
from cenote.common.text import listed, with_article
from cenote.language.plugins.quantities import in_order, plain
from cenote.language.plugins.settings import Plugin

# Read the description that stands beside a function written for FAST-HEP: its settings, and the columns it names.


_SYMBOLS = ("field_list", "expr", "expr_or_field", "field_prefix")
"""Kinds of entries under `requires.symbols` and `provides.symbols` that are understood."""
_NOT_SETTINGS = ("ctx", "meta", "params", "kwargs", "_")
"""Parameters that are given to functions, or stand for all others."""
_INPUTS = {"transform": "stream", "sink": "target"}
"""Kind → what the function calls the events that it is given, unless its description says otherwise."""

FasthepPlugin = TypeVar("FasthepPlugin", bound="Described")


class Described(Plugin):
    """A plugin whose settings are those of a function, `f(*, <params>, ctx)`."""

    model_config = ConfigDict(protected_namespaces=())

    function: ClassVar[Callable[..., Any]]
    description: ClassVar[Mapping[str, Any]]
    """What FAST-HEP calls its spec."""
    field_names: ClassVar[dict[str, str]] = {}
    """Parameter → field, where a parameter is called like something that every plugin of the kind has."""
    word: ClassVar[str] = "operation"
    """What it becomes here."""
    given: ClassVar[tuple[str, ...]] = ()
    """Parameters that are no settings, but given to the function."""
    fingerprint: ClassVar[str] = ""
    """Changes when the source of the function does."""

    @property
    def params(self) -> dict[str, Any]:
        """The settings by the names that the function has for them."""
        return {name: getattr(self, field) for name, field in self.field_names.items()}

    def symbols(self, part: str) -> tuple[str, ...]:
        """The columns under `requires` or `provides`, each once."""
        return tuple(dict.fromkeys(self._symbols(part)))

    def _symbols(self, part: str) -> Iterator[str]:
        for rule in dict(self.description.get(part) or {}).get("symbols") or ():
            for value in _at(self.params, str(rule.get("from", "")).removeprefix("params.").split(".")):
                if rule.get("kind") in ("expr", "expr_or_field"):
                    yield from expression(str(value)).names
                elif rule.get("kind") == "field_prefix":
                    yield from (f"{value}_{suffix}" for suffix in rule.get("suffixes") or ())
                else:
                    yield str(value)

    def call(self, context: Mapping[str, Any], **given: Any) -> Any:
        """Call the function with its settings; it is told the context if it asks for it."""
        told = {name: value for name, value in (("ctx", dict(context)), ("meta", {})) if self.is_told(name)}
        return type(self).function(**given, **self.params, **told)

    @classmethod
    def is_told(cls, name: str) -> bool:
        """Whether the function asks for `ctx`, or for `meta`."""
        known = inspect.signature(cls.function).parameters
        return name in known or any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values())


def stream_of(returned: Any) -> Any:
    """The events that a function returned: as they are, under their name in a mapping, or as a mapping of columns."""
    if isinstance(returned, ak.Array) and returned.fields:
        return returned
    if isinstance(returned, Mapping):
        inner = [one for one in returned.values() if isinstance(one, Mapping | ak.Array)]
        if "stream" in returned or (len(returned) == 1 and inner):
            return stream_of(returned.get("stream", *inner))
        columns = {name: one for name, one in returned.items() if isinstance(one, list | np.ndarray | ak.Array)}
        if columns and len({len(one) for one in columns.values()}) == 1:
            return ak.zip(columns, depth_limit=1)
    raise TypeError(f"it returned a value of type {type(returned).__name__} where events are due")


def input_name(description: Mapping[str, Any]) -> str:
    """What the function calls the events that it is given."""
    usual = _INPUTS.get(str(description.get("kind")), "")
    return str(dict(description.get("input") or {}).get("name") or usual)


def described_as(
    base: type[FasthepPlugin],
    function: Callable[..., Any],
    name: str,
    *,
    kind: str,
    what: str,
    hint: str,
    description: Mapping[str, Any] | None,
) -> type[FasthepPlugin]:
    """A plugin of a function. Raises `bad-plugin` where nothing, or something that is not understood, is said of it."""
    description = description or _description(function, name, kind)
    if description is None:
        words = f"{what} is not {with_article(base.word)}: it is a function without a description"
        beside = f"describe it as FAST-HEP does: a mapping with name: {name}, kind: {kind}"
        raise errors.error(errors.BAD_PLUGIN, words, hint=f"{hint}, or {beside}")
    _demand_known(description, what)
    given = inspect.signature(function).parameters
    declared = {one: rule for one, rule in dict(description.get("params") or {}).items() if one not in base.given}
    own = [one for one in given if one not in (input_name(description), *_NOT_SETTINGS, *base.given)]
    names = dict.fromkeys([*declared, *(one for one in own if given[one].kind is inspect.Parameter.KEYWORD_ONLY)])
    field_names = {one: field_name(one, base) for one in names}
    fields: dict[str, Any] = {
        field_names[one]: (Any, Field(_default(one, declared, given), alias=one if field_names[one] != one else None))
        for one in names
    }
    doc = inspect.getdoc(function)
    made: Any = create_model(function.__name__, __base__=base, __module__=function.__module__, __doc__=doc, **fields)
    made.function, made.description, made.field_names = staticmethod(function), description, field_names
    made.fingerprint = fingerprint_of(function)
    found: type[FasthepPlugin] = made
    return found


def _at(value: Any, steps: Sequence[str]) -> Iterator[Any]:
    """The values at a path such as `reco.*`: of a list each of its items, of a mapping each of its keys."""
    if not steps:
        yield from value if isinstance(value, list | tuple | Mapping) else () if value is None else (value,)
    elif steps[0] == "*":
        for one in value.values() if isinstance(value, Mapping) else value or ():
            yield from _at(one, steps[1:])
    elif isinstance(value, Mapping) and steps[0] in value:
        yield from _at(value[steps[0]], steps[1:])


def _default(name: str, declared: Mapping[str, Any], given: Mapping[str, inspect.Parameter]) -> Any:
    said = declared.get(name)
    if isinstance(said, Mapping) and said.get("required"):
        return ...
    if isinstance(said, Mapping) and "default" in said:
        return said["default"]
    default = given[name].default if name in given else None
    return ... if default is inspect.Parameter.empty else default


def _description(function: Callable[..., Any], name: str, kind: str) -> Mapping[str, Any] | None:
    """The mapping of its module that has its name; else the only one that describes one of its kind, if it fits."""
    module = sys.modules.get(function.__module__)
    described = [one for one in vars(module).values() if isinstance(one, dict) and one.get("kind") == kind]
    named = [one for one in described if one.get("name") == name]
    if named or len(described) != 1:
        return named[0] if named else None
    taken = inspect.signature(function).parameters
    takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values())
    wanted = [input_name(described[0]), *dict(described[0].get("params") or {})]
    return described[0] if takes_all or all(one in taken for one in wanted if one) else None


def _demand_known(description: Mapping[str, Any], what: str) -> None:
    symbols = [
        rule for part in ("requires", "provides") for rule in dict(description.get(part) or {}).get("symbols") or ()
    ]
    odd = [rule.get("kind") for rule in symbols if rule.get("kind") not in _SYMBOLS]
    if odd:
        words = f"{what}: its description names columns by '{odd[0]}', which is not understood"
        raise CenoteError(errors.Problem(errors.BAD_PLUGIN, words, details=(f"understood: {listed(_SYMBOLS)}",)))


ROW = "_cenote_row"
"""A field that travels through the function: it says which events came out."""


class FasthepFunction(Described, Operation):
    """A function `f(*, stream, <params>, ctx) -> stream` of a package that was written for FAST-HEP."""

    def reads(self) -> tuple[str, ...]:
        """What the description requires; without that, everything."""
        if "requires" not in self.description:
            return tuple(self._columns)
        return self.symbols("requires")

    def adds(self) -> tuple[str, ...]:
        """What the description provides."""
        return self.symbols("provides")

    def sees(
        self,
        dataset: DatasetInfo,
        datasets: Sequence[str],  # noqa: ARG002  # it gets none
        constants: Mapping[str, Any],  # noqa: ARG002  # the same
    ) -> Mapping[str, Any]:
        """What it is told of the dataset, if it asks for that."""
        return {"dataset": in_order(plain(_context(dataset)))} if self.is_told("ctx") else {}

    def run(self, events: Events) -> Result:
        """Call it with a stream of the columns that it requires, and take what it provides."""
        wanted = self.reads() if "requires" in self.description else events.names
        given = {name: events[name] for name in wanted if name in events}
        stream = ak.zip({**given, ROW: np.arange(events.size)}, depth_limit=1)
        returned = stream_of(self.call(_context(events.dataset), **{input_name(self.description): stream}))
        rows = self._rows(returned, events.size)
        if missing := [name for name in self.adds() if name not in returned.fields]:
            raise TypeError(f"it did not return the column {listed(missing)}, which its description provides")
        kept = np.zeros(events.size, np.bool_)
        kept[rows] = True
        return Result(events.where(kept).with_columns({name: flat(returned[name]) for name in self.adds()}))

    def _rows(self, returned: Any, size: int) -> Any:
        """Which events came out, in their order."""
        if ROW not in returned.fields:
            if len(returned) == size:
                return np.arange(size)
            raise TypeError("it returned other rows in a new array: it is not known of which events they are")
        rows = ak.to_numpy(returned[ROW])
        if np.any(np.diff(rows) <= 0):
            raise TypeError("it changed the order of events, or repeated some")
        return rows


def _context(dataset: DatasetInfo) -> dict[str, Any]:
    """What it is told of the dataset."""
    facts = {"name": dataset.name, "eventtype": dataset.eventtype, **dataset.metadata}
    return {"dataset_name": dataset.name, "dataset": facts, "dataset_eventtype": dataset.eventtype}


def adapted(
    function: Callable[..., Any], name: str, what: str, description: Mapping[str, Any] | None = None
) -> type[FasthepFunction]:
    """An operation of a function. Raises `bad-plugin` where nothing, or something else, is said of it."""
    hint = "decorate it with `@operation(...)`"
    made = described_as(
        FasthepFunction, function, name, kind="transform", what=what, hint=hint, description=description
    )
    result = dict(made.description.get("result") or {})
    inner = [one.get("kind") for one in result.values() if isinstance(one, Mapping)]
    kinds = {*inner, *(one for one in result.values() if isinstance(one, str))}
    if result and "event_stream" not in kinds:
        words = f"{what} makes something else than events"
        raise errors.error(errors.BAD_PLUGIN, words, hint="write it as a product with `@operation(..., product=...)`")
    return made
