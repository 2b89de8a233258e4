"""Connect to a service and ask it for pools and tasks: what programs use."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from cenote.service.client.address import SERVICE_VARIABLE, NetworkAddress, address_of, is_url
from cenote.service.client.asking import named, send_files
from cenote.service.client.line import Line
from cenote.service.client.pool_handle import PoolHandle
from cenote.service.client.queue_view import QueueView
from cenote.service.client.records import (
    CallerRecord,
    CreatedToken,
    HeardEvent,
    LivePoolRecord,
    NewPool,
    NewTask,
    NewToken,
    PageLink,
    QueuedTaskRecord,
    QueueForecast,
    ServiceRecord,
    TokenRecord,
)
from cenote.service.client.start import find_or_start
from cenote.service.client.task_flows import TaskHandle


def connect(
    service: str | Path | None = None,
    *,
    token: str | None = None,
    ca: str | Path | None = None,
    start: bool = True,
) -> Connection:
    """A connection to the service with this socket, folder or `https://` address; to `$CENOTE_SERVICE` or, without any,
    to the user's own, which is started where it does not run, and ends when nobody uses it. Without `start`, it must be
    there.

    For an address, `token` is what the service's owner gave, else `$CENOTE_TOKEN`, else that of `cenote login`. `ca` is
    a file of certificates to trust, or `sha256:…`, the fingerprint of the service's own."""
    return Connection(Line(place_of(service, token=token, ca=ca, start=start)))


def place_of(
    service: str | Path | None, *, token: str | None = None, ca: str | Path | None = None, start: bool = True
) -> Path | NetworkAddress:
    """Where such a service is; started where it does not run and may be."""
    wanted = service or os.environ.get(SERVICE_VARIABLE)
    if isinstance(wanted, str) and is_url(wanted):
        return address_of(wanted, token=token, ca=ca)
    return find_or_start(wanted, start=start)


class Connection:
    """A service, as programs see it."""

    def __init__(self, line: Line) -> None:
        self._line = line

    @property
    def service(self) -> ServiceRecord:
        """What the service says of itself."""
        return self._line.get("/service", ServiceRecord)

    @property
    def caller(self) -> CallerRecord:
        """Whom the service takes this program for."""
        return self._line.get("/caller", CallerRecord)

    def create_pool(self, name: str, profile: str = "local", instancecount: int = 1) -> PoolHandle:
        """A pool of so many workers, which is there once it is submitted."""
        return PoolHandle(self._line, name=name, profile=profile, workers=instancecount)

    def create_task(self, name: str, pool: PoolHandle | str | None = None, instancecount: int = 1) -> TaskHandle:
        """A task of so many instances, which waits for slots once it is submitted."""
        return TaskHandle(self._line, name=name, pool=pool, instances=instancecount)

    def pools(self) -> Sequence[PoolHandle]:
        """Every pool that is not closed."""
        return [PoolHandle.of(self._line, record) for record in self.pool_records()]

    def pool_records(self) -> Sequence[LivePoolRecord]:
        """The same as they are now, by one question."""
        return self._line.get("/pools", tuple[LivePoolRecord, ...])

    def pool(self, name: str) -> PoolHandle:
        """The pool of this name."""
        return PoolHandle.of(self._line, self._line.get(f"/pools/{named(name)}", LivePoolRecord))

    def tasks(self, *, pool: str | None = None, state: str | None = None) -> Sequence[TaskHandle]:
        """Tasks, the latest first."""
        return [TaskHandle.of(self._line, record) for record in self.task_records(pool=pool, state=state)]

    def task_records(
        self, label: str | None = None, *, pool: str | None = None, state: str | None = None
    ) -> Sequence[QueuedTaskRecord]:
        """The same as they are now, by one question; or those that have this label, `name` or `name=value`: all that
        are not over, and the latest of the others."""
        return self._line.get("/tasks", tuple[QueuedTaskRecord, ...], label=label, pool=pool, state=state)

    def add_pool(self, asked: NewPool) -> LivePoolRecord:
        """Ask for a pool in all its words."""
        return self._line.create("/pools", LivePoolRecord, asked)

    def add_task(self, asked: NewTask) -> QueuedTaskRecord:
        """Ask for a task in all its words; its `resources` are files of this machine."""
        paths, uploads = self._line.carry_out(send_files(asked.resources))
        sent = msgspec.structs.replace(asked, resources=paths, uploads=uploads)
        return self._line.create("/tasks", QueuedTaskRecord, sent)

    def task(self, uuid: str) -> TaskHandle:
        """The task with this id, or with an id that begins so."""
        return TaskHandle.of(self._line, self._line.get(f"/tasks/{named(uuid)}", QueuedTaskRecord))

    def queue(self, pool: str | None = None) -> QueueView:
        """Pool → tasks that wait for it, in the order in which they would start now."""
        return QueueView(self._line.get("/queue", dict[str, tuple[QueuedTaskRecord, ...]], pool=pool))

    def forecast(self, *, duration: float = 600.0, startup: float = 30.0) -> QueueForecast:
        """When the tasks of the queue would start and end. `duration` is for tasks that nothing is known of, `startup`
        from asking for a worker until it comes, both in seconds."""
        return self._line.get("/forecast", QueueForecast, wait=60.0, duration=duration, startup=startup)

    def events(
        self, *, task: str | None = None, pool: str | None = None, after: str | None = None
    ) -> Iterator[HeardEvent]:
        """What happens, as it happens: to everything, to a task (with what it prints), or to a pool and its tasks. The
        first event tells how it is now; with `after`, events after one that was heard follow. Ends with the service, by
        an error."""
        return self._line.events(task=task, pool=pool, after=after)

    def tokens(self) -> Sequence[TokenRecord]:
        """Tokens that are not revoked. For the owner of the service, and admins."""
        return self._line.get("/tokens", tuple[TokenRecord, ...])

    def create_token(
        self, user: str, *, groups: Sequence[str] = (), seconds: int | None = None, admin: bool = False
    ) -> CreatedToken:
        """A token for a user. For the owner of the service, and admins."""
        return self._line.post(
            "/tokens", CreatedToken, NewToken(user=user, groups=tuple(groups), seconds=seconds, admin=admin)
        )

    def revoke_token(self, token: str) -> TokenRecord:
        """Let the token with this id be worth nothing. For the owner of the service, and admins."""
        return self._line.delete(f"/tokens/{named(token)}", TokenRecord)

    def page_link(self) -> PageLink:
        """A link to the service's page that signs in once. For the owner of the service, at its socket."""
        return self._line.post("/page", PageLink)

    def close(self) -> None:
        """End the connection; pools and tasks go on."""
        self._line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: object, trace: TracebackType | None) -> None:
        self.close()
