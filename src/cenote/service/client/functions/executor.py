"""An executor of `concurrent.futures` whose calls are made on the workers of a pool."""

from __future__ import annotations

import atexit
import itertools
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, Protocol, TypeVar

from cenote.common import errors
from cenote.service.client.functions.calls import CallPace, CallTerms, PoolCall, name_of
from cenote.service.client.functions.dispatcher import Dispatcher
from cenote.service.client.functions.mapping import MapTerms

P = ParamSpec("P")
Value = TypeVar("Value")
_REMEMBERED = 64
"""Functions whose calls are sent together."""
_open: weakref.WeakSet[PoolExecutor] = weakref.WeakSet()


class HasDispatcher(Protocol):
    """A pool that was submitted, or can be."""

    def dispatcher(self) -> Dispatcher:
        """The way of calls to it."""
        ...


class PoolExecutor(Executor):
    """Calls functions on a pool. Waits for all calls when it is used with `with`, and at the end of the program."""

    def __init__(self, pool: HasDispatcher, *, timeout: float | None = None, retries: int = 0) -> None:
        asked = MapTerms(timeout=timeout, retries=retries).checked()
        self._limit, self._retries = asked.timeout, asked.retries
        self._dispatcher = pool.dispatcher()
        self._dispatcher.check()
        self._terms: OrderedDict[Callable[..., Any], CallTerms] = OrderedDict()
        self._is_shut = False
        _open.add(self)

    def submit(self, fn: Callable[P, Value], /, *args: P.args, **kwargs: P.kwargs) -> Future[Value]:
        """Make one call. What cannot travel is an exception of the future."""
        call = PoolCall(self._terms_of(fn), f"the call of {name_of(fn)}", args, kwargs)
        self._add([call])
        return call.future

    def map(
        self,
        fn: Callable[..., Value],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 0,
        buffersize: int | None = None,
    ) -> Iterator[Value]:
        """As the built-in `map`, in order. All calls are made at once, unless `buffersize` says how many results may
        wait to be taken. `chunksize` 0 is chosen by how long calls take; `timeout` is how long this program waits."""
        if buffersize is not None and buffersize < 1:
            raise errors.error(errors.BAD_VALUE, f"`buffersize` should be at least 1, not {buffersize}")
        if chunksize < 0:
            raise errors.error(errors.BAD_VALUE, f"`chunksize` should not be negative, and is {chunksize}")
        until = None if timeout is None else time.monotonic() + timeout
        terms = CallTerms(
            fn, f"map of {name_of(fn)}", pace=CallPace(chunksize or None), limit=self._limit, retries=self._retries
        )
        numbered = enumerate(zip(*iterables, strict=False))
        calls = (PoolCall(terms, f"item {number} of {terms.title}", given, {}) for number, given in numbered)
        first = list(itertools.islice(calls, buffersize))
        self._add(first)
        return self._taken([call.future for call in first], calls, until)

    def _taken(self, futures: list[Future[Value]], calls: Iterator[PoolCall], until: float | None) -> Iterator[Value]:
        futures.reverse()
        try:
            while futures:
                future = futures.pop()
                value = future.result(None if until is None else until - time.monotonic())
                if (more := next(calls, None)) is not None:
                    self._add([more])
                    futures.insert(0, more.future)
                yield value
        finally:
            for left in futures:
                left.cancel()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # its words
        """No more calls. Those that were submitted are made, unless `cancel_futures` drops what has not been sent."""
        self._is_shut = True
        if cancel_futures:
            for call in self._dispatcher.waiting():
                call.future.cancel()
        self._dispatcher.close(wait=wait)
        if wait:
            _open.discard(self)

    def _add(self, calls: list[PoolCall]) -> None:
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        self._dispatcher.add(calls)

    def _terms_of(self, function: Callable[..., Any]) -> CallTerms:
        """Calls of one function are sent together, and have one pace."""
        try:
            found = self._terms.get(function)
        except TypeError:  # it has no hash
            return CallTerms(function, name_of(function), limit=self._limit, retries=self._retries)
        if found is None:
            found = self._terms[function] = CallTerms(
                function, name_of(function), limit=self._limit, retries=self._retries
            )
            while len(self._terms) > _REMEMBERED:
                self._terms.popitem(last=False)
        self._terms.move_to_end(function)
        return found


@atexit.register
def _shut_down_all() -> None:
    """Programs that forget to: their calls are made before they end, as those of other executors."""
    for executor in list(_open):
        executor.shutdown()
