"""The worker of the Dask backend: a Dask worker that belongs to a pool and runs its tasks.

Started by `cenote.execution.worker.process.start`. It ends when its scheduler is gone, and when it goes beyond its
memory, which it says first.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import dask.config
from distributed import Status, Worker

from cenote.common import software
from cenote.common.certificates.identity import Identity, refusal_in_words
from cenote.common.units import format_bytes
from cenote.execution.backends.dask import private
from cenote.execution.backends.dask.doors import EVERYWHERE, RunSecurity
from cenote.execution.backends.dask.leaving import Drain
from cenote.execution.backends.dask.lending import LendingWorker
from cenote.execution.backends.dask.messages import SOFTWARE
from cenote.execution.backends.dask.run_bundle import OwnPlace, pool_resource
from cenote.execution.start_failures import StartFailure
from cenote.execution.worker.process.alarm import listen_to_alarm
from cenote.execution.worker.process.lifetime import grace_of_job, lifetime_of_job
from cenote.execution.worker.process.memory import keep_freed_memory
from cenote.execution.worker.process.reach import PATIENCE, bracketed, facing, leave_if_unreachable
from cenote.execution.worker.process.scratch import keep_temporary_files, leave_scratch, make_scratch, take_scratch
from cenote.execution.worker.process.user_output import say_lines_at_once

_LOOK_EVERY = 0.1
_TO_JOIN = "60s"
"""For a driver that is there, and too busy to take a worker at once."""
_TO_TELL = 10.0
"""Seconds for the driver to hear in what this worker differs."""
_TO_CLOSE = 2.0
"""Seconds that a worker gets to close; after that it ends, whatever its tasks are at."""
_LOG = logging.getLogger("cenote.worker")
_OWN_HANDLERS = ("distributed", "tornado", "bokeh")
"""Libraries whose logs Dask sends to stderr when it is imported: stderr is for what the user's code says."""


async def _serve(options: argparse.Namespace, scratch: Path, differs: str) -> None:
    resources = {pool_resource(options.pool): float(options.slots)}
    resources |= {name: float(amount) for name, amount in (pair.split("=") for pair in options.resource)}
    worker = LendingWorker(
        options.scheduler,
        security=_security(options.identity),
        protocol="tls",
        name=options.name,
        nthreads=options.slots,
        resources=resources,
        memory_limit=options.memory or 0,
        local_directory=str(scratch),
        death_timeout=_TO_JOIN,
        host=_host(options),
        interface=options.interface,
        port=options.ports.replace("-", ":") if options.ports else None,
        dashboard=False,
    )
    leave_if_unreachable(options.scheduler, lambda: worker.status is Status.running, options.patience)
    worker.place = OwnPlace(options.pool, scratch)
    worker.drain = Drain(*lifetime_of_job(options.walltime, os.environ, time.time()))
    if differs:  # before it joins: the run may be over soon after
        _LOG.warning("%s has other software than the driver: %s", options.name, differs)
        with suppress(Exception):  # it is a warning, and not worth a worker
            await _tell(options, differs, refused=False)
    await _start(worker, options)
    async with worker:
        threading.Thread(target=_end_with, args=(worker,), daemon=True).start()
        leaving = asyncio.create_task(worker.drain.attend(worker))
        if grace := grace_of_job(os.environ):
            words = "it was asked to end"
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.drain.end_within, grace, words)
        await worker.finished()
        leaving.cancel()


def _security(file: Path) -> RunSecurity:
    try:
        return RunSecurity(Identity.read(file))
    except OSError as problem:
        sys.exit(f"this worker could not start: it cannot read its certificate {file}: {refusal_in_words(problem)}")


def _host(options: argparse.Namespace) -> str | None:
    """The address to listen on: as it was told, or else the one from which the scheduler is reached; never all."""
    if options.interface:
        return None
    return bracketed(options.host or _facing(options.scheduler, options.patience))


def _facing(scheduler: str, patience: float) -> str:
    until = time.monotonic() + patience
    while True:
        try:
            return facing(scheduler)
        except OSError as problem:  # a name server may be late
            if time.monotonic() > until:
                sys.stderr.write(f"this worker could not start: no way to {scheduler}: {refusal_in_words(problem)}\n")
                sys.exit(StartFailure.NO_DRIVER.value.code)
            time.sleep(_LOOK_EVERY)


async def _start(worker: Worker, options: argparse.Namespace) -> None:
    """Start it, or end with one line for the reason: what Dask raises last says only that it failed."""
    try:
        await worker
    except TimeoutError:
        sys.exit(f"the driver at {options.scheduler} did not take this worker within {_TO_JOIN}")
    except Exception as problem:
        _LOG.exception("%s could not start", options.name)
        first: BaseException = problem
        while (cause := first.__cause__ or first.__context__) is not None:
            first = cause
        sys.exit(f"this worker could not start: {refusal_in_words(first) if isinstance(first, OSError) else first}")


def _end_with(worker: Worker) -> None:
    """End this process once the worker closes (its scheduler is gone): tasks cannot be stopped and may take hours."""
    while worker.status not in (Status.closing, Status.closed, Status.failed):
        time.sleep(_LOOK_EVERY)
    time.sleep(_TO_CLOSE)
    _LOG.warning("%s was asked to end, or lost its scheduler, while busy: ending now", worker.name)
    leave_scratch()
    logging.shutdown()
    os._exit(0)


def _keep_log(file: Path | None) -> None:
    """Log to this file, or to stderr where it cannot be opened: this machine may not share the run's folder."""
    handler: logging.Handler = logging.StreamHandler()
    if file is not None:
        with suppress(OSError):
            handler = logging.FileHandler(file, encoding="utf-8")
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", handlers=[handler], force=True
    )
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in _OWN_HANDLERS:
            logging.getLogger(name).handlers.clear()
            logging.getLogger(name).propagate = True


def _scratch(options: argparse.Namespace) -> Path:
    """For data that memory cannot hold, and for temporary files too where a place for both is given.

    Dask would leave its own when the process is ended.
    """
    folder = take_scratch(options.scratch, options.name) if options.scratch else None
    if folder is not None:
        keep_temporary_files(folder)
        return folder
    place = Path(dask.config.get("temporary-directory", None) or tempfile.gettempdir())
    try:
        return make_scratch(place, options.name)
    except OSError as problem:
        sys.exit(f"this worker could not start: no folder for temporary files: {problem}")


def _end_for_signal(number: int, _: object) -> None:
    """Leave nothing on the node, and end as the signal would have."""
    leave_scratch()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


async def _tell(options: argparse.Namespace, found: str, *, refused: bool) -> None:
    """Say to the driver in what this worker's software differs from its own."""
    said = {"worker": options.name, "pool": options.pool, "words": found, "refused": refused}
    asking = private.ask_from_outside(options.scheduler, _security(options.identity), SOFTWARE, **said)
    await asyncio.wait_for(asking, _TO_TELL)


def turned_away(reason: str) -> None:
    """Tell the driver why there is no worker: its node may have no way to send home what it wrote."""
    asyncio.run(_tell(_options(), reason, refused=True))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A worker of one pool of a run.")
    parser.add_argument("--run", default="", help="id of the run, shown in process listings")
    parser.add_argument("--scheduler", required=True)
    parser.add_argument("--identity", type=Path, required=True, help="file with its certificate and key")
    parser.add_argument("--name", required=True)
    parser.add_argument("--pool", required=True)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--memory", type=int, default=0, help="bytes; 0 for no limit")
    parser.add_argument("--resource", action="append", default=[], help="NAME=AMOUNT")
    parser.add_argument("--scratch", default=None, help="folder for temporary files and what memory cannot hold")
    parser.add_argument("--host", default=None, help="address to listen on")
    parser.add_argument("--interface", default=None, help="network interface to listen on")
    parser.add_argument("--ports", default=None, help="FIRST-LAST: port to listen on, the first that is free")
    parser.add_argument(
        "--walltime", type=int, default=None, help="seconds until it must have handed over its data and left"
    )
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds to keep looking for a lost scheduler")
    parser.add_argument("--log", type=Path, default=None, help="file for what it logs; stderr where there is none")
    return parser.parse_args()


def warm_up() -> None:
    """Do what takes Dask long once in a process, and is the same in all that are forked from it."""
    private.look_up_versions()


def main(differences: Sequence[software.Difference] = ()) -> None:
    """Run the worker, which differs so from its driver."""
    options = _options()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which tells us
    listen_to_alarm()
    faulthandler.enable(all_threads=False)  # a crash in a library leaves its stack in stderr
    _keep_log(options.log)
    keep_freed_memory()
    dask.config.set(EVERYWHERE)
    say_lines_at_once()
    limit = format_bytes(options.memory) if options.memory else "none"
    facts = (options.name, options.run, os.getpid(), options.slots, limit)
    _LOG.info("%s begins: run %s, process %d, slots %d, memory limit %s", *facts)
    signal.signal(signal.SIGTERM, _end_for_signal)
    scratch = _scratch(options)
    try:
        asyncio.run(_serve(options, scratch, software.in_words(differences)))
    finally:
        leave_scratch()
    _LOG.info("%s ends", options.name)


if __name__ == "__main__":  # where no driver is named to compare with
    main()
