"""Call a function for each of many items on a pool, in bounded memory."""

from __future__ import annotations

import atexit
import itertools
import queue
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import Future
from typing import Any, TypeVar

from cenote.common import errors
from cenote.common.text import plural
from cenote.common.values import dataclass
from cenote.service.client.functions.calls import CallPace, CallTerms, PoolCall, name_of
from cenote.service.client.functions.dispatcher import Dispatcher

Item = TypeVar("Item")
Value = TypeVar("Value")
_SAY_EVERY = 1.0
"""Seconds between two lines of progress."""


@dataclass(frozen=True)
class MapTerms:
    """How the items of one map are treated."""

    chunksize: int | None = None
    ordered: bool = True
    return_exceptions: bool = False
    timeout: float | None = None
    """Seconds for one item."""
    retries: int = 0
    progress: bool = False
    show: bool = False

    def checked(self) -> MapTerms:
        """Raises where they make no sense."""
        if self.chunksize is not None and self.chunksize < 1:
            raise errors.error(errors.BAD_VALUE, f"`chunksize` should be at least 1, not {self.chunksize}")
        if self.timeout is not None and self.timeout <= 0:
            raise errors.error(errors.BAD_VALUE, f"`timeout` should be more than 0 seconds, not {self.timeout}")
        if self.retries < 0:
            raise errors.error(errors.BAD_VALUE, f"`retries` should not be negative, and is {self.retries}")
        return self


def mapped(
    dispatcher: Dispatcher, function: Callable[[Item], Value], items: Iterable[Item], asked: MapTerms
) -> MapResults[Value]:
    """Results of all items. Raises at once where the function cannot travel."""
    asked.checked()
    dispatcher.check()
    terms = CallTerms(
        function,
        f"map of {name_of(function)}",
        pace=CallPace(asked.chunksize),
        limit=asked.timeout,
        retries=asked.retries,
        show=asked.show,
    )
    terms.sent = terms.pickled()
    count = len(items) if isinstance(items, Sized) else None
    progress = _Progress(terms.title, count) if asked.progress else None
    results: MapResults[Value] = MapResults(dispatcher, terms, iter(items), asked, progress)
    results.feed()
    return results


class MapResults(Iterator[Value]):
    """What a function returns for each item. What is left when nobody takes results any more is stopped."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        terms: CallTerms,
        items: Iterator[Any],  # Any: items of users
        asked: MapTerms,
        progress: _Progress | None,
    ) -> None:
        self._dispatcher, self._terms, self._items, self._asked = dispatcher, terms, items, asked
        self._progress = progress
        self._numbers = itertools.count()
        self._kept = 0
        """Items that were taken, and whose results were not."""
        self._in_order: deque[Future[Any]] = deque()
        self._as_they_come: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        self._is_open = True
        _open.add(self)

    def feed(self) -> None:
        """Take items, as many as there is room for."""
        room = self._terms.pace.kept(self._dispatcher.window) - self._kept
        calls = []
        for item in itertools.islice(self._items, max(0, room)):
            label = f"item {next(self._numbers)} of {self._terms.title}"
            call = PoolCall(self._terms, label, (item,), {})
            if self._asked.ordered:
                self._in_order.append(call.future)
            else:
                call.future.add_done_callback(self._as_they_come.put)
            calls.append(call)
        self._kept += len(calls)
        self._dispatcher.add(calls)

    def __next__(self) -> Value:
        try:
            self.feed()
            if not self._kept:
                raise StopIteration
            future = self._in_order.popleft() if self._asked.ordered else self._as_they_come.get()
            problem = future.exception()
            if problem is not None and not self._asked.return_exceptions:
                if isinstance(problem, StopIteration):  # it would end the loop over the results, as if they were all
                    raise RuntimeError(f"a call of {self._terms.title} raised StopIteration") from problem
                raise problem
        except BaseException:
            self.close()
            raise
        self._kept -= 1
        if self._progress is not None:
            self._progress.note(failed=problem is not None)
        found: Any = future.result() if problem is None else problem  # Any: or an exception, where that was asked for
        return found  # type: ignore[no-any-return]

    def close(self) -> None:
        """Stop what is left; closing twice is not an error."""
        if self._is_open:
            self._is_open, self._kept, self._items = False, 0, iter(())
            self._dispatcher.abandon(self._terms)
            self._dispatcher.close(wait=False)
            if self._progress is not None:
                self._progress.say()

    def __del__(self) -> None:
        self.close()


_open: weakref.WeakSet[MapResults[Any]] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Results that a program did not take before its end are not wanted."""
    for results in list(_open):
        results.close()


class _Progress:
    """Says on stderr how far a map is, now and then."""

    def __init__(self, title: str, count: int | None) -> None:
        self._title, self._count = title, count
        self._done = self._failed = 0
        self._said = time.monotonic()

    def note(self, failed: bool) -> None:
        self._done += 1
        self._failed += failed
        if time.monotonic() - self._said > _SAY_EVERY:
            self.say()

    def say(self) -> None:
        """Say it now."""
        self._said = time.monotonic()
        of = plural(self._done, "item") if self._count is None else f"{self._done} of {plural(self._count, 'item')}"
        sys.stderr.write(f"{self._title}: {of} done" + (f", {self._failed} failed\n" if self._failed else "\n"))
