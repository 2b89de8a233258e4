"""Measure and tune the memory of this process."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from functools import cache

EXIT_OUT_OF_MEMORY = 75
"""A worker ends with this code when it goes beyond its memory."""
_STATUS = "/proc/self/status"
_CLEAR = "/proc/self/clear_refs"


@cache
def _open(path: str, flags: int) -> int:
    """A descriptor that stays open: tasks may be shorter than opening a file takes."""
    return os.open(path, flags)


def reset_peak_memory() -> None:
    """Start measuring anew, where the system can (Linux); elsewhere the peak is that of the process."""
    try:
        os.pwrite(_open(_CLEAR, os.O_WRONLY), b"5", 0)
    except OSError:
        return


def peak_memory() -> int:
    """The most memory this process held since the last reset, in bytes."""
    try:
        _, _, found = os.pread(_open(_STATUS, os.O_RDONLY), 65536, 0).partition(b"VmHWM:")
        if found:
            return int(found.split(maxsplit=1)[0]) * 1024
    except OSError:
        pass
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


class TaskMemory:
    """The peak of a task, within which parts of it may be measured on their own."""

    def __init__(self) -> None:
        self._before = 0
        reset_peak_memory()

    def restart(self) -> None:
        """Measure a part from here on."""
        self._before = self.of_task()
        reset_peak_memory()

    def read(self) -> int:
        """Bytes, the most since the last restart."""
        return peak_memory()

    def of_task(self) -> int:
        """Bytes, the most since the task began."""
        return max(self._before, peak_memory())


def keep_freed_memory() -> None:
    """Tell glibc to keep freed blocks for the next chunk.

    Columns come and go in blocks of megabytes; giving each back to the kernel and faulting it in again costs
    10-20 % of the time of array code.
    """
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD
        libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
    except (OSError, AttributeError):
        return  # not glibc
