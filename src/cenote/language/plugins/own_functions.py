"""Know the functions that a workflow brings for its expressions: `registry.functions`, name → `module:function`."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from cenote.common import errors
from cenote.common.values import dataclass
from cenote.language.plugins.imports import version_of
from cenote.language.plugins.kinds import named_object

KIND = "function"
"""The word for them where plugins of several kinds travel together."""
_TABLE = "cenote.analysis.expressions.functions"
"""Has the functions that expressions have themselves; imported where a workflow brings others."""


@dataclass(frozen=True)
class OwnFunction:
    """A function of somebody's: it takes columns, and gives one of as many events."""

    usage: str
    """How it is written: `scaled(pt, by)`."""
    call: Callable[..., Any]
    counts: tuple[int, ...]
    """How many values it takes; a last 0 means "or more"."""
    options: frozenset[str]
    """What may be given by name."""
    code: str
    """Changes when the code of its package does."""


_known: dict[str, OwnFunction] = {}
_taken: list[dict[str, tuple[tuple[int, ...], frozenset[str]]]] = [{}]
"""What all of them took, from change to change."""


def add(name: str, target: str) -> None:
    """Make `module:function` known in this process. Raises `bad-plugin`."""
    code = version_of(
        target.partition(":")[0].partition(".")[0]
    )  # before it is imported: a changed one is loaded again
    call = _imported(name, target)
    counts, options, usage = _signature(name, call)
    replace_all({**_known, name: OwnFunction(usage, call, counts, options, code)})


def is_built_in(name: str) -> bool:
    """Whether expressions have a function of this name themselves."""
    table: dict[str, object] = importlib.import_module(_TABLE).FUNCTIONS
    return name in table


def find(name: str) -> OwnFunction | None:
    """The function of this name."""
    return _known.get(name)


def generation() -> int:
    """Another number whenever an expression may be right that was wrong, or the other way round."""
    return len(_taken)


def names() -> tuple[str, ...]:
    """Of all that are known."""
    return tuple(_known)


def code_used_in(settings: object) -> list[list[str]]:
    """Name and code of those that are called anywhere in settings."""
    texts = list(_texts_in(settings)) if _known else []
    return [
        [KIND, name, one.code]
        for name, one in sorted(_known.items())
        if any(re.search(rf"\b{name}\s*\(", text) for text in texts)
    ]


def _texts_in(settings: object) -> Iterator[str]:
    """As they are written: in what `repr` makes of them, the `n` of a line's end begins a name."""
    if isinstance(settings, str):
        yield settings
    elif isinstance(settings, Mapping):
        for item in settings.items():
            yield from _texts_in(item)
    elif isinstance(settings, Iterable):
        for one in settings:
            yield from _texts_in(one)
    elif is_dataclass(settings):
        for part in fields(settings):
            yield from _texts_in(getattr(settings, part.name))


def replace_all(functions: dict[str, OwnFunction]) -> dict[str, OwnFunction]:
    """Know these and no others; gives those that were known."""
    before = dict(_known)
    _known.clear()
    _known.update(functions)
    _taken.append({name: (one.counts, one.options) for name, one in _known.items()})
    if _taken[-1] == _taken[-2]:
        _taken.pop()
    return before


def _imported(name: str, target: str) -> Callable[..., Any]:
    what = f"function '{name}'"
    absent = "install its package, or name its folder in PYTHONPATH"
    found = named_object(target, what, if_absent=absent)
    if not callable(found):
        raise errors.error(
            errors.BAD_PLUGIN, f"{what} ({target}) is not a function: it is of type {type(found).__name__}"
        )
    return found  # type: ignore[no-any-return]  # it can be called, which is all that is known of it


def _signature(name: str, call: Any) -> tuple[tuple[int, ...], frozenset[str], str]:
    """How many values it takes, what may be given by name, and how it is written."""
    if isinstance(of_numpy := getattr(call, "nin", None), int):
        return (of_numpy,), frozenset(), f"{name}({', '.join('xyzuvw'[:of_numpy])})"
    try:
        given = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):  # written in C, without one
        return (1, 0), frozenset(), f"{name}(x, …)"
    by_place = [one for one in given if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = sum(one.default is one.empty for one in by_place)
    options = frozenset(one.name for one in given if one.kind is one.KEYWORD_ONLY or _is_option(one))
    usage = f"{name}({', '.join(one.name for one in by_place)})"
    if any(one.kind is one.VAR_POSITIONAL for one in given):
        return (max(1, needed), 0), options, usage
    return tuple(range(max(1, needed), len(by_place) + 1)) or (1,), options, usage


def _is_option(one: inspect.Parameter) -> bool:
    return one.kind is one.POSITIONAL_OR_KEYWORD and one.default is not one.empty
