"""This file writes the command that starts a worker of the Dask backend."""

from __future__ import annotations

import sys
from pathlib import Path

from cenote.language.workflow import Amounts
from cenote.placement.pools import PlacedPool

AMOUNTS = ("cpus", "memory", "gpus", "disk")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def worker_command(
    pool: PlacedPool, worker: str, *, scheduler: str, log: Path, lifetime: int | None, host: str | None
) -> tuple[str, ...]:
    """For a machine that can reach the scheduler and has this Python."""
    command = [sys.executable, "-m", "cenote.backends._dask_worker"]
    command += ["--scheduler", scheduler, "--name", worker, "--pool", pool.name]
    command += ["--slots", str(pool.slots), "--log", str(log)]
    if pool.granted.memory:
        command += ["--memory", str(pool.granted.memory)]
    for name, amount in stated(pool.granted).items():
        command += ["--resource", f"{name}={amount}"]
    if lifetime is not None:
        command += ["--lifetime", str(lifetime)]
    if host in _LOOPBACK:  # any other address of ours is not one of theirs
        command += ["--host", str(host)]
    return tuple(command)


def stated(amounts: Amounts) -> dict[str, float]:
    """The amounts that are stated, under the names that workers and tasks share."""
    found = {name: getattr(amounts, name) for name in AMOUNTS}
    return {f"cenote.{name}": float(amount) for name, amount in found.items() if amount}
