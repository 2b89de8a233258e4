"""Show the agents of a service as the workers of a session, so that strategies start and end them as those of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cenote.backends.interface import JoinedSession
from cenote.engine.messages import AnyEvent
from cenote.launch import Launch
from cenote.service.hub import Hub
from cenote.service.protocol import DrainAgent, Shutdown
from cenote.worker.process.credentials import DeliveredCredential
from cenote.worker.process.lifetime import Lifetime
from cenote.worker.task_spec import TaskSpec


class AgentSession(JoinedSession):
    """Agents join and leave; what they run goes past this, straight to the hub."""

    def __init__(self, hub: Hub, launch: Callable[[str, Lifetime | None], Launch]) -> None:
        self._hub, self._launch = hub, launch
        self._news: list[AnyEvent] = []

    def tell(self, event: AnyEvent) -> None:
        """Something happened to an agent; it comes out of `events`."""
        self._news.append(event)

    def events(self, seconds: float) -> list[AnyEvent]:  # noqa: ARG002  # nobody waits: the service has its own loop
        news, self._news = self._news, []
        return news

    def launch(self, pool: str, *, lifetime: Lifetime | None = None) -> Launch:
        return self._launch(pool, lifetime)

    def retire(self, workers: Sequence[str]) -> None:
        for worker in workers:
            self._hub.send(worker, DrainAgent())

    def drop(self, workers: Sequence[str]) -> None:
        for worker in workers:
            self._hub.send(worker, Shutdown())

    def close(self) -> None:
        self.drop(self._hub.workers)

    def run(self, spec: TaskSpec, pool: str) -> None:
        raise NotImplementedError("agents run instances of tasks, and no tasks of runs")

    def cancel(self, task: int) -> None:
        raise NotImplementedError("agents run instances of tasks, and no tasks of runs")

    def deliver(self, pool: str, credentials: Sequence[DeliveredCredential]) -> None:
        raise NotImplementedError("agents get no credentials")
