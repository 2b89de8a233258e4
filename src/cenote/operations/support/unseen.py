"""Keep from own code what it does not name: its results are taken to be the same whatever that is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

from cenote.operations.support.events import Events
from cenote.plugins.mentions import WORDS


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
