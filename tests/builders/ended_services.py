"""End services that tests started: in good order where they answer, by their process where they do not."""

from __future__ import annotations

import os
import signal

from cenote.client.home import ServiceHome
from cenote.client.start import stop_service
from cenote.errors import CenoteError


def end_service(home: ServiceHome, pid: int) -> None:
    """The service that has this folder, and is this process."""
    try:
        stop_service(home)
    except CenoteError:
        os.kill(pid, signal.SIGKILL)
