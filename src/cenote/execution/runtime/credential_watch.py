"""Watch the credentials of a run: send and renew them, and hold tasks back while one that they need has ended."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import msgspec

from cenote.common.errors import SHORT_CREDENTIAL, CenoteError, printable, words_of
from cenote.common.text import clock_time
from cenote.engine.messages import AnyEvent, CredentialRenewed, PoolHeld, TaskFailed, Warned
from cenote.execution.backends.interface import EventSource, Session
from cenote.execution.backends.support.outcomes import withdrawn
from cenote.execution.credentials.interface import CredentialFacts
from cenote.execution.runs.credentials import NamedCredential, RunCredentials
from cenote.execution.runs.horizon import Horizon
from cenote.execution.worker.process.credentials import DeliveredCredential
from cenote.execution.worker.task_spec import TaskSpec

LOOK_EVERY = 5.0
"""Seconds between two looks at the credentials: a file that changed is with the workers soon after."""
RENEW_AGAIN = 60.0
"""Seconds between two renewals, at most; those of a short life come sooner."""

Deliver = Callable[[str, Sequence[DeliveredCredential]], None]
"""Sends the workers of a pool what they have from now on."""


@dataclass
class _WatchedCredential:
    """A credential, and what workers have of it."""

    named: NamedCredential
    sent: DeliveredCredential | None = None
    facts: CredentialFacts | None = None
    refused: bytes = field(default=b"", repr=False)
    """Contents that were warned of; they may become usable, by chmod."""
    renew_at: float = 0.0
    """No renewal before then."""

    def has_ended(self, now: float) -> bool:
        """Whether the one that workers have is of no use any more."""
        return self.facts is not None and self.facts.ends is not None and self.facts.ends <= now


class CredentialWatch:
    """Looks at the files in a thread of its own, for they may hang; what follows is done by who calls `news`."""

    def __init__(
        self,
        credentials: RunCredentials,
        pools: Sequence[str],
        deliver: Deliver,
        horizon: Callable[[], Horizon],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._pools = {pool: credentials.of(pool) for pool in pools}
        self._watched = {id(one): _WatchedCredential(one) for one in credentials.all}
        self._deliver, self._horizon, self._clock = deliver, horizon, clock
        self._news: queue.SimpleQueue[AnyEvent] = queue.SimpleQueue()
        self._warned: set[str] = set()
        self._ending: set[tuple[str, float | None]] = set()
        """Types and ends of those that were warned of."""
        self._compare_at = 0.0
        """When to look again whether one ends too soon."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="credential-watch", daemon=True)

    def start(self) -> None:
        """Send workers what there is, and watch from now on. Raises what is wrong with reading them."""
        for one in self._watched.values():
            one.sent, one.facts = one.named.delivered(), one.named.facts()
        for pool in self._pools:
            self._send(pool)
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._over.set()

    def news(self) -> list[AnyEvent]:
        """What changed since the last time, after workers were sent it."""
        events: list[AnyEvent] = []
        while not self._news.empty():
            event = self._news.get()
            if isinstance(event, CredentialRenewed):
                for pool, credentials in self._pools.items():
                    if any(one.type == event.credential for one in credentials):
                        self._send(pool)
            events.append(event)
        return [*events, *self._warnings()]

    def ended(self, pool: str) -> NamedCredential | None:
        """A credential of this pool that has ended, and of which there is no new one yet."""
        now = self._clock()
        return next((one for one in self._pools[pool] if self._watched[id(one)].has_ended(now)), None)

    def _send(self, pool: str) -> None:
        sent = [self._watched[id(one)].sent for one in self._pools[pool]]
        if found := [one for one in sent if one is not None]:
            self._deliver(pool, found)

    def _warnings(self) -> list[Warned]:
        """Of those whose end comes before that of the work; each end is warned of once."""
        now = self._clock()
        if now < self._compare_at:
            return []
        self._compare_at = now + LOOK_EVERY
        ahead, found = self._horizon(), []
        for one in self._watched.values():
            if one.facts is None or one.named.credential.renews or (one.named.type, one.facts.ends) in self._ending:
                continue
            if words := ahead.too_soon(one.named.type, one.facts):
                self._ending.add((one.named.type, one.facts.ends))
                found.append(Warned(at=now, message=words))
        return found

    # in the thread

    def _watch(self) -> None:
        while not self._over.wait(LOOK_EVERY):
            for one in self._watched.values():
                try:
                    self._look(one)
                except Exception as problem:  # of a plugin, or its file system: there is time to try again
                    self._warn(f"the credential '{one.named.type}' cannot be read now: {_in_words(problem)}")

    def _look(self, one: _WatchedCredential) -> None:
        credential = one.named.credential
        now = self._clock()
        ends = one.facts.ends if one.facts else None
        if credential.renews and ends is not None and ends - now < credential.renew_before and now >= one.renew_at:
            assert one.facts is not None
            one.renew_at = now + renewal_pause(one.facts, now)
            self._renew(one)
        found = one.named.delivered()
        if found is None and one.sent is not None:
            self._warn(f"the credential '{one.named.type}' is gone: workers keep the one that they have")
        if found is None or found == one.sent:
            return
        facts, problems = one.named.facts(), one.named.check(now)
        if unusable := [problem for problem in problems if problem.kind is not SHORT_CREDENTIAL]:
            if found.content != one.refused:
                one.refused = found.content
                self._warn(f"workers keep the credential '{one.named.type}' that they have: {unusable[0].message}")
            return
        if one.named.delivered() != found:  # it is being written: what was checked is not what was read
            return
        one.sent, one.facts = found, facts
        self._news.put(CredentialRenewed(at=now, credential=one.named.type, ends=facts.ends if facts else None))

    def _renew(self, one: _WatchedCredential) -> None:
        try:
            one.named.renew()
        except Exception as problem:
            words = _in_words(problem)
            self._warn(f"the credential '{one.named.type}' could not be renewed, trying again: {words}")

    def _warn(self, words: str) -> None:
        if words not in self._warned:
            self._warned.add(words)
            self._news.put(Warned(at=self._clock(), message=words))


def renewal_pause(facts: CredentialFacts, now: float) -> float:
    """Seconds until a credential that is renewed now may be renewed again, whether or not that helps: a quarter of what
    is left of it, or of its whole life where nothing is."""
    ends = math.inf if facts.ends is None else facts.ends
    life = ends - now if ends > now else ends - (-math.inf if facts.begins is None else facts.begins)
    return max(LOOK_EVERY, min(RENEW_AGAIN, life / 4))


def _in_words(problem: Exception) -> str:
    """Without the name of its type, where its words are for people."""
    if isinstance(problem, CenoteError):
        return "; ".join(found.message for found in problem.problems)
    return printable(str(problem.strerror or problem)) if isinstance(problem, OSError) else words_of(problem)


# Hold tasks back while a credential that they need has ended, until there is a new one: they would only fail.


_LATE = 30.0
"""Seconds after a new credential came in which a task may still fail for the want of it: it had tried for a while."""


class CredentialGate(Session):
    """Tasks of a session wait here while a credential of their pool has ended."""

    def __init__(self, inner: Session, news: EventSource, watch: CredentialWatch, clock: Callable[[], float]) -> None:
        """`news` is what happens to the tasks: the session itself, or who reports for it."""
        self._inner, self._news, self._watch, self._clock = inner, news, watch, clock
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
        news = self._news.events(0.0 if self._events else seconds)
        renewed = self._watch.news()
        for pool in tuple(self._closed):
            self._is_closed(pool)
        for task in [task for task, (_, pool) in self._held.items() if pool not in self._closed]:
            self._inner.run(*self._held.pop(task))
        events, self._events = self._events, []
        return [*renewed, *events, *(self._excused(event) for event in news)]

    def forget(self, names: Sequence[str]) -> None:
        self._inner.forget(names)

    def close(self) -> None:
        with ExitStack() as at_last:
            at_last.callback(self._news.close)
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
