"""Send calls to a pool as instances of tasks, so many at a time, and bring back how they ended.

Two threads: one sends what waits, together as far as it belongs to one function, the other asks the service what ended.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from cenote.common import errors
from cenote.service.client.asking import POLL_SECONDS, create, named, post, send_files
from cenote.service.client.functions.call_files import PYTHON
from cenote.service.client.functions.calls import CallFolder, CallTerms, PoolCall, SentCalls, pickled
from cenote.service.client.line import Line
from cenote.service.client.python_call import PythonCall
from cenote.service.client.records import (
    AwaitedInstances,
    EndedInstance,
    EndedInstances,
    LivePoolRecord,
    NewTask,
    QueuedTaskRecord,
    ServiceRecord,
)

Answer = TypeVar("Answer")
_AHEAD, _FEWEST_AHEAD = 3, 32
"""Instances under way for each slot, and at least."""
_TOGETHER = 4
"""So many tasks make up what is under way, where enough waits: a task costs more than an instance."""
_LOOK_EVERY = 5.0
"""Seconds between two looks at the size of the pool."""
_PATIENCE = 30.0
"""Seconds in which a service that does not answer may come back."""
_MOST_BYTES = 32 * 1024 * 1024
"""Of the calls of one task."""


class _GoneError(Exception):
    """The service went while something was read from it."""


class Dispatcher:
    """The way of calls to one pool. It begins with the first call."""

    def __init__(self, line: Line, pool: str) -> None:
        self._line, self._pool = line, pool
        self._changed = threading.Condition(threading.RLock())
        self._waiting: OrderedDict[CallTerms, deque[PoolCall]] = OrderedDict()
        self._sent: dict[str, SentCalls] = {}
        self._posting = threading.Lock()
        """Held from a request for a task until it is in `_sent`: whoever looks there finds all that the service has."""
        self._threads: list[threading.Thread] = []
        self._folder: CallFolder | None = None
        self._sending = False
        """Whether calls are neither in `_waiting` nor in `_sent`, but on their way."""
        self._closed = False
        self._slots, self._looked = 1, 0.0
        self._process = os.getpid()

    @property
    def window(self) -> int:
        """Instances that are under way at once."""
        return max(_AHEAD * self._slots, _FEWEST_AHEAD)

    def check(self) -> None:
        """Raises where functions of this program cannot run there: workers have the service's Python."""
        there = self._line.get("/service", ServiceRecord).python_version
        if there != PYTHON:
            raise errors.error(
                errors.BAD_ENVIRONMENT,
                f"this program runs Python {PYTHON}, and the workers of the service Python {there}: "
                "functions travel as bytecode, which only the same minor version runs",
                hint="start this program, or the service, with the other one's Python; "
                "commands (`create_task`) run whatever the versions are",
            )
        self._look_at_pool()

    def add(self, calls: Iterable[PoolCall], *, first: bool = False) -> None:
        """Make these calls, in order where they are of one function; `first` puts them before those that wait."""
        with self._changed:
            for call in calls:
                line = self._waiting.setdefault(call.terms, deque())
                line.appendleft(call) if first else line.append(call)
            if not self._threads and self._waiting:
                self._begin()
            self._changed.notify_all()

    def waiting(self) -> list[PoolCall]:
        """Calls that were not sent."""
        with self._changed:
            return [call for line in self._waiting.values() for call in line]

    def abandon(self, terms: CallTerms) -> None:
        """Nobody wants these any more: what waits is dropped, what runs is stopped."""
        with self._changed:
            terms.abandoned = True
            for call in self._waiting.pop(terms, ()):
                call.future.cancel()
            tasks = [task for task, sent in self._sent.items() if sent.terms is terms]
            self._changed.notify_all()
        for task in tasks:
            with suppress(errors.CenoteError):
                self._line.post(f"/tasks/{task}/cancel", QueuedTaskRecord)

    def close(self, *, wait: bool) -> None:
        """No more calls; those that are here are made, and waited for if asked to."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if wait and self._process == os.getpid():
            for thread in self._threads:
                if thread is not threading.current_thread():
                    thread.join()

    def _begin(self) -> None:
        self._folder = CallFolder()
        for work in (self._send, self._collect):
            thread = threading.Thread(target=work, name=f"cenote calls {self._pool}", daemon=True)
            self._threads.append(thread)
            thread.start()

    # there

    def _send(self) -> None:
        while (batch := self._next_batch()) is not None:
            terms, chunks = batch
            try:
                self._post(terms, chunks)
            except Exception as problem:  # whatever it is, somebody waits for these calls
                for call in (call for chunk in chunks for call in chunk):
                    if not call.future.done():
                        call.future.set_exception(problem)
            with self._changed:
                self._sending = False
                self._changed.notify_all()
        self._line.close()

    def _next_batch(self) -> tuple[CallTerms, list[list[PoolCall]]] | None:
        """Calls that are sent together now; None when there will be none."""
        with self._changed:
            while (room := self._room()) < self._fewest():
                if self._closed and not self._waiting and not self._sent:
                    return None
                self._changed.wait()
            terms = next(iter(self._waiting))
            line = self._waiting[terms]
            size = terms.pace.chunk_of(len(line), self._slots)
            chunks: list[list[PoolCall]] = []
            while line and len(chunks) < room:
                chunk = [line.popleft() for _ in range(min(size, len(line)))]
                chunks.append([call for call in chunk if _begins(call)])
            if line:
                self._waiting.move_to_end(terms)
            else:
                del self._waiting[terms]
            self._sending = True
            return terms, [chunk for chunk in chunks if chunk]

    def _fewest(self) -> int:
        """Instances that are worth a task now; more than there can be where nothing waits."""
        if not self._waiting:
            return self.window + 1
        terms, line = next(iter(self._waiting.items()))
        return min(-(-len(line) // terms.pace.chunk), self.window // _TOGETHER)

    def _room(self) -> int:
        return max(0, self.window - sum(len(sent.chunks) for sent in self._sent.values()))

    def _post(self, terms: CallTerms, chunks: list[list[PoolCall]]) -> None:
        assert self._folder is not None, "it has begun"
        self._look_at_pool()
        ready: list[list[PoolCall]] = []
        data: list[bytes] = []
        left = deque(chunks)
        while left and sum(len(content) for content in data) < _MOST_BYTES:
            chunk, content = pickled(left.popleft())
            if chunk:
                ready.append(chunk)
                data.append(content)
        if not ready:
            return
        function, calls = self._folder.function(terms), self._folder.calls(data)
        count = sum(map(len, ready))
        resources, uploads = self._line.carry_out(send_files([str(function), str(calls)]))
        asked = NewTask(
            name=terms.title if count == 1 else f"{terms.title} × {count}",
            pool=self._pool,
            instances=len(ready),
            python=PythonCall(function=function.name, calls=calls.name, limit=terms.limit),
            resources=resources,
            uploads=uploads,
        )
        new = create("/tasks", QueuedTaskRecord, asked)
        with self._posting:
            record = self._patiently(lambda: self._line.ask(new))
            with self._changed:
                self._sent[record.id] = SentCalls(record.id, terms, dict(enumerate(ready)), calls)
                self._changed.notify_all()
        self.add(reversed([call for chunk in left for call in chunk]), first=True)
        if terms.abandoned:
            self.abandon(terms)

    def _look_at_pool(self) -> None:
        """How many slots it has, or will have."""
        if self._looked and time.monotonic() - self._looked < _LOOK_EVERY:
            return
        pool, self._looked = self._line.get(f"/pools/{named(self._pool)}", LivePoolRecord), time.monotonic()
        workers = pool.elastic.max if pool.elastic else pool.wanted
        self._slots = max(1, pool.slots * (workers or pool.workers))

    # and back

    def _collect(self) -> None:
        added = -1
        while (awaited := self._awaited()) is not None:
            try:
                asked = AwaitedInstances(tasks=awaited, added=added, seconds=POLL_SECONDS)
                answer = self._patiently(partial(self._ask, asked))
                added = answer.added
                with suppress(_GoneError):  # then it is asked again
                    self._take(answer.ended)
            except Exception as problem:  # whatever it is, somebody waits for these calls
                self._fail(problem)
        self._line.close()
        if self._folder is not None:
            self._folder.remove()

    def _awaited(self) -> dict[str, tuple[int, ...]] | None:
        """Instances that calls come back from; None when there are none any more."""
        with self._changed:
            while not self._sent:
                if self._closed and not self._waiting and not self._sending:
                    return None
                self._changed.wait()
        with self._posting, self._changed:
            return {task: tuple(sent.chunks) for task, sent in self._sent.items()}

    def _ask(self, asked: AwaitedInstances) -> EndedInstances:
        return self._line.ask(replace(post("/tasks/ended-instances", EndedInstances, asked), wait=asked.seconds))

    def _patiently(self, ask: Callable[[], Answer]) -> Answer:
        """The answer of a service, which may be started again meanwhile: to a request that may be repeated."""
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                return ask()
            except errors.CenoteError as problem:
                if not _is_gone(problem) or time.monotonic() > until:
                    raise
                time.sleep(0.2)

    def _take(self, ended: Sequence[EndedInstance]) -> None:
        for sent in {one.task: self._sent[one.task] for one in ended}.values():
            if sent.terms.show:
                sent.show(self._line)
        for one in ended:
            sent = self._sent[one.task]
            try:
                again = sent.take(self._line, one)
            except errors.CenoteError as problem:
                if _is_gone(problem):
                    raise _GoneError from problem
                raise
            with self._changed:
                if not sent.terms.abandoned:
                    self.add(reversed(again), first=True)
                if not sent.chunks:
                    del self._sent[one.task]
                self._changed.notify_all()
            if not sent.chunks:
                sent.forget(self._line)

    def _fail(self, problem: Exception) -> None:
        with self._changed:
            lost, self._sent = list(self._sent.values()), {}
            self._changed.notify_all()
        for sent in lost:
            sent.fail(problem)


def _is_gone(problem: errors.CenoteError) -> bool:
    """Whether no service answered."""
    return problem.problems[0].kind is errors.NO_SERVICE


def _begins(call: PoolCall) -> bool:
    """Whether somebody still wants it; one that is made again has begun."""
    return bool(call.failures) or call.future.running() or call.future.set_running_or_notify_cancel()
