"""Hold calls of functions on their way to a pool and back."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from cenote.client.functions.call_files import SentFunction
from cenote.client.functions.pace import CallPace
from cenote.client.functions.pickling import sent_function

# Any: functions of users, their arguments and what they return


def name_of(function: Any) -> str:
    """As its author calls it. Raises TypeError where it is no function."""
    if not callable(function):
        raise TypeError(f"{function!r} cannot be called")
    found = getattr(function, "__qualname__", None) or getattr(getattr(function, "func", None), "__qualname__", None)
    return str(found or type(function).__qualname__).rpartition("<locals>.")[2]


@dataclass(eq=False)
class CallTerms:
    """What calls of one function share."""

    function: Callable[..., Any]
    title: str
    """How tasks are called that make them."""
    pace: CallPace = field(default_factory=CallPace)
    limit: float | None = None
    """Seconds for one call."""
    retries: int = 0
    """How often a call is made again that failed."""
    show: bool = False
    """Whether what calls print is shown."""
    sent: SentFunction | None = None
    """Where it was pickled already."""
    abandoned: bool = False
    """Whether nobody wants what is left."""

    def pickled(self) -> SentFunction:
        """The function, as it is now or was when it was pickled. Raises NotPicklableError."""
        return self.sent or sent_function(self.function, self.title)


@dataclass(eq=False)
class PoolCall:
    """One call, and who waits for it."""

    terms: CallTerms
    label: str
    """How errors call it."""
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    future: Future[Any] = field(default_factory=Future)
    failures: int = 0

    def fail(self, problem: BaseException) -> bool:
        """It failed; whether it should be made again."""
        self.failures += 1
        if self.failures <= self.terms.retries and not self.terms.abandoned:
            return True
        self.future.set_exception(problem)
        return False
