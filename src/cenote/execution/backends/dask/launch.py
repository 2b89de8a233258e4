"""Say how a worker of the Dask backend is started."""

from __future__ import annotations

from collections.abc import Sequence

from cenote.common.values import dataclass
from cenote.execution.backends.support.ports import ports_in_words
from cenote.execution.launch import LOG, WORKER, Launch, LaunchingRun, Part, Sent, SentFile, words
from cenote.execution.worker.process.lifetime import Lifetime
from cenote.execution.worker.process.warm_processes import words_to_import
from cenote.language.execution import AMOUNTS, Amounts
from cenote.planning.placement.pools import PlacedPool
from cenote.planning.plan import Segment

_MODULE = "cenote.execution.backends.dask.worker"


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


def worker_launch(
    run: LaunchingRun,
    pool: PlacedPool,
    *,
    scheduler: str,
    lifetime: Lifetime | None,
    place: WorkerPlace,
    segments: Sequence[Segment] = (),
) -> Launch:
    """For machines that can reach the scheduler, to run tasks of these segments."""
    identity = SentFile(run.identity)
    options: list[Part] = [
        "--run",
        run.id,
        "--identity",
        Sent(identity.name),
        "--scheduler",
        scheduler,
        "--name",
        WORKER,
        f"--pool={pool.name}",
    ]
    options += ["--slots", str(pool.slots), "--log", LOG]
    if pool.granted.memory:
        options += ["--memory", str(pool.granted.memory)]
    for name, amount in stated(pool.granted).items():
        options += ["--resource", f"{name}={amount}"]
    if lifetime is not None:
        options += ["--walltime", str(lifetime.seconds)]
    return Launch(
        run=run,
        pool=pool.name,
        resources=pool.granted,
        module=_MODULE,
        arguments=words(*options, *place.options()),
        files=(identity,),
        scratch=place.scratch,
        warm=words_to_import(_MODULE, segments),
    )


def stated(amounts: Amounts) -> dict[str, float]:
    """The amounts that are stated, under the names that workers and tasks share."""
    found = {name: getattr(amounts, name) for name in AMOUNTS}
    return {f"cenote.{name}": float(amount) for name, amount in found.items() if amount}


def held(asked: Amounts, granted: Amounts) -> dict[str, float]:
    """What a task holds of its worker: what its stages ask for, as far as the worker has it.

    That the pool may run them was decided before: Dask would wait for ever for a worker that has more.
    """
    there = stated(granted)
    return {name: min(amount, there[name]) for name, amount in stated(asked).items() if name in there}
