"""Read what an agent is told on its command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from cenote.values import dataclass

DEFAULT_WARM = ("numpy", "numpy.random", "awkward", "cenote.worker.run_task")


@dataclass(frozen=True)
class AgentOptions:
    """Who an agent is, and whom it belongs to."""

    host: str
    port: int
    """Where the service listens for agents."""
    identity: Path
    """The private file with its certificate."""
    name: str
    pool: str
    slots: int
    scratch: str
    """The folder of the node, with `$VARIABLES`, in which it makes one of its own."""
    orphan: float = 600.0
    """Seconds without the service after which it ends itself."""
    walltime: int | None = None
    """Seconds from the start of its job until the batch system ends it."""
    warm: tuple[str, ...] | None = None
    """Modules that Python instances find imported; the process that has them starts with the agent. Without them it
    starts with the first Python instance, and has the usual ones."""


def read_options(words: Sequence[str]) -> AgentOptions:
    """Ends the process where they are wrong, with the reason on stderr."""
    parser = argparse.ArgumentParser("cenote.service.agent.main", description="Run instances of tasks on this node.")
    parser.add_argument("--hub", required=True, metavar="HOST:PORT", help="where the service listens for agents")
    parser.add_argument("--identity", required=True, type=Path, metavar="FILE", help="the agent's certificate")
    parser.add_argument("--name", required=True, help="of the worker")
    parser.add_argument("--pool", required=True, help="that it belongs to")
    parser.add_argument("--slots", required=True, type=_at_least_one, help="instances at once")
    parser.add_argument("--scratch", required=True, metavar="DIR", help="folder for the instances' files")
    parser.add_argument(
        "--orphan", type=float, default=AgentOptions.orphan, metavar="SECONDS", help="to wait for a lost service"
    )
    parser.add_argument("--walltime", type=_at_least_one, metavar="SECONDS", help="until the batch system ends it")
    parser.add_argument("--warm", action="append", metavar="MODULE", help="imported before Python instances start")
    read = parser.parse_args(words)
    host, colon, port = read.hub.rpartition(":")
    if not colon or not port.isdecimal():
        parser.error(f"--hub {read.hub}: expected HOST:PORT")
    return AgentOptions(
        host=host.strip("[]"),
        port=int(port),
        identity=read.identity,
        name=read.name,
        pool=read.pool,
        slots=read.slots,
        scratch=read.scratch,
        orphan=read.orphan,
        walltime=read.walltime,
        warm=tuple(read.warm) if read.warm else None,
    )


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a number of at least 1")
    return int(text)
