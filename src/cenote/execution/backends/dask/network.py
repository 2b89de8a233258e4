"""State where the scheduler listens, what workers are told of it, and where they listen themselves."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from cenote.common.errors import NETWORK, error
from cenote.common.text import did_you_mean, listed
from cenote.common.values import dataclass
from cenote.execution.backends.dask.launch import WorkerPlace
from cenote.execution.backends.interface import MeetingPoint
from cenote.execution.backends.support.ports import ANY_PORT, has_port, ports_in_words
from cenote.execution.worker.process.reach import bracketed, facing

LOOPBACK = "127.0.0.1"
_OUTSIDE = "udp://198.51.100.1:9"
"""An address for examples only (RFC 5737): the way to it is the way out."""
Started = TypeVar("Started")


def is_loopback(host: str | None) -> bool:
    """Whether only this machine can reach it."""
    return host in (LOOPBACK, "localhost", "::1")


def is_everywhere(host: str | None) -> bool:
    """Whether it stands for all addresses of this machine."""
    return host in ("0.0.0.0", "::")  # it is what a user may write


@dataclass(frozen=True)
class Network:
    """How driver and workers find each other."""

    workers: WorkerPlace
    host: str | None = None
    """Address to listen on; None for that of the interface, or else the one that faces outward."""
    interface: str | None = None
    ports: range = ANY_PORT
    contact: str | None = None
    """What workers are told instead of the address that is listened on."""

    def listen(self, start: Callable[[str, int], Started]) -> Started:
        """What `start` makes at the first port that is free. Raises `network` when none is."""
        host = self._own_address()
        for port in self.ports:
            if not _is_free(host, port):
                continue
            try:
                return start(host, port)
            except RuntimeError:  # what Dask raises for whatever goes wrong
                if _is_free(host, port):
                    raise
        raise error(
            NETWORK,
            f"no port of {ports_in_words(self.ports)} is free on {host}: the driver cannot listen",
            hint="set another range as `port` in `execution.config`, or free one of these ports",
        )

    def told(self, listening: str) -> str:
        """The address that workers connect to, for a scheduler that listens there: `tls://10.0.0.5:8786`."""
        if self.contact is None:
            return listening
        port = "" if has_port(self.contact) else f":{listening.rpartition(':')[2]}"
        return f"tls://{self.contact}{port}"

    def example(self) -> str:
        """The address for people to read before there is a scheduler; what is not known is in capitals."""
        port = str(self.ports[0]) if len(self.ports) == 1 and self.ports != ANY_PORT else "PORT"
        return self.told(f"tls://{bracketed(self.host or 'ADDRESS')}:{port}")

    def warnings(self) -> list[str]:
        """What the user should know of these settings."""
        if not is_everywhere(self.host):
            return []
        return [f"the driver listens on every network of this machine: `host` in `execution.config` is {self.host}"]

    def meeting_point(self) -> MeetingPoint:
        """The same as values. Raises `network` where the address or the interface is not there."""
        return MeetingPoint(host=self._own_address(), ports=self.ports, contact=self.contact)

    def _own_address(self) -> str:
        if self.host is not None:
            _check_own(self.host)
            return self.host
        return _outward() if self.interface is None else self._of_interface(self.interface)

    def _of_interface(self, name: str) -> str:
        from cenote.execution.backends.dask.private import address_of_interface  # planning a run must not pay for it

        try:
            return address_of_interface(name)
        except ValueError as problem:
            here = [name for _, name in socket.if_nameindex()]
            what = "has no IPv4 address" if name in here else "is not there"
            raise error(
                NETWORK,
                f"the network interface '{name}' {what} on this machine",
                details=(f"interfaces: {listed(here)}",),
                hint=did_you_mean(name, here) or "correct `interface` in `execution.config`, or give `host`",
            ) from problem


def _outward() -> str:
    """Of this machine's addresses the one that others reach it by; loopback where it has no network."""
    for address in (_OUTSIDE, f"udp://{socket.gethostname()}:9"):
        with suppress(OSError):
            return facing(address)
    return LOOPBACK


def _check_own(host: str) -> None:
    """Raise `network` for an address that is not one of this machine, or a name that nobody knows."""
    problem = _obstacle(host, 0)
    if problem is None or _is_taken(problem):
        return
    raise error(
        NETWORK,
        f"the driver cannot listen on {host}: {problem.strerror or problem}",
        hint="`host` in `execution.config` must be an address of this machine; `contact` is what workers connect to",
    )


def _is_free(host: str, port: int) -> bool:
    """Whether nothing else listens there, and we may."""
    problem = _obstacle(host, port)
    return problem is None or not _is_taken(problem)


def _is_taken(problem: OSError) -> bool:
    return problem.errno in (errno.EADDRINUSE, errno.EACCES)


def _obstacle(host: str, port: int) -> OSError | None:
    """Why one could not listen there; None when one could."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen()
        except OSError as problem:
            return problem
    return None
