"""Tell what happens as it happens: one list of the latest events, in which every listener has its place.

The list is bounded, so memory is, however many listen and however slowly. Whoever falls behind its beginning starts
over.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import assert_never

import msgspec

from cenote.common import errors
from cenote.common.values import dataclass
from cenote.service.allocator.messages import ServiceEvent
from cenote.service.client.definitions import PoolDefinition, TaskDefinition
from cenote.service.client.records import EventKind, LivePoolRecord, OutputRecord, QueuedTaskRecord, ServiceRecord
from cenote.service.http.caller import Caller
from cenote.service.server.requests import ServiceRequests, closed_pool

_MOST_EVENTS, _MOST_BYTES = 4096, 8 << 20
"""That are kept."""
_KEPT_FOR = 120.0
"""Seconds after the last listener left."""
_TOGETHER = 0.005
"""Seconds in which changes of the same task or pool become one event."""


@dataclass(frozen=True)
class FeedEvent:
    """Something that happened, by its number."""

    number: int
    kind: EventKind
    record: LivePoolRecord | QueuedTaskRecord | OutputRecord | ServiceRecord
    user: str = ""
    """Whose it is."""

    @property
    def size(self) -> int:
        """Bytes, about."""
        return 512 + (len(self.record.data) if isinstance(self.record, OutputRecord) else 0)


@dataclass(frozen=True)
class Interest:
    """What a listener wants to hear."""

    caller: Caller
    task: str | None = None
    """With it come the task's own events and its output."""
    pool: str | None = None

    def body(self, event: FeedEvent) -> bytes | None:
        """An event as this listener may see it; None where it is not for them."""
        record = event.record
        match record:
            case OutputRecord():
                wanted = record.task == self.task and self.caller.owns(event.user)
            case QueuedTaskRecord():
                wanted = self.task in (None, record.id) and self.pool in (None, record.pool)
                record = self.caller.shown(record)
            case LivePoolRecord():
                wanted = self.task is None and self.pool in (None, record.name)
            case ServiceRecord():
                wanted, record = True, self.caller.shown_service(record)
            case _:
                assert_never(record)
        return msgspec.json.encode(record) if wanted else None


class Feed:
    """The latest events."""

    def __init__(self, requests: ServiceRequests) -> None:
        self._requests = requests
        self._start = secrets.token_hex(4)
        """Of this start of the service: numbers of another one mean nothing here."""
        self._events: deque[FeedEvent] = deque()
        self._bytes = self._last = 0
        self._tasks: dict[str, None] = {}
        self._pools: dict[str, None] = {}
        self._known: dict[str, LivePoolRecord] = {}
        self._waiting: asyncio.TimerHandle | None = None
        self._news: asyncio.Future[None] | None = None
        self._listeners = 0
        self._left = float("-inf")
        """When the last listener left."""

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Somebody listens. Whoever lost the connection finds what happened meanwhile, for a while."""
        self._listeners += 1
        try:
            yield
        finally:
            self._listeners -= 1
            self._left = asyncio.get_running_loop().time()

    def _is_heard(self) -> bool:
        """Whether events are kept; what is not kept is a gap, and who had a place before it starts over."""
        heard = self._listeners > 0 or asyncio.get_running_loop().time() - self._left < _KEPT_FOR
        if not heard and self._events:
            self._events.clear()
            self._bytes, self._last = 0, self._last + 1
        return heard

    @property
    def end(self) -> int:
        """The number of the last event."""
        return self._last

    def id_of(self, number: int) -> str:
        """As a listener remembers its place."""
        return f"{self._start}-{number}"

    def number_of(self, remembered: str) -> int | None:
        """The place that a listener had; None where it is not of this start of the service."""
        start, _, number = remembered.partition("-")
        return int(number) if start == self._start and number.isdecimal() else None

    def since(self, number: int) -> Sequence[FeedEvent] | None:
        """Events after this one; None where some of them are forgotten."""
        first = self._events[0].number if self._events else self._last + 1
        if number > self._last or number + 1 < first:
            return None
        return list(self._events)[number + 1 - first :]

    async def more(self, seconds: float) -> None:
        """Until there is more, or so long."""
        if self._news is None or self._news.done():
            self._news = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._news], timeout=seconds)

    def hear(self, events: Sequence[ServiceEvent]) -> None:
        """What the service took: tasks and pools that it is about are different."""
        if not self._is_heard():
            return
        for event in events:
            task, pool = getattr(event, "task", None), getattr(event, "pool", None)
            if name := task.id if isinstance(task, TaskDefinition) else task:
                self._tasks[str(name)] = None
            if name := pool.name if isinstance(pool, PoolDefinition) else pool:
                self._pools[str(name)] = None
        if (self._tasks or self._pools) and self._waiting is None:
            self._waiting = asyncio.get_running_loop().call_later(_TOGETHER, self._tell)

    def hear_output(self, record: OutputRecord) -> None:
        """A task printed something."""
        if self._is_heard():
            self._add("output", record, self._requests.task(record.task).user)

    def now(self, interest: Interest) -> FeedEvent:
        """How that is now which a listener is interested in: what it hears first."""
        if interest.task is not None:
            task = self._requests.task(interest.task)
            return FeedEvent(self._last, "task", task, task.user)
        if interest.pool is not None:
            return FeedEvent(self._last, "pool", self._requests.pool(interest.pool))
        return FeedEvent(self._last, "service", self._requests.record())

    def _tell(self) -> None:
        self._waiting = None
        tasks, pools, self._tasks, self._pools = self._tasks, self._pools, {}, {}
        for name in tasks:
            try:
                record = self._requests.task(name)
            except errors.CenoteError:
                continue
            pools[record.pool] = None
            self._add("task", record, record.user)
        for name in pools:
            try:
                self._known[name] = self._requests.pool(name)
            except errors.CenoteError:
                if (before := self._known.pop(name, None)) is None:
                    continue
                self._add("pool", closed_pool(before))
            else:
                self._add("pool", self._known[name])

    def _add(
        self,
        kind: EventKind,
        record: LivePoolRecord | QueuedTaskRecord | OutputRecord | ServiceRecord,
        user: str = "",
    ) -> None:
        self._last += 1
        event = FeedEvent(self._last, kind, record, user)
        self._events.append(event)
        self._bytes += event.size
        while len(self._events) > _MOST_EVENTS or self._bytes > _MOST_BYTES:
            self._bytes -= self._events.popleft().size
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
