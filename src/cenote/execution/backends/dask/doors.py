"""Configure Dask, and close its doors: one port each, for processes of the same run only.

Dask reads pickles from whatever connects. With both sides' certificates checked in the handshake, nothing is read from
a stranger. Dask's pages, which it serves over plain HTTP even without a dashboard, are not served at all. Nor does it
keep anything in `/tmp/dask-scratch-space`, which any user can make first and then owns.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from contextlib import suppress
from typing import Any

from tornado.iostream import SSLIOStream

from cenote.common.certificates.identity import Identity
from cenote.execution.backends.dask.private import ContextSecurity, FetchingWorker, ListeningServer, SchedulerWithin

NO_PAGES: dict[str, list[str]] = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}
"""Configuration: nothing is even loaded for them."""
_TO_SHAKE_HANDS = 30.0
"""Seconds after which a connection without a handshake is closed: strangers must not use up all of ours."""
_UNKNOWN_AT_ONCE = 256
"""Such connections that are kept: for one more, the oldest is closed. Many systems allow a process 1024 open files, and
a run that can open no more of them ends."""


class _WholeReads(ssl.SSLSocket):
    """Fills a buffer as far as it can: OpenSSL hands out one record of 16 KB at a time, and Dask's stream would come
    back through the event loop's code for each of thousands."""

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:  # Any: as the library has it
        """As many bytes as are there; none only at the end."""
        view = memoryview(buffer)[: nbytes or None]
        filled = super().recv_into(view, None, flags)
        with suppress(ssl.SSLWantReadError):
            while 0 < filled < len(view) and (more := super().recv_into(view[filled:])):
                filled += more
        return filled


class RunSecurity(ContextSecurity):
    """Connections by the certificates of one run."""

    def __init__(self, identity: Identity) -> None:
        """Raises OSError where this is no identity."""
        listening, connecting = identity.listening(), identity.connecting()
        listening.sslsocket_class = connecting.sslsocket_class = _WholeReads
        super().__init__(listening=listening, connecting=connecting)


class _OneDoor(ListeningServer):
    """What scheduler and workers have in common."""

    local_directory: str

    def __init__(self, *where: Any, local_directory: str, **options: Any) -> None:  # Any: as Dask passes it on
        """`local_directory` is private: Dask opens lock files there, and reads pickles that it spilled."""
        super().__init__(*where, local_directory=local_directory, **options)  # type: ignore[call-arg]  # of Dask's class
        self._not_shown: list[SSLIOStream] = []
        with suppress(ValueError):
            sys.path.remove(self.local_directory)  # Dask puts it first, for files that clients upload: ours do not

    def look_at(self, stream: SSLIOStream) -> None:
        """Hang up on what connects and shows nothing."""
        self._not_shown = [*filter(_is_unknown, self._not_shown), stream]
        if len(self._not_shown) > _UNKNOWN_AT_ONCE:
            self._not_shown[0].close()
        asyncio.get_running_loop().call_later(_TO_SHAKE_HANDS, _close_unknown, stream)


def _close_unknown(stream: SSLIOStream) -> None:
    if _is_unknown(stream):
        stream.close()


def _is_unknown(stream: SSLIOStream) -> bool:
    """Whether it is open, and its handshake is not done, however far it came."""
    if stream.closed():
        return False
    try:
        stream.socket.getpeercert()
    except (ValueError, OSError):
        return True
    return False


class SecuredScheduler(_OneDoor, SchedulerWithin):
    """A scheduler that only its run can reach: workers by its port, its driver without any network.

    A connection of the driver to itself by the address for workers would break with that address, which changes when a
    laptop wakes up or a VPN ends; and what a client of Dask had asked for is gone with its connection.
    """


class SecuredWorker(_OneDoor, FetchingWorker):
    """A worker that only its run can reach."""


# State how Dask is configured: what both ends have in common, and what only the scheduler needs.


EVERYWHERE: dict[str, object] = {
    **NO_PAGES,
    # Messages carry products, and Dask would keep the last thousand batches of them.
    "distributed.admin.low-level-log-length": 1,
    # Within a site the network is faster than the compressor, and so is the disk that memory spills to.
    "distributed.comm.compression": None,
    "distributed.worker.memory.spill-compression": None,
    # What Dask measures of itself is shown on its pages, which we have none of. It would look at its threads a hundred
    # times a second, and wake up its event loop fifty times: 3 % of a core for each idle worker.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.gil.enabled": False,
}
"""Of the scheduler and of workers, whatever a configuration file of Dask says."""
SCHEDULER: dict[str, object] = {
    **EVERYWHERE,
    "distributed.scheduler.allowed-failures": 1_000_000,  # our engine counts losses, and only of tasks that had begun
    "distributed.scheduler.worker-ttl": None,  # silent workers are our engine's business
    "distributed.admin.event-loop": "asyncio",
}
