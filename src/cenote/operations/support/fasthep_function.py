"""Let a function that was written for FAST-HEP be an operation, by the description that stands beside it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from pydantic import ConfigDict, Field, create_model

from cenote import errors
from cenote.errors import CenoteError
from cenote.expressions.expression import expression
from cenote.jagged import ak
from cenote.names import listed
from cenote.operations.interface import Operation, Result
from cenote.operations.support.events import DatasetInfo, Events, flat
from cenote.operations.support.own_code import field_name, fingerprint_of

ROW = "_cenote_row"
"""A field that travels through the function: it says which events came out."""
_SYMBOLS = ("field_list", "expr", "expr_or_field", "field_prefix")
"""Kinds of entries under `requires.symbols` and `provides.symbols` that are understood."""


class FasthepFunction(Operation):
    """A function `f(*, stream, <params>, ctx) -> stream` of a package that was written for FAST-HEP."""

    model_config = ConfigDict(protected_namespaces=())

    function: ClassVar[Callable[..., Any]]
    description: ClassVar[Mapping[str, Any]]
    """What FAST-HEP calls its spec."""
    field_names: ClassVar[dict[str, str]] = {}
    """Parameter → field, where a parameter is called like something that every operation has."""

    @property
    def params(self) -> dict[str, Any]:
        """The settings by the names that the function has for them."""
        return {name: getattr(self, field) for name, field in self.field_names.items()}

    def reads(self) -> tuple[str, ...]:
        """What the description requires; without that, everything."""
        if "requires" not in self.description:
            return tuple(self._columns)
        return tuple(dict.fromkeys(self._symbols("requires")))

    def adds(self) -> tuple[str, ...]:
        """What the description provides."""
        return tuple(dict.fromkeys(self._symbols("provides")))

    def _symbols(self, part: str) -> Iterator[str]:
        for rule in dict(self.description.get(part) or {}).get("symbols") or ():
            for value in _at(self.params, str(rule.get("from", "")).removeprefix("params.").split(".")):
                if rule.get("kind") in ("expr", "expr_or_field"):
                    yield from expression(str(value)).names
                elif rule.get("kind") == "field_prefix":
                    yield from (f"{value}_{suffix}" for suffix in rule.get("suffixes") or ())
                else:
                    yield str(value)

    def run(self, events: Events) -> Result:
        """Call it with a stream of the columns that it requires, and take what it provides."""
        wanted = self.reads() if "requires" in self.description else events.names
        given = {name: events[name] for name in wanted if name in events}
        stream = ak.zip({**given, ROW: np.arange(events.size)}, depth_limit=1)
        returned = _stream_of(type(self).function(**self._arguments(stream, events.dataset)))
        rows = self._rows(returned, events.size)
        if missing := [name for name in self.adds() if name not in returned.fields]:
            raise TypeError(f"it did not return the column {listed(missing)}, which its description provides")
        kept = np.zeros(events.size, np.bool_)
        kept[rows] = True
        return Result(events.where(kept).with_columns({name: flat(returned[name]) for name in self.adds()}))

    def _arguments(self, stream: Any, dataset: DatasetInfo) -> dict[str, Any]:
        known = inspect.signature(type(self).function).parameters
        takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values())
        given = {_input_name(self.description): stream, **self.params}
        if takes_all or "ctx" in known:
            facts = {"name": dataset.name, "eventtype": dataset.eventtype, **dataset.metadata}
            given["ctx"] = {"dataset_name": dataset.name, "dataset": facts, "dataset_eventtype": dataset.eventtype}
        return given

    def _rows(self, returned: Any, size: int) -> Any:
        """Which events came out, in their order."""
        if ROW not in returned.fields:
            if len(returned) == size:
                return np.arange(size)
            raise TypeError("it returned fewer events in a new array: it is not known which ones")
        rows = ak.to_numpy(returned[ROW])
        if np.any(np.diff(rows) <= 0):
            raise TypeError("it changed the order of events, or repeated some")
        return rows


def _input_name(description: Mapping[str, Any]) -> str:
    return str(dict(description.get("input") or {}).get("name") or "stream")


def _stream_of(returned: Any) -> Any:
    """The stream, also where it stands in a mapping under its name."""
    while isinstance(returned, Mapping) and not isinstance(returned, ak.Array):
        if not returned:
            break
        returned = returned.get("stream", next(iter(returned.values())))
    if not isinstance(returned, ak.Array) or not returned.fields:
        raise TypeError(f"it returned a value of type {type(returned).__name__} where a stream of events is due")
    return returned


def _at(value: Any, steps: Sequence[str]) -> Iterator[Any]:
    """The values at a path such as `reco.*`: of a list each of its items, of a mapping each of its keys."""
    if not steps:
        yield from value if isinstance(value, list | tuple | Mapping) else () if value is None else (value,)
    elif steps[0] == "*":
        for one in value.values() if isinstance(value, Mapping) else value or ():
            yield from _at(one, steps[1:])
    elif isinstance(value, Mapping) and steps[0] in value:
        yield from _at(value[steps[0]], steps[1:])


def adapted(function: Callable[..., Any], name: str, what: str) -> type[FasthepFunction]:
    """An operation of a function. Raises `bad-plugin` where nothing, or something else, is said of it."""
    description = _description(function, name)
    if description is None:
        raise errors.error(
            errors.BAD_PLUGIN,
            f"{what} is no operation: it is a function without a description",
            hint=f"decorate it with `@operation(...)`, or describe it as FAST-HEP does: a mapping with name: {name}",
        )
    _demand_known(description, what)
    given = inspect.signature(function).parameters
    declared = dict(description.get("params") or {})
    own = [one for one in given if one not in (_input_name(description), "ctx", "params", "kwargs", "_")]
    names = dict.fromkeys([*declared, *(one for one in own if given[one].kind is inspect.Parameter.KEYWORD_ONLY)])
    field_names = {one: field_name(one, FasthepFunction) for one in names}
    fields: dict[str, Any] = {
        field_names[one]: (Any, Field(_default(one, declared, given), alias=one if field_names[one] != one else None))
        for one in names
    }
    doc = inspect.getdoc(function)
    made: Any = create_model(
        function.__name__, __base__=FasthepFunction, __module__=function.__module__, __doc__=doc, **fields
    )
    made.function, made.description, made.field_names = staticmethod(function), description, field_names
    made.fingerprint = fingerprint_of(function)
    found: type[FasthepFunction] = made
    return found


def _default(name: str, declared: Mapping[str, Any], given: Mapping[str, inspect.Parameter]) -> Any:
    said = declared.get(name)
    if isinstance(said, Mapping) and said.get("required"):
        return ...
    if isinstance(said, Mapping) and "default" in said:
        return said["default"]
    default = given[name].default if name in given else None
    return ... if default is inspect.Parameter.empty else default


def _description(function: Callable[..., Any], name: str) -> Mapping[str, Any] | None:
    """The mapping of its module that has its name; else the only one that describes a transform, if it fits."""
    module = sys.modules.get(function.__module__)
    described = [one for one in vars(module).values() if isinstance(one, dict) and one.get("kind") == "transform"]
    named = [one for one in described if one.get("name") == name]
    if named or len(described) != 1:
        return named[0] if named else None
    taken = inspect.signature(function).parameters
    takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values())
    wanted = [_input_name(described[0]), *dict(described[0].get("params") or {})]
    return described[0] if takes_all or all(one in taken for one in wanted) else None


def _demand_known(description: Mapping[str, Any], what: str) -> None:
    symbols = [
        rule for part in ("requires", "provides") for rule in dict(description.get(part) or {}).get("symbols") or ()
    ]
    odd = [rule.get("kind") for rule in symbols if rule.get("kind") not in _SYMBOLS]
    result = dict(description.get("result") or {})
    inner = [one.get("kind") for one in result.values() if isinstance(one, Mapping)]
    kinds = {*inner, *(one for one in result.values() if isinstance(one, str))}
    if odd:
        words = f"{what}: its description names columns by '{odd[0]}', which is not understood"
        raise CenoteError(errors.Problem(errors.BAD_PLUGIN, words, details=(f"understood: {listed(_SYMBOLS)}",)))
    if result and "event_stream" not in kinds:
        words = f"{what} makes something else than events"
        raise errors.error(errors.BAD_PLUGIN, words, hint="write it as a product with `@operation(..., product=...)`")
