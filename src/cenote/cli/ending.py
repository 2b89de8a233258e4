"""End the program: at once where only our own code ran in it, since Python takes long to take everything apart.

Somebody else's code may leave threads behind, and much to do at the end: it gets a moment for that.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from contextlib import suppress
from typing import NoReturn

from cenote.common.text import listed

PATIENCE = 10.0
"""Seconds for threads of other code, and for what it registered for the end."""


def end(code: int | str | None) -> NoReturn:
    """With this exit code. Whatever was registered for the end is done."""
    if isinstance(code, int) and not _is_watched():
        if _is_ours_alone():
            atexit._run_exitfuncs()  # noqa: SLF001  # as Python does
            with suppress(OSError):  # what cannot be written has been told
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        threading.Thread(target=_end_without_others, args=(code,), daemon=True).start()
    sys.exit(code)


def _is_watched() -> bool:
    """Profilers and debuggers want to see the usual end, however long that takes."""
    return sys.getprofile() is not None or sys.gettrace() is not None


def _is_ours_alone() -> bool:
    """Somebody's code may leave files open that Python closes as it ends; threads want to end as well."""
    registry = sys.modules.get("cenote.language.plugins.registry")
    return threading.active_count() == 1 and not (registry is not None and registry.has_foreign())


def _end_without_others(code: int) -> None:
    """All has been told: nothing of ours waits for a thread of others, or for what they registered."""
    time.sleep(PATIENCE)
    threads = [one.name for one in threading.enumerate() if one.is_alive() and not one.daemon]
    still = f"threads {listed(threads)}" if threads else "what it registered for the end"
    with suppress(OSError, ValueError):  # there may be nobody to tell
        sys.stderr.write(f"cenote: other code still runs in this process, which ends now: {still}\n")
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
