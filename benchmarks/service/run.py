"""Measure how quickly instances start on a warm pool, and how many a second: beside HyperQueue, Ray and bare Dask.

    python benchmarks/service/run.py [--peers PYTHON] [--rounds 3] [--load 8] [--processes 1000] [--json FILE]
    python benchmarks/service/run.py --only-runs [--runs 4]

The promises: at most 30 ms from submit to start at the median, at least HyperQueue's rate of processes, 100,000 queued
instances in bounded memory, and at most 1 s from the command of a second run of a workflow to its first task.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from cenote.cli.start import TEMPLATES, start_analysis
from cenote.engine.messages import TaskStarted
from cenote.execution.runs.journal import read_events
from cenote.service.client.connection import Connection, connect
from cenote.service.client.home import ServiceHome, usual_home
from cenote.service.client.pool_handle import PoolHandle
from cenote.service.client.start import stop_service

HERE = Path(__file__).parent
GOAL_MS = 30
GOAL_RUN = 1
QUEUED = 100_000
_BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"
PEERS = ("hyperqueue", "ray", "dask")


@dataclass
class Measured:
    """Of each round."""

    waits: list[list[float]] = field(default_factory=list)
    """Seconds from submit until a command runs, by its own clock."""
    processes: list[float] = field(default_factory=list)
    """Seconds for all of them."""
    functions: list[float] = field(default_factory=list)
    """Seconds for calls of an empty function."""


def main() -> None:
    """Run the contenders one after the other, several times, and print how they compare."""
    asked = _arguments()
    _runs(asked.runs)
    if asked.only_runs:
        return
    names = ["cenote", "cenote, a process for each call"]
    measured = {name: Measured() for name in [*names, *(PEERS if asked.peers else ())]}
    contenders = [partial(_ours, measured, asked)]
    contenders += [partial(_peer, measured[peer], peer, asked) for peer in (PEERS if asked.peers else ())]
    with _load(asked.load):
        for number in range(asked.rounds):
            for contender in contenders if number % 2 == 0 else reversed(contenders):
                contender()
    _print(measured, asked)
    _queue(asked.queued)
    if asked.json:
        asked.json.write_text(json.dumps({name: vars(m) for name, m in measured.items()}, indent=1), encoding="utf-8")


@contextmanager
def _load(count: int) -> Iterator[None]:
    """So many other processes that want a CPU all the time; they end with this one."""
    others = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def _peer(measured: Measured, peer: str, asked: argparse.Namespace) -> None:
    numbers = (asked.latencies, asked.processes, asked.functions, asked.slots)
    command = [asked.peers, str(HERE / "peers.py"), peer, *map(str, numbers)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode:
        raise SystemExit(f"{peer} failed:\n{done.stderr}")
    found = json.loads(done.stdout.splitlines()[-1])
    measured.waits.append(found["waits"])
    measured.processes.append(found["processes"])
    if "functions" in found:
        measured.functions.append(found["functions"])


class _PrivateService:
    """A service of its own, in a folder of its own, ended at the end."""

    def __enter__(self) -> Connection:
        self._folder = tempfile.TemporaryDirectory(prefix="cenote-service-")
        os.environ["XDG_STATE_HOME"] = self._folder.name
        return connect()

    def __exit__(self, *_: object) -> None:
        stop_service(ServiceHome(usual_home()))
        self._folder.cleanup()


def _ours(measured: Mapping[str, Measured], asked: argparse.Namespace) -> None:
    with _PrivateService() as connection, tempfile.TemporaryDirectory() as folder:
        pool = connection.create_pool("warm", "local", asked.slots)
        pool.submit()
        pool.wait()
        list(pool.map(abs, range(2 * asked.slots), chunksize=1))  # starts the warm processes
        ours, each = measured["cenote"], measured["cenote, a process for each call"]
        ours.waits.append([_wait(connection, pool, Path(folder, str(number))) for number in range(asked.latencies)])
        began = time.time()
        task = connection.create_task("true", pool, asked.processes)
        task.command = "true"
        assert task.wait(), task.why
        ours.processes.append(time.time() - began)
        for contender, size in ((ours, None), (each, 1)):
            began = time.time()
            assert list(pool.map(int, range(asked.functions), chunksize=size)) == list(range(asked.functions))
            contender.functions.append(time.time() - began)
        pool.close()


def _wait(connection: Connection, pool: PoolHandle, file: Path) -> float:
    task = connection.create_task("stamp", pool, 1)
    task.command = f"date +%s.%N > {file}"
    began = time.time()
    assert task.wait(), task.why
    return float(file.read_text()) - began


def _queue(count: int) -> None:
    """Memory of a service with so many waiting instances, and of an agent that has run some."""
    with _PrivateService() as connection:
        service = connection.service.pid
        empty = connection.create_pool("empty", "local", 0)
        empty.submit()
        before = _resident(service)
        task = connection.create_task("many", empty, count)
        task.command = "true"
        began = time.time()
        task.submit()
        took = time.time() - began
        after = _resident(service)
        print(
            f"{count:,} queued instances: {1000 * took:.0f} ms to queue, the service grows from {before} to {after} MB"
        )
        pool = connection.create_pool("one", "local", 1)
        pool.submit()
        agents = []
        for many in (100, 2000):
            task = connection.create_task("some", pool, many)
            task.command = "true"
            assert task.wait(), task.why
            agents.append(max(_resident(pid) for pid in _children(service)))
        print(f"the agent has {agents[0]} MB after 100 instances and {agents[1]} MB after 2,100", end="; ")
        print(f"the service then has {_resident(service)} MB")
        empty.delete()
        pool.close()


def _runs(count: int) -> None:
    """Seconds from the command to the first task of the three-pool example, one run after the other."""
    with _PrivateService() as connection, tempfile.TemporaryDirectory(prefix="cenote-runs-") as folder:
        template = TEMPLATES["three-pools"]
        start_analysis(Path(folder), template, force=False)
        for verb, words in (("run", ()), ("submit", ("--wait",))):
            before = os.getloadavg()[0]
            found = [_first_task(Path(folder), template.workflow, verb, words, number) for number in range(count)]
            shown = ", ".join(f"{seconds:.2f}" for seconds in found)
            later = f"; median after the first {statistics.median(found[1:]):.2f} s" if count > 1 else ""
            print(f"`cenote {verb} --service` to its first task: {shown} s{later} (load {before:.1f} at the start)")
            if verb == "run":
                print("  its first run makes the pools, and is driven where it was typed")
        for pool in connection.pools():
            pool.close()
    print(f"the goal is {GOAL_RUN} s")


def _first_task(folder: Path, workflow: str, verb: str, words: Sequence[str], number: int) -> float:
    out = folder / f"{verb}-{number}"
    began = time.time()
    command = [str(Path(sys.executable).with_name("cenote")), verb, workflow, "--service", "--out", str(out), *words]
    subprocess.run(command, cwd=folder, capture_output=True, timeout=600, check=True)
    return min(event.at for event in read_events(out) if isinstance(event, TaskStarted)) - began


def _resident(pid: int) -> int:
    """Megabytes."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))


def _children(pid: int) -> list[int]:
    return [int(word) for file in Path(f"/proc/{pid}/task").glob("*/children") for word in file.read_text().split()]


def _print(measured: Mapping[str, Measured], asked: argparse.Namespace) -> None:
    print(
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs, {asked.slots} slots; medians of {asked.rounds} rounds"
    )
    head = ("start, median", "95 %", "× ours", "processes/s", "× ours", "calls/s", "× ours")
    print(f"{'':32}" + "".join(f"{word:>15}" for word in head))
    ours = measured["cenote"]
    for name, found in measured.items():
        middles = [statistics.median(waits) for waits in found.waits]
        highs = [statistics.quantiles(waits, n=20)[-1] for waits in found.waits]
        words = [""] * 7
        if middles:
            mine = [statistics.median(waits) for waits in ours.waits]
            words[:3] = [
                f"{1000 * statistics.median(middles):.1f} ms",
                f"{1000 * statistics.median(highs):.1f} ms",
                _ratio(middles, mine),
            ]
        for place, many, times, mine in (
            (3, asked.processes, found.processes, ours.processes),
            (5, asked.functions, found.functions, ours.functions),
        ):
            if times:
                words[place : place + 2] = [f"{many / statistics.median(times):,.0f}", _ratio(mine, times)]
        print(f"{name:32}" + "".join(f"{word:>15}" for word in words))
    print(f"the goals are {GOAL_MS} ms at the median, and at least the processes/s of HyperQueue")


def _ratio(these: Sequence[float], others: Sequence[float]) -> str:
    return f"{statistics.median(a / b for a, b in zip(these, others, strict=True)):.2f}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", metavar="PYTHON", help="a Python with hyperqueue, ray and distributed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--load", type=int, default=0, help="other processes that compute meanwhile")
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--latencies", type=int, default=50)
    parser.add_argument("--processes", type=int, default=1000)
    parser.add_argument("--functions", type=int, default=1000)
    parser.add_argument("--queued", type=int, default=QUEUED)
    parser.add_argument("--runs", type=int, default=4, help="of the three-pool example, with `run` and with `submit`")
    parser.add_argument("--only-runs", action="store_true", help="measure nothing else")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
