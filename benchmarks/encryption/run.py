"""Measure what certificates on every connection cost: Dask with those of a run against Dask without.

    python benchmarks/encryption/run.py [--rounds 7] [--megabytes 50] [--json FILE]

The promise is at most 0.2 s more to start, and at least 0.7 × the throughput between two workers.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import dask.config
import numpy as np
from distributed import Client, Scheduler, SpecCluster

from cenote.common.certificates.authority import identities_of
from cenote.execution.backends.dask.doors import NO_PAGES, RunSecurity, SecuredScheduler

MOST_SECONDS, LEAST_SPEED = 0.2, 0.7
"""The goals: more to start, and of the throughput."""
LOOPBACK = "127.0.0.1"
WORKER = str(Path(__file__).with_name("worker.py"))
MOVES = 8
"""Columns that go from one worker to the other in each round; the first pays for the connection."""


@dataclass
class Measured:
    """Of each round."""

    startup: list[float] = field(default_factory=list)
    """Seconds from nothing until two workers are there, without the time to import Dask here."""
    speed: list[float] = field(default_factory=list)
    """Bytes per second from one worker to the other, median of the round's columns."""


def main() -> None:
    """Take turns with certificates and without, and print how they compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--json", type=Path, default=None)
    asked = parser.parse_args()
    measured = {"without": Measured(), "with": Measured()}
    dask.config.set({**NO_PAGES, "distributed.comm.compression": None})
    for number in range(asked.rounds + 1):
        for name, found in measured.items():
            startup, speed = _round(secured=name == "with", size=asked.megabytes * 1_000_000)
            if number:  # the first round warms the machine up
                found.startup.append(startup)
                found.speed.append(speed)
    more, ratio = _compared(measured["with"], measured["without"])
    for name, found in measured.items():
        speed, startup = statistics.median(found.speed), statistics.median(found.startup)
        print(f"{name:8} certificates: start {startup:5.2f} s, {speed / 1e6:6.0f} MB/s between workers")
    print(f"start-up: {more:+.2f} s (goal: at most +{MOST_SECONDS} s)")
    print(f"throughput: {ratio:.2f} × (goal: at least {LEAST_SPEED} ×)")
    if asked.json is not None:
        asked.json.write_text(json.dumps({"startup": more, "throughput": ratio}), encoding="utf-8")


def _compared(secured: Measured, plain: Measured) -> tuple[float, float]:
    """Medians of what was measured side by side: seconds more, and the ratio of throughput."""
    more = statistics.median(one - other for one, other in zip(secured.startup, plain.startup, strict=True))
    return more, statistics.median(one / other for one, other in zip(secured.speed, plain.speed, strict=True))


def _round(*, secured: bool, size: int) -> tuple[float, float]:
    began = time.perf_counter()
    with _cluster(secured=secured) as client:
        client.wait_for_workers(2)
        startup = time.perf_counter() - began
        speeds = sorted(_move(client, size, number) for number in range(MOVES))
        return startup, statistics.median(speeds[1:])


@contextmanager
def _cluster(*, secured: bool) -> Iterator[Client]:
    """A scheduler here and two workers in processes of their own."""
    with ExitStack() as ended:
        options = {"host": LOOPBACK, "port": 0, "dashboard": False, "dashboard_address": f"{LOOPBACK}:0"}
        security, words = None, []
        if secured:
            identities = identities_of("benchmark")
            folder = Path(ended.enter_context(tempfile.TemporaryDirectory()))
            file = folder / "identity" / "run.pem"
            identities.workers.write(file)
            security, words = RunSecurity(identities.driver), [str(file)]
            options |= {"security": security, "local_directory": str(folder)}
        scheduler = {"cls": SecuredScheduler if secured else Scheduler, "options": options}
        cluster = ended.enter_context(SpecCluster(workers={}, scheduler=scheduler, security=security))
        for name in "ab":
            worker = subprocess.Popen([sys.executable, WORKER, cluster.scheduler.address, name, *words])
            ended.callback(worker.wait)
            ended.callback(worker.terminate)
        yield ended.enter_context(Client(cluster, set_as_default=False))


def column(size: int, number: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Bytes that nothing can compress."""
    return np.random.default_rng(number).integers(0, 256, size, dtype=np.uint8)


def last(values: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> int:
    """As little as one can do with a column."""
    return int(values[-1])


def _move(client: Client, size: int, number: int) -> float:
    """Bytes per second, with what Dask does around it."""
    made = client.submit(column, size, number, workers=["a"], pure=False)
    client.submit(last, made, workers=["a"], pure=False).result()  # it is there
    began = time.perf_counter()
    client.submit(last, made, workers=["b"], pure=False).result()
    return size / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
