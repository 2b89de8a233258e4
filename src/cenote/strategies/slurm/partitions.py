"""Say which partitions of a cluster could hold a job that sbatch refused."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from cenote.language.execution import Amounts
from cenote.names import listed
from cenote.strategies.support.batch import NoAnswerError, ask, mebibytes
from cenote.text import format_amounts
from cenote.values import dataclass

_ABOUT_PARTITIONS = (
    *("node configuration", "partition configuration", "specification", "cpu count", "time limit"),
    *("generic resource", "invalid partition"),
)
"""Words of sbatch for a job that would fit, or would not, by where it goes."""
_COLUMNS = "%R|%c|%m|%G|%l"
_GPUS = re.compile(r"\bgpu(?::[^:,(]+)?:(\d+)")
_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?:(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>\d+)")


@dataclass(frozen=True)
class PartitionNode:
    """What a node has, and how long jobs of one of its partitions may run."""

    partition: str
    cpus: int
    memory: int
    """In MiB."""
    gpus: int
    seconds: float

    def holds(self, wanted: Amounts, walltime: int | None) -> bool:
        """Whether such a job could ever run there."""
        return (
            self.cpus >= math.ceil(wanted.cpus or 1)
            and self.memory >= mebibytes(wanted.memory or 0)
            and self.gpus >= (wanted.gpus or 0)
            and self.seconds >= (walltime or 0)
        )


def hint_for(said: str, wanted: Amounts, walltime: int | None) -> str | None:
    """What to do about what sbatch said of a job; None where partitions have nothing to do with it."""
    if not any(word in said.lower() for word in _ABOUT_PARTITIONS):
        return None
    try:
        nodes = list(_nodes(ask(["sinfo", "--noheader", "--Node", f"--format={_COLUMNS}"]).splitlines()))
    except (NoAnswerError, TimeoutError):
        return None
    able = _partitions(node for node in nodes if node.holds(wanted, walltime))
    if able:
        chosen = f"`config: {{partition: {able[0]}}}` of the pool"
        return f"by their CPUs, memory, GPUs and time these could hold it: {listed(able)}; choose one by {chosen}"
    if not nodes:
        return None
    amounts = format_amounts(wanted) or "such a job"
    return f"no partition has a node with {amounts} for that long; there are: {listed(_partitions(nodes))}"


def _partitions(nodes: Iterable[PartitionNode]) -> list[str]:
    return sorted({node.partition for node in nodes})


def _nodes(lines: Iterable[str]) -> Iterator[PartitionNode]:
    """Those that are told as expected."""
    for line in lines:
        name, _, facts = line.strip().partition("|")
        cpus, memory, gres, limit = (*facts.split("|"), "", "", "")[:4]
        if cpus.isdecimal() and memory.isdecimal():
            gpus = sum(int(count) for count in _GPUS.findall(gres))
            yield PartitionNode(name, int(cpus), int(memory), gpus, _seconds(limit))


def _seconds(limit: str) -> float:
    """`1-00:00:00`, `30:00`; `infinite` and what cannot be read are no limit."""
    match = _TIME.fullmatch(limit.strip())
    if match is None:
        return math.inf
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
