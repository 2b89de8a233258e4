"""Run a service: open its folder, its log and its doors, and keep it going until it is asked to stop."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import field
from pathlib import Path

from cenote.common import signals as garbage
from cenote.common import storage
from cenote.common.certificates.authority import identities_of
from cenote.common.certificates.identity import Identity
from cenote.common.signals import ASKING_TO_END
from cenote.common.values import dataclass
from cenote.execution.runs.folder import RunFolder
from cenote.service.access.tokens import Access
from cenote.service.client.address import TOKEN_VARIABLE
from cenote.service.client.home import ServiceHome, user_name
from cenote.service.client.records import ServiceRecord
from cenote.service.http.app import make_app
from cenote.service.http.doors import Doors, NetworkDoor
from cenote.service.http.feed import Feed
from cenote.service.http.limits import RequestLimits
from cenote.service.http.route import Desk
from cenote.service.server.agent_pools import LOOPBACK, AgentPools
from cenote.service.server.clock import steady_clock
from cenote.service.server.hub import Hub, HubEvent
from cenote.service.server.kept_output import KeptOutput, Uploads
from cenote.service.server.log import ServiceLog
from cenote.service.server.newcomers import Newcomers
from cenote.service.server.profiles import Profiles
from cenote.service.server.requests import ServiceRequests
from cenote.service.server.service import Service

LOOK_EVERY = 0.2
"""Seconds between two looks at jobs and at the time."""
COMPACT_AT = 50_000
"""Events in the log, after which it is written anew when the service starts."""
SWEEP_EVERY = 600.0
"""Seconds between two looks at uploads."""
ORPHAN_SECONDS = 600.0
"""That agents wait for a service that is gone."""


@dataclass(frozen=True)
class ServeOptions:
    """How to serve."""

    home: Path
    file: Path | None = None
    """Pool profiles, and pools that are there from the start."""
    host: str | None = None
    """The address of this machine that agents connect to; None for those on this machine only."""
    private: bool = False
    """Whether it ends when nobody uses it."""
    idle_seconds: float = 600.0
    """After which it does."""
    door: NetworkDoor | None = None
    """Where others connect to, over HTTPS; None where only the socket is open."""
    limits: RequestLimits = field(default_factory=RequestLimits)


def serve(options: ServeOptions, tell: Callable[[ServiceRecord], None] = lambda _: None) -> None:
    """Until SIGTERM, SIGINT or a request to stop; `tell` hears when it is ready. Raises `no-service` where another one
    has the folder."""
    os.environ.pop(TOKEN_VARIABLE, None)  # what it starts would inherit it
    home = ServiceHome(options.home)
    home.prepare()
    with ExitStack() as opened:
        log = opened.enter_context(ServiceLog(home.path))
        opened.enter_context(RunFolder(home.path).lock())  # `cenote clean` sees that its jobs are wanted
        asyncio.run(_Serving(options, home, log, tell).run())


class _Serving:
    """One service from its start to its end."""

    def __init__(
        self, options: ServeOptions, home: ServiceHome, log: ServiceLog, tell: Callable[[ServiceRecord], None]
    ) -> None:
        self._options, self._home, self._log, self._tell = options, home, log, tell
        self._stopped = asyncio.Event()
        self._uploads = Uploads(home.uploads)
        self._swept = 0.0
        self._used = time.monotonic()

    async def run(self) -> None:
        """Open, serve, close."""
        loop = asyncio.get_running_loop()
        for number in [one for one in ASKING_TO_END if signal.getsignal(one) is not signal.SIG_IGN]:  # `nohup`
            loop.add_signal_handler(number, self._stopped.set)
        identity, service_id = _identity(self._home)
        hub = Hub(identity, known_output=KeptOutput(self._home).known)
        await hub.open(self._options.host or LOOPBACK, ports=(_port_before(self._home), 0))
        storage.write_text(self._home.path / "port", f"{hub.port}\n")
        clock = steady_clock(self._log.latest)
        pools = AgentPools(
            self._home, hub, service=service_id, host=self._options.host, clock=clock, orphan=ORPHAN_SECONDS
        )
        profiles = Profiles(self._options.file)
        service = Service(self._home, self._log, hub, pools, clock=clock)
        service.resume(compact=len(self._log) > COMPACT_AT)
        service.use_rules(profiles.rules)
        service.open_pools(profiles.pools)
        requests = ServiceRequests(
            service, self._log, profiles, home=self._home.path, private=self._options.private, clock=clock
        )
        doors = self._doors(service, requests, hub)
        try:
            await doors.open_socket()
            if self._options.door is not None:
                await doors.open_network(self._options.door)
                requests.url, requests.fingerprint = doors.url, doors.fingerprint
            self._tell(requests.record())
            garbage.look_at_few()
            await self._keep_going(service, requests, hub)
        finally:
            await doors.close()
            service.close()
            await hub.close()
            with suppress(FileNotFoundError):
                self._home.address.unlink()

    def _doors(self, service: Service, requests: ServiceRequests, hub: Hub) -> Doors:
        async def open_page() -> str:
            requests.url, requests.fingerprint = await doors.open_page(), doors.fingerprint
            return requests.url

        desk = Desk(
            home=self._home,
            requests=requests,
            access=Access(self._log, owner=user_name(os.geteuid())),
            uploads=self._uploads,
            feed=Feed(requests),
            stop=self._stopped.set,
            open_page=open_page,
            fingerprint=lambda: doors.fingerprint,
        )
        service.on_change, service.on_events, service.on_output = desk.changed, desk.feed.hear, desk.feed.hear_output
        limits = self._options.limits
        newcomers = Newcomers(limits.newcomers)
        doors = Doors(self._home, make_app(desk, hub.running_here, limits, newcomers), limits, newcomers)
        return doors

    async def _keep_going(self, service: Service, requests: ServiceRequests, hub: Hub) -> None:
        stopped = asyncio.ensure_future(self._stopped.wait())
        heard = asyncio.ensure_future(hub.events.get())
        looked = time.monotonic()
        while not stopped.done():
            left = max(0.0, looked + LOOK_EVERY - time.monotonic())
            await asyncio.wait((stopped, heard), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if heard.done():
                service.hear([heard.result(), *_waiting(hub.events)])
                heard = asyncio.ensure_future(hub.events.get())
            if time.monotonic() - looked >= LOOK_EVERY:
                looked = time.monotonic()
                service.look_around()
                self._sweep(service, requests)
                if self._is_unused(requests) or service.is_drained:
                    self._stopped.set()
        heard.cancel()

    def _sweep(self, service: Service, requests: ServiceRequests) -> None:
        """Now and then: uploads that nobody needs any more, and what tasks left long ago."""
        if self._swept and time.monotonic() - self._swept < SWEEP_EVERY:
            return
        self._swept = time.monotonic()
        self._uploads.sweep()
        needed = {
            Path(file).parent.parent for view in service.allocator.pools() for file in view.definition.resource_files
        }
        for folder in self._home.pools.iterdir():
            if folder not in needed:
                shutil.rmtree(folder, ignore_errors=True)
        requests.sweep()

    def _is_unused(self, requests: ServiceRequests) -> bool:
        """Whether a private service has had nothing to do for long enough."""
        if not requests.is_idle:
            self._used = time.monotonic()
        return self._options.private and time.monotonic() - self._used > self._options.idle_seconds


def _waiting(queue: asyncio.Queue[HubEvent]) -> list[HubEvent]:
    found = []
    while not queue.empty():
        found.append(queue.get_nowait())
    return found


def _port_before(home: ServiceHome) -> int:
    """The port that agents of an earlier start know; 0 for any."""
    try:
        return int((home.path / "port").read_text())
    except (OSError, ValueError):
        return 0


def _identity(home: ServiceHome) -> tuple[Identity, str]:
    """The certificate of the service, and its id; made at its first start."""
    own = home.identity / "service.pem"
    names = sorted(home.identity.glob("*.id")) if home.identity.is_dir() else []
    if names and own.is_file():
        return Identity.read(own), names[0].stem
    service = f"service-{uuid.uuid4().hex[:12]}"
    made = identities_of(service)
    made.driver.write(own)
    (home.identity / f"{service}.id").touch(mode=0o600)
    made.workers.write(home.agents / "identity" / f"{service}.pem")
    return made.driver, service
