"""State how Dask is configured: what both ends have in common, and what only the scheduler needs."""

from __future__ import annotations

from cenote.backends.dask.doors import NO_PAGES

EVERYWHERE: dict[str, object] = {
    **NO_PAGES,
    # Messages carry products, and Dask would keep the last thousand batches of them.
    "distributed.admin.low-level-log-length": 1,
    # Within a site the network is faster than the compressor, and so is the disk that memory spills to.
    "distributed.comm.compression": None,
    "distributed.worker.memory.spill-compression": None,
    # What Dask measures of itself is shown on its pages, which we have none of. It would look at its threads a hundred
    # times a second, and wake up its event loop fifty times: 3 % of a core for each idle worker.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.gil.enabled": False,
}
"""Of the scheduler and of workers, whatever a configuration file of Dask says."""
SCHEDULER: dict[str, object] = {
    **EVERYWHERE,
    "distributed.scheduler.allowed-failures": 1_000_000,  # our engine counts losses, and only of tasks that had begun
    "distributed.scheduler.worker-ttl": None,  # silent workers are our engine's business
    "distributed.admin.event-loop": "asyncio",
}
