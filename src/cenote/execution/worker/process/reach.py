"""End a worker that cannot reach its driver: it would never join, and nobody would end it."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from cenote.execution.start_failures import StartFailure
from cenote.execution.worker.process.scratch import leave_scratch

PATIENCE = 8.0
"""Seconds in which nothing answers at the driver's address until it counts as gone. It listens before any worker is
started, and the system answers for it however busy it is."""
_FIRST_LOOK = 2.0
"""Most workers have joined by then, and never look."""
_LOOK_EVERY = 1.0


def leave_if_unreachable(address: str, joined: Callable[[], bool], patience: float = PATIENCE) -> None:
    """From now on, and until it has joined, end this process when nothing listens at an address like `tls://host:port`.

    It ends the process from a thread: whatever holds up the start of the worker may not be asked.
    """
    threading.Thread(target=_watch, args=(address, joined, patience), daemon=True).start()


def _watch(address: str, joined: Callable[[], bool], patience: float) -> None:
    since = time.monotonic()
    time.sleep(min(_FIRST_LOOK, patience))
    while not joined():
        began = time.monotonic()
        if listens(address, seconds=patience):
            since = time.monotonic()
        elif time.monotonic() - since >= patience and not joined():
            sys.stderr.write(f"nothing answered at {address} for {patience:g} s: this node does not reach the driver\n")
            sys.stderr.flush()
            leave_scratch()
            os._exit(StartFailure.NO_DRIVER.value.code)
        time.sleep(max(0.0, _LOOK_EVERY - (time.monotonic() - began)))


def facing(address: str) -> str:
    """The address of this machine from which an address like `tls://host:port` is reached; nothing is sent there.

    Raises OSError where the host is unknown, or there is no way to it.
    """
    where = urlsplit(address)
    family, _, _, _, target = socket.getaddrinfo(where.hostname, where.port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as unsent:
        unsent.connect(target)
        return str(unsent.getsockname()[0])


def bracketed(host: str) -> str:
    """A host as addresses have it: `[::1]`."""
    return f"[{host}]" if ":" in host else host


def listens(address: str, *, seconds: float) -> bool:
    """Whether something takes connections there."""
    where = urlsplit(address)
    try:
        with socket.create_connection((where.hostname, where.port), timeout=seconds):
            return True
    except OSError:
        return False
