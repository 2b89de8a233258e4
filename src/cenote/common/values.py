"""Declare frozen values at a sixth of the price: a dataclass that shares with all others what need not be its own.

A dataclass of the standard library compiles six functions for every class, and a command declares two hundred of them
before it does anything. Here `__init__` alone is compiled. Everything else is as there: `fields`, `replace`, `match`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar

Declared = TypeVar("Declared", bound=type[Any])

_GIVEN = object()
"""Stands for what a factory makes where nothing is given."""


def _declared(
    cls: Declared | None = None,
    /,
    *,
    frozen: bool = False,
    eq: bool = True,
    repr: bool = True,  # noqa: A002  # as there
    **others: Any,
) -> Any:
    """As `dataclasses.dataclass`; what is not plainly frozen is left to it."""
    if cls is not None:
        return dataclasses.dataclass(cls)
    if not frozen or others:
        return dataclasses.dataclass(frozen=frozen, eq=eq, repr=repr, **others)

    def declare(cls: Declared) -> Declared:
        if not cls.__doc__:  # else the standard library would write one, of a signature that it parses
            cls.__doc__ = cls.__name__
        inherits = any(dataclasses.is_dataclass(base) for base in cls.__mro__[1:])
        dataclasses.dataclass(init=False, repr=False, eq=False, frozen=inherits)(cls)
        cls.__dataclass_params__.frozen = True
        _add(cls, "__init__", _init(cls))
        _add(cls, "__setattr__", _refused)
        _add(cls, "__delattr__", _refused)
        if repr:
            _add(cls, "__repr__", _shown)
        if eq:
            _add_equality(cls)
        return cls

    return declare


if TYPE_CHECKING:  # type checkers know what a dataclass is
    from dataclasses import dataclass as dataclass
else:
    dataclass = _declared


def _add(cls: type[Any], name: str, method: Callable[..., Any]) -> None:
    """Unless the class has its own."""
    if name not in cls.__dict__:
        setattr(cls, name, method)


def _add_equality(cls: type[Any]) -> None:
    own = cls.__dict__
    fields = dataclasses.fields(cls)
    cls.__compared__ = _getter([field.name for field in fields if field.compare])
    cls.__hashed__ = _getter([field.name for field in fields if (field.compare if field.hash is None else field.hash)])
    hashes = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
    _add(cls, "__eq__", _equal)  # which makes `__hash__` None where there is none
    if not hashes:
        cls.__hash__ = _hash  # type: ignore[assignment]  # a function becomes a method


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """The values of these fields as a tuple."""
    found = attrgetter(*names) if names else None
    if found is None:
        return staticmethod(lambda _: ())
    return staticmethod(found if len(names) > 1 else lambda value: (found(value),))


def _equal(self: Any, other: object) -> Any:  # Any: any value, and NotImplemented
    compared = type(self).__compared__
    return compared(self) == compared(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:  # Any: any value
    return hash(type(self).__hashed__(self))


@recursive_repr()
def _shown(self: Any) -> str:  # Any: any value
    shown = [f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refused(self: Any, name: str, *value: Any) -> None:  # Any: any value, and what it would hold
    """Of a value itself nothing changes; a class derived from it may have attributes of its own."""
    kind = type(self)
    if name in kind.__dataclass_fields__ or "__dataclass_fields__" in kind.__dict__:
        doing = "assign to" if value else "delete"
        raise dataclasses.FrozenInstanceError(f"cannot {doing} field {name!r}")
    if value:
        object.__setattr__(self, name, *value)
    else:
        object.__delattr__(self, name)


def _init(cls: type[Any]) -> Callable[..., None]:
    """Compiled: values are made by the thousand."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_given": _GIVEN}
    positional, named, body = ["self"], list[str](), list[str]()
    for field in dataclasses.fields(cls):
        given = _argument(field, known)
        if field.init:
            (named if field.kw_only else positional).append(given)
        if made := _made(field):
            body.append(f"_set(self, {field.name!r}, {made})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    arguments = [*positional, *(["*", *named] if named else [])]
    exec(f"def __init__({', '.join(arguments)}):\n " + "\n ".join(body or ["pass"]), known)
    init: Callable[..., None] = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    return init


def _argument(field: dataclasses.Field[Any], known: dict[str, Any]) -> str:
    """How a field stands in the signature; notes what its default is."""
    if field.default is not dataclasses.MISSING:
        known[f"_default_{field.name}"] = field.default
        return f"{field.name}=_default_{field.name}"
    if field.default_factory is not dataclasses.MISSING:
        known[f"_make_{field.name}"] = field.default_factory
        return f"{field.name}=_given"
    return field.name


def _made(field: dataclasses.Field[Any]) -> str:
    """What the field is set to; nothing where the class itself holds its value, or `__post_init__` sets it."""
    if field.default_factory is not dataclasses.MISSING:
        return (
            f"_make_{field.name}() if {field.name} is _given else {field.name}"
            if field.init
            else f"_make_{field.name}()"
        )
    return field.name if field.init else ""
