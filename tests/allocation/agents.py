"""Model the workers of pools: they run what they are sent, and keep what they could not say."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from cenote.service.allocator.messages import AttemptId, InstanceEnded, InstancesKnown


class BrokenRuleError(Exception):
    """Something happened that must never happen."""


def require(holds: bool, otherwise: str) -> None:
    """Raise where a rule is broken."""
    if not holds:
        raise BrokenRuleError(otherwise)


@dataclass
class Agent:
    """One worker: a process on a node, which outlives the service."""

    name: str
    pool: str
    slots: int
    joined: bool = False
    connected: bool = False
    """Whether what it says arrives."""
    greeting: InstancesKnown | None = None
    """What it said when it connected, until the service has heard it."""
    draining: bool = False
    running: set[AttemptId] = field(default_factory=set)
    finished: dict[AttemptId, InstanceEnded] = field(default_factory=dict)
    """Ended, and not acknowledged."""

    @property
    def listens(self) -> bool:
        """Whether it can be sent anything: nothing is, before its greeting was handled."""
        return self.connected and self.greeting is None

    def knows(self, attempt: AttemptId) -> bool:
        """Whether it was sent this already."""
        return attempt in self.running or attempt in self.finished

    def hello(self, at: float) -> InstancesKnown:
        """What it says when it connects."""
        return InstancesKnown(
            at=at,
            worker=self.name,
            pool=self.pool,
            running=tuple(sorted(self.running)),
            finished=tuple(sorted(self.finished)),
        )


class Nodes:
    """All workers that are alive, and what has ever run on them."""

    def __init__(self) -> None:
        self.alive: dict[str, Agent] = {}
        self.runs: Counter[AttemptId] = Counter()
        """How often each attempt began to run."""
        self.acknowledged: set[tuple[str, int]] = set()
        """Instances whose success is in the log."""

    def run(self, agent: Agent, attempt: AttemptId) -> None:
        """A process begins."""
        instance = (attempt.task, attempt.instance)
        elsewhere = [
            other.name
            for other in self.alive.values()
            if any((one.task, one.instance) == instance for one in other.running)
        ]
        require(not elsewhere, f"{attempt} begins on {agent.name} while the instance runs on {elsewhere}")
        require(len(agent.running) < agent.slots, f"{attempt} begins on {agent.name}, which has no free slot")
        require(instance not in self.acknowledged, f"{attempt} begins though the instance has succeeded")
        self.runs[attempt] += 1
        require(self.runs[attempt] == 1, f"{attempt} begins for the second time")
        agent.running.add(attempt)
