"""Find processes by their environment, and wait for what is about to happen."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path


def until(holds: Callable[[], bool], what: str, *, seconds: float = 180) -> None:
    """Wait for something that is about to happen; the machine may be busy."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s for {what}")
        time.sleep(0.1)


def with_environment(**variables: str) -> list[int]:
    """Processes that were started with these variables."""
    marks = {f"{name}={value}".encode() for name, value in variables.items()}
    everything = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [process for process in everything if marks <= set(_read(process, "environ").split(b"\0"))]


def parent(process: int) -> int:
    """Who started it; 0 when it is gone."""
    facts = _read(process, "stat").rpartition(b")")[2].split()
    return int(facts[1]) if facts else 0


def name(process: int) -> str:
    """What program it runs."""
    return _read(process, "comm").decode(errors="replace").strip()


def kill(processes: Iterable[int]) -> None:
    """End them now; one that is gone is fine."""
    for process in processes:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _read(process: int, file: str) -> bytes:
    try:
        return Path(f"/proc/{process}/{file}").read_bytes()
    except OSError:
        return b""
