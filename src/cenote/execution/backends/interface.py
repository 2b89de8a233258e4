"""Backends open a session, which runs tasks; where strategies start its workers, these join it and leave it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from cenote.common.values import dataclass
from cenote.engine.messages import AnyEvent
from cenote.execution.launch import Launch, LaunchingRun
from cenote.execution.worker.process.credentials import DeliveredCredential
from cenote.execution.worker.process.lifetime import Lifetime
from cenote.execution.worker.task_spec import RunSpec, TaskSpec
from cenote.language.plugins.settings import Plugin
from cenote.planning.placement.pools import PlacedPool


@dataclass(frozen=True)
class ExpectedWork:
    """What is to be done, as far as that is known beforehand."""

    seconds: float
    """Of one core, for all tasks together."""
    events: int
    """That tasks read."""


@dataclass(frozen=True)
class SessionRequest:
    """What a session needs to know."""

    run: LaunchingRun
    run_spec: RunSpec
    pools: tuple[PlacedPool, ...]
    store: Path
    """Where products are kept under their content hash."""
    cpus: int
    """How many processes may compute at once on this machine."""
    work: ExpectedWork
    processes_asked: bool
    """Whether somebody asked for a number of processes: they are started, however little there is to do."""
    in_process: bool
    """Whether tasks may run in the driver's own process: its software is that of the workers."""
    clock: Callable[[], float]
    complete: Callable[[Launch], Launch]
    """Adds what the pool of a launch asks for: its environment. For sessions that start processes themselves."""


@dataclass(frozen=True)
class MeetingPoint:
    """Where a driver listens for workers of other machines."""

    host: str
    """An address of this machine."""
    ports: range
    """The first free one of these; 0 stands for any."""
    contact: str | None = None
    """What workers are told instead, with a port or without: `driver.example:8786`."""


class EventSource(ABC):
    """Reports what happens, until it is closed. Only one thread may use it."""

    @abstractmethod
    def events(self, seconds: float) -> list[AnyEvent]:
        """What happened; waits up to this long for the first event."""

    @abstractmethod
    def close(self) -> None:
        """End all workers now. Nothing is left running."""


class Session(EventSource):
    """Runs tasks: they go in, and events come out. Its workers join by themselves, unless it is a `JoinedSession`."""

    occupies_driver: bool = False
    """Whether tasks run in the thread that asks for events: the driver can do nothing beside them."""

    @abstractmethod
    def run(self, spec: TaskSpec, pool: str) -> None:
        """Take a task for a pool; it waits here until a worker of that pool is free."""

    @abstractmethod
    def cancel(self, task: int) -> None:
        """Stop a task, started or not; an event tells when it is gone. One that is gone already is not an error."""

    def forget(self, names: Sequence[str]) -> None:  # most sessions keep nothing themselves
        """Nobody will read these results any more; what is not here is not an error."""


class JoinedWorkers(EventSource):
    """Workers that were started elsewhere, by strategies, and joined: events tell who comes and goes."""

    @abstractmethod
    def retire(self, workers: Sequence[str]) -> None:
        """Let these workers end once their data is handed over; returns at once."""

    @abstractmethod
    def drop(self, workers: Sequence[str]) -> None:
        """Have nothing to do with these workers any more: they do not answer. Returns at once."""


class JoinedSession(Session, JoinedWorkers):
    """Runs tasks on workers that join it."""

    @abstractmethod
    def launch(self, pool: str, *, lifetime: Lifetime | None = None) -> Launch:
        """How workers of this pool are started, on any machine that can reach us: what they run, and nothing about
        the software there. They log to `LOG` where that can be opened, else to their stderr."""

    @abstractmethod
    def deliver(self, pool: str, credentials: Sequence[DeliveredCredential]) -> None:
        """From now on, workers of this pool have these: those that join before their first task, and those that are
        there soon. They travel where only the run's own workers can read them, and end with the worker."""


class Workers(ABC):
    """Starts and ends the workers of a run, as its engine asks for them."""

    @abstractmethod
    def start_workers(self, pool: str, count: int) -> None:
        """Ask for so many workers; returns at once, events tell what becomes of each."""

    @abstractmethod
    def stop_workers(self, pool: str, workers: tuple[str, ...], reason: str) -> None:
        """End these workers once their data is handed over; returns at once, events tell when they are gone."""

    @abstractmethod
    def end_workers(self, pool: str, workers: tuple[str, ...], reason: str) -> None:
        """End these workers, which do not answer, with whatever they run; returns at once, events tell of them."""


class Backend(Plugin):
    """Opens sessions. Its fields are the settings under `execution.config` that it knows."""

    runs_here: ClassVar[bool] = False
    """Whether it runs all tasks on this machine by itself, so that strategies start no workers for it."""
    shares_process: ClassVar[bool] = True
    """Whether the tasks that a worker runs at once share its process, so that no one can tell whose memory it is."""
    packages: ClassVar[tuple[str, ...]] = ()
    """What its workers need besides what everything needs."""

    @classmethod
    def missing_package(cls) -> str | None:
        """The first of `packages` that is not installed here; nothing is imported."""
        return next((name for name in cls.packages if find_spec(name) is None), None)

    @abstractmethod
    def open(self, request: SessionRequest) -> Session:
        """Start what is needed to run tasks."""

    def meeting_point(self, pools: Sequence[PlacedPool]) -> MeetingPoint | None:
        """Where workers of these pools would find the driver; None where nobody has to.

        Raises `network` when it cannot listen as its settings say.
        """
        del pools
        return None

    def launch(
        self, run: LaunchingRun, pools: Sequence[PlacedPool], pool: PlacedPool, *, lifetime: Lifetime | None
    ) -> Launch | None:
        """How workers of one of these pools would be started, before there is a session: what is not known yet is
        written in capitals. None where it is not for strategies to start workers."""
        del run, pools, pool, lifetime
        return None
