"""End services that tests started: in good order where they answer, by their process where they do not."""

from __future__ import annotations

import os
import signal

from cenote.common.errors import CenoteError
from cenote.service.client.home import ServiceHome
from cenote.service.client.start import stop_service


def end_service(home: ServiceHome, pid: int) -> None:
    """The service that has this folder, and is this process."""
    try:
        stop_service(home)
    except CenoteError:
        os.kill(pid, signal.SIGKILL)
