"""Write the command that starts a worker of the Dask backend."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from cenote.backends.support.ports import ports_in_words
from cenote.language.execution import AMOUNTS, Amounts
from cenote.placement.pools import PlacedPool
from cenote.shell import ALONE
from cenote.worker.process.lifetime import Lifetime


@dataclass(frozen=True)
class WorkerPlace:
    """Where workers listen and keep what memory cannot hold, wherever they are; None leaves it to them."""

    host: str | None = None
    interface: str | None = None
    ports: range | None = None
    scratch: str | None = None
    """A folder of their node; `$VARIABLES` are filled in there."""

    def options(self) -> list[str]:
        """The same for the command line of a worker."""
        ports = ports_in_words(self.ports) if self.ports else None
        given = {"--host": self.host, "--interface": self.interface, "--ports": ports, "--scratch": self.scratch}
        return [word for option, value in given.items() if value for word in (option, value)]


def worker_command(
    pool: PlacedPool,
    worker: str,
    *,
    run: str,
    scheduler: str,
    log: Path,
    lifetime: Lifetime | None,
    place: WorkerPlace,
) -> tuple[str, ...]:
    """For a machine that can reach the scheduler and has this Python."""
    command = [sys.executable, *ALONE, "-m", "cenote.backends.dask.worker"]
    command += ["--run", run, "--scheduler", scheduler, "--name", worker, f"--pool={pool.name}"]
    command += ["--slots", str(pool.slots), "--log", str(log)]
    if pool.granted.memory:
        command += ["--memory", str(pool.granted.memory)]
    for name, amount in stated(pool.granted).items():
        command += ["--resource", f"{name}={amount}"]
    if lifetime is not None:
        command += ["--walltime", str(lifetime.seconds)]
    return (*command, *place.options())


def stated(amounts: Amounts) -> dict[str, float]:
    """The amounts that are stated, under the names that workers and tasks share."""
    found = {name: getattr(amounts, name) for name in AMOUNTS}
    return {f"cenote.{name}": float(amount) for name, amount in found.items() if amount}
