"""What programs do with a pool, as flows: the same for those that wait and those that await."""

from __future__ import annotations

import html
import time
from collections.abc import Sequence
from typing import Self

import msgspec

from cenote.common import errors
from cenote.engine.scaling import PoolState
from cenote.language.execution import Elastic
from cenote.service.client.asking import POLL_SECONDS, Ask, Flow, asked, create, get, named, post, send_files
from cenote.service.client.definitions import TaskState
from cenote.service.client.queue_view import pools_table
from cenote.service.client.records import PENDING_DELETE, LivePoolRecord, NewPool, QueuedTaskRecord

_STEP = 0.2
"""Seconds between two looks at its tasks."""
_CLOSED, _FAILED = PoolState.CLOSED.value, PoolState.FAILURE.value
_ENDING = (PoolState.CLOSING.value, _CLOSED, _FAILED, PENDING_DELETE)
"""States of a pool that starts nothing more."""


class PoolFlows:
    """Workers that stay: reserved once, and ready for many tasks."""

    def __init__(self, *, name: str, profile: str, workers: int) -> None:
        self._asked = NewPool(name=name, profile=profile, workers=workers)
        self._record: LivePoolRecord | None = None
        self.resources: list[str] = []
        """Files that every instance finds in the folder above its own."""
        self.slots: int | None = None
        """Instances at once per worker; None leaves it to the profile."""

    def known_as(self, record: LivePoolRecord) -> Self:
        """One that is there."""
        self._record = record
        return self

    @property
    def name(self) -> str:
        """As it was written."""
        return self._asked.name

    @property
    def id(self) -> str:
        """The name that the service knows it by."""
        if self._record is None:
            raise errors.error(errors.USAGE, f"pool '{self.name}' is not submitted yet", hint="call submit() first")
        return self._record.name

    @property
    def _path(self) -> str:
        return f"/pools/{named(self.id)}"

    def setup_elastic(
        self,
        minimum_total_slots: int = 0,
        maximum_total_slots: int = 1,
        minimum_idle_slots: int = 0,
        minimum_idle_time_seconds: int = 300,
        resize_factor: float = 1.0,
        resize_period: int = 90,
        *,
        idle_time: int | None = None,
    ) -> None:
        """Let it grow and shrink with its tasks, within these numbers of slots. A worker that has had nothing to do for
        `minimum_idle_time_seconds` goes; every `resize_period` seconds is decided. Names and order are those of
        Qarnot's SDK; `idle_time` is the same time by its name in pool profiles."""
        if self._record is not None:
            raise errors.error(errors.USAGE, f"pool '{self.name}' is submitted already", hint="set it up before")
        try:
            elastic = Elastic(
                min=minimum_total_slots,
                max=maximum_total_slots,
                idle_slots=minimum_idle_slots,
                resize_period=resize_period,
                resize_factor=resize_factor,
                idle_time=minimum_idle_time_seconds if idle_time is None else idle_time,
            )
        except ValueError as problem:
            raise errors.error(errors.BAD_VALUE, f"pool '{self.name}': {problem}") from problem
        self._asked = msgspec.structs.replace(self._asked, workers=None, elastic=elastic, elastic_counts="slots")

    def record_flow(self) -> Flow[LivePoolRecord]:
        """How it is now."""
        self._record = yield from asked(get(self._path, LivePoolRecord))
        return self._record

    def submit_flow(self) -> Flow[LivePoolRecord]:
        """Ask for its workers."""
        if self._record is None:
            resources, uploads = yield from send_files(self.resources)
            new = msgspec.structs.replace(self._asked, slots=self.slots, resources=resources, uploads=uploads)
            self._record = yield from asked(create("/pools", LivePoolRecord, new))
        return self._record

    def wait_flow(self, states: Sequence[str], timeout: float | None) -> Flow[str]:
        """Until it is in one of these states, or all its workers run."""
        wanted = states or (PoolState.FULLY_EXECUTING.value, _CLOSED, _FAILED)
        until = None if timeout is None else time.monotonic() + timeout
        while (found := (yield from self.record_flow())).state not in wanted:
            step = POLL_SECONDS if until is None else min(POLL_SECONDS, until - time.monotonic())
            if step <= 0:
                raise TimeoutError(f"pool '{self.name}' is still {found.state} after {timeout} s: {found.reason}")
            yield from asked(self._changed(found.state, step))
        return found.state

    def _changed(self, state: str, seconds: float) -> Ask[LivePoolRecord]:
        return get(self._path, LivePoolRecord, wait=seconds, changed_from=state, seconds=seconds)

    def close_flow(self) -> Flow[None]:
        """No more tasks."""
        if self._record is not None and (yield from self.record_flow()).state != _CLOSED:
            self._record = yield from asked(post(f"{self._path}/close", LivePoolRecord))

    def delete_flow(self) -> Flow[None]:
        """Close it, stop what it runs, and forget it."""
        if self._record is not None:
            yield from asked(Ask("DELETE", self._path, bytes))

    def leave_flow(self, *, finish: bool) -> Flow[None]:
        """At the end of a context: close it, when its tasks are over. Where something went wrong, they are not waited
        for, and a pool that cannot be closed because of them stays: what went wrong is the news."""
        while finish and self._record is not None:
            if (state := (yield from self.record_flow()).state) in _ENDING:
                break
            tasks = yield from asked(get("/tasks", tuple[QueuedTaskRecord, ...], pool=self.id))
            if all(one.state.is_over or one.state is TaskState.PAUSED for one in tasks):
                break
            yield from asked(self._changed(state, _STEP))
        try:
            yield from self.close_flow()
        except errors.CenoteError:
            if finish:
                raise

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"{kind}({self.name!r}, {self._record.state if self._record else 'not submitted'})"

    def _repr_html_(self) -> str:
        if self._record is None:
            return f"<p>Pool <b>{html.escape(self.name)}</b>, not submitted</p>"
        return pools_table([self._record])
