"""The Dask backend: one scheduler of ours, several kinds of workers, every task sent to its pool.

Our engine decides which pool, how many workers, and what to try again; Dask decides which worker inside the pool, and
moves events from worker to worker: packed once (`worker/results/packed_events.py`), lent without a copy within a
machine (`lending.py`), sent otherwise. Products come home with the news that a task is done, and are stored here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from cenote.execution.backends.dask.launch import WorkerPlace, worker_launch
from cenote.execution.backends.dask.network import LOOPBACK, Network, is_everywhere, is_loopback
from cenote.execution.backends.interface import Backend, MeetingPoint, Session, SessionRequest
from cenote.execution.backends.support.ports import ANY_PORT, Address, Ports
from cenote.execution.launch import Launch, LaunchingRun
from cenote.execution.worker.process.lifetime import Lifetime
from cenote.language.plugins.settings import Seconds
from cenote.planning.placement.pools import PlacedPool


class Dask(Backend):
    """Runs tasks on workers that join a Dask scheduler in this process."""

    example: ClassVar[str] = """
    execution:
      backend: dask
      config: {port: 20000-20100, worker_ports: 30000-30999}
    """

    packages: ClassVar[tuple[str, ...]] = ("dask", "distributed", "cloudpickle", "msgpack")

    host: str | None = None
    """Address that the scheduler listens on, which workers must reach: by default loopback when all of them are on
    this machine, else the address of the `interface`, or the one by which the machine reaches others. It listens on
    all addresses only where you write `0.0.0.0`, with a warning."""
    interface: str | None = None
    """Network interface to listen on, where no `host` is given and workers are on other machines: `ib0`."""
    port: Ports | None = None
    """Port of the scheduler, or a range of which the first free one is taken: `20000-20100`. By default any."""
    contact: Address | None = None
    """What workers on other machines are told instead of the address listened on, behind NAT or a forwarded port:
    `driver.example:8786`."""
    worker_interface: str | None = None
    """Network interface of the nodes that workers listen on: `ib0`. By default they listen on the address from which
    their node reaches the scheduler."""
    worker_ports: Ports | None = None
    """Ports that workers listen on, one each, where a firewall lets only some through: `30000-30999`."""
    scratch: str | None = None
    """Folder of the nodes for temporary files and data that memory cannot hold: `$TMPDIR`, `/scratch/$USER`. Variables
    are those of the node; it is made if missing, and each worker removes what it kept there."""

    patience: Seconds = Field(default=60, ge=1)
    """How long a worker may be silent (stopped, its node or file system hangs) until it is ended and replaced. After
    ten seconds of silence `cenote why` says so, and what the worker has not begun goes to others. On other machines,
    code that holds Python's lock counts as silence too: give it more time than such code takes."""

    def open(self, request: SessionRequest) -> Session:
        """Start the scheduler."""
        from cenote.execution.backends.dask.session import DaskSession  # a file is planned without Dask

        return DaskSession(request, self._network(request.pools), self.patience)

    def meeting_point(self, pools: Sequence[PlacedPool]) -> MeetingPoint:
        """Where the scheduler would listen."""
        return self._network(pools).meeting_point()

    def launch(
        self, run: LaunchingRun, pools: Sequence[PlacedPool], pool: PlacedPool, *, lifetime: Lifetime | None
    ) -> Launch:
        """With an example of the scheduler's address."""
        network = self._network(pools)
        return worker_launch(run, pool, scheduler=network.example(), lifetime=lifetime, place=network.workers)

    def _network(self, pools: Sequence[PlacedPool]) -> Network:
        ports = self.port or ANY_PORT
        if all(pool.starts_here or pool.near for pool in pools):
            host = self.host or LOOPBACK
            own = None if is_everywhere(host) else host
            return Network(WorkerPlace(own, scratch=self.scratch), host, ports=ports)
        loopback = self.host if is_loopback(self.host) else None  # any other address of ours is not one of theirs
        workers = WorkerPlace(loopback, self.worker_interface, self.worker_ports, self.scratch)
        return Network(workers, self.host or None, self.interface, ports, self.contact)
