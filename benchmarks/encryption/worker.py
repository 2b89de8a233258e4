"""A worker of the benchmark: `python worker.py SCHEDULER NAME [IDENTITY]`; with a certificate where one is given."""

import asyncio
import sys
from pathlib import Path

import dask.config
from distributed import Worker

from cenote.common.certificates.identity import Identity
from cenote.execution.backends.dask.doors import NO_PAGES, RunSecurity, SecuredWorker


async def main() -> None:
    """Serve until the scheduler is gone."""
    dask.config.set({**NO_PAGES, "distributed.comm.compression": None})
    scheduler, name, *identity = sys.argv[1:]
    options = {"name": name, "nthreads": 1, "host": "127.0.0.1", "dashboard": False}
    if identity:
        file = Path(identity[0])
        security, folder = RunSecurity(Identity.read(file)), str(file.parent)
        worker = SecuredWorker(scheduler, security=security, protocol="tls", local_directory=folder, **options)
    else:
        worker = Worker(scheduler, **options)
    async with worker:
        await worker.finished()


if __name__ == "__main__":
    asyncio.run(main())
