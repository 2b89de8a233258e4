"""End the program: at once where only our own code ran in it, since Python takes long to take everything apart."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress
from typing import NoReturn


def end(code: int | str | None) -> NoReturn:
    """With this exit code. Whatever was registered for the end is done."""
    if isinstance(code, int) and _may_end_at_once():
        atexit._run_exitfuncs()  # noqa: SLF001  # as Python does
        with suppress(OSError):  # what cannot be written has been told
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)


def _may_end_at_once() -> bool:
    """Somebody's code may leave files open that Python closes as it ends; threads and profilers want to end as well."""
    registry = sys.modules.get("cenote.plugins.registry")
    alone = threading.active_count() == 1 and sys.getprofile() is None and sys.gettrace() is None
    return alone and not (registry is not None and registry.has_foreign())
