"""Hold tasks back while a credential that they need has ended, until there is a new one: they would only fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import msgspec

from cenote.backends.interface import Session
from cenote.backends.support.outcomes import withdrawn
from cenote.engine.messages import AnyEvent, PoolHeld, TaskFailed, Warned
from cenote.runs.credentials import NamedCredential
from cenote.runtime.credential_watch import CredentialWatch
from cenote.text import clock_time
from cenote.worker.task_spec import TaskSpec

_LATE = 30.0
"""Seconds after a new credential came in which a task may still fail for the want of it: it had tried for a while."""


class CredentialGate(Session):
    """A session whose tasks wait here while a credential of their pool has ended."""

    def __init__(self, inner: Session, watch: CredentialWatch, clock: Callable[[], float]) -> None:
        self._inner, self._watch, self._clock = inner, watch, clock
        self.manages_workers = inner.manages_workers
        self._held: dict[int, tuple[TaskSpec, str]] = {}
        """Task → what is to be run, and in which pool."""
        self._closed: set[str] = set()
        """Pools whose tasks wait."""
        self._opened: dict[str, float] = {}
        """Pool → when its tasks last had to wait no longer."""
        self._events: list[AnyEvent] = []

    def run(self, spec: TaskSpec, pool: str) -> None:
        if spec.kind == "run" and self._is_closed(pool):  # a merge reads no data
            self._held[spec.task] = (spec, pool)
        else:
            self._inner.run(spec, pool)

    def cancel(self, task: int) -> None:
        if task in self._held:
            spec, pool = self._held.pop(task)
            self._events.append(withdrawn(spec, at=self._clock(), pool=pool))
        else:
            self._inner.cancel(task)

    def events(self, seconds: float) -> list[AnyEvent]:
        news = self._inner.events(0.0 if self._events else seconds)
        renewed = self._watch.news()
        for pool in tuple(self._closed):
            self._is_closed(pool)
        for task in [task for task, (_, pool) in self._held.items() if pool not in self._closed]:
            self._inner.run(*self._held.pop(task))
        events, self._events = self._events, []
        return [*renewed, *events, *(self._excused(event) for event in news)]

    def start_workers(self, pool: str, count: int) -> None:
        self._inner.start_workers(pool, count)

    def stop_workers(self, pool: str, workers: tuple[str, ...], reason: str) -> None:
        self._inner.stop_workers(pool, workers, reason)

    def end_workers(self, pool: str, workers: tuple[str, ...], reason: str) -> None:
        self._inner.end_workers(pool, workers, reason)

    def forget(self, names: Sequence[str]) -> None:
        self._inner.forget(names)

    def close(self) -> None:
        with ExitStack() as at_last:
            at_last.callback(self._inner.close)
            self._watch.stop()

    def _is_closed(self, pool: str) -> bool:
        ended = self._watch.ended(pool)
        if ended is not None and pool not in self._closed:
            self._closed.add(pool)
            now, words = self._clock(), self._in_words(ended)
            self._events.append(PoolHeld(at=now, pool=pool, reason=words))
            self._events.append(Warned(at=now, message=f"tasks of pool '{pool}' wait: {words}"))
        elif ended is None and pool in self._closed:
            self._closed.remove(pool)
            self._opened[pool] = self._clock()
            self._events.append(PoolHeld(at=self._opened[pool], pool=pool))
        return ended is not None

    def _in_words(self, ended: NamedCredential) -> str:
        facts = ended.facts()
        at = clock_time(facts.ends, now=self._clock()) if facts and facts.ends else "now"
        where = f" in {facts.found}" if facts else ""
        return f"the credential '{ended.type}' ended {at}, and there is no new one{where}"

    def _excused(self, event: AnyEvent) -> AnyEvent:
        """A task that could not read its data because of that is tried again, as if its worker had been lost."""
        if not isinstance(event, TaskFailed) or event.failure.cause != "bad_input":
            return event
        if not self._is_closed(event.pool) and event.at - self._opened.get(event.pool, -_LATE) >= _LATE:
            return event
        return msgspec.structs.replace(event, failure=msgspec.structs.replace(event.failure, cause="lost"))
