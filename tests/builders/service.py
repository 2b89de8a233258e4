"""Tell stories of the service's allocator in a few words: events in, commands out, and the log that it leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from cenote.engine.messages import LossCause, StartWorkers, Tick, WorkerJoined, WorkerLost, WorkerRequested
from cenote.language.execution import Amounts, Elastic
from cenote.language.schema.service import ShareRules, Shares
from cenote.service.allocator.allocator import Allocator, entries
from cenote.service.allocator.messages import (
    AttemptId,
    InstanceEnded,
    InstancesKnown,
    InstanceStarted,
    PoolAdded,
    RecordDecision,
    ServiceCommand,
    ServiceEvent,
    StartInstance,
    StopInstance,
    TaskAdded,
)
from cenote.service.client.definitions import PoolDefinition, TaskDefinition


class ServiceStory:
    """An allocator, its clock and its log. Workers obey at once: those that are asked for join."""

    def __init__(self) -> None:
        self.allocator = Allocator()
        self.now = 1000.0
        self.log: list[ServiceEvent] = []
        self.running: dict[AttemptId, str] = {}
        """Attempts that were started and have not ended → their worker."""
        self.stopped: list[StopInstance] = []
        self._names = 0

    def after(self, *events: ServiceEvent) -> list[ServiceCommand]:
        """What these events lead to, one after the other."""
        commands: list[ServiceCommand] = []
        for event in events:
            found = self.allocator.handle(event)
            self.log += entries(event, found)
            self.watch(found)
            commands += found
        return commands

    def watch(self, commands: Iterable[ServiceCommand]) -> None:
        """Remember what was started and stopped."""
        for command in commands:
            if isinstance(command, StartInstance):
                self.running[AttemptId(command.task, command.instance, command.attempt)] = command.worker
            elif isinstance(command, StopInstance):
                self.stopped.append(command)

    def add_pool(self, pool: PoolDefinition) -> list[ServiceCommand]:
        """A pool whose workers all come."""
        return self.obey(self.after(PoolAdded(at=self.now, pool=pool)))

    def obey(self, commands: list[ServiceCommand]) -> list[ServiceCommand]:
        """Workers that are asked for join; what follows is added."""
        for command in commands:
            if isinstance(command, StartWorkers):
                for _ in range(command.count):
                    commands = [*commands, *self.join(command.pool)]
        return commands

    def join(self, pool: str, worker: str = "") -> list[ServiceCommand]:
        """One worker comes."""
        self._names += 1
        name = worker or f"{pool}-{self._names}"
        view = next(view for view in self.allocator.pools() if view.definition.name == pool)
        return self.after(
            WorkerRequested(at=self.now, pool=pool, worker=name),
            WorkerJoined(at=self.now, pool=pool, worker=name, slots=view.definition.slots),
        )

    def add_task(self, task: TaskDefinition) -> list[ServiceCommand]:
        """A task joins the queue."""
        return self.after(TaskAdded(at=self.now, task=task))

    def begin(self) -> list[ServiceCommand]:
        """Everything that was started says so."""
        return self.after(
            *(
                InstanceStarted(at=self.now, task=one.task, instance=one.instance, attempt=one.attempt, worker=worker)
                for one, worker in self.running.items()
            )
        )

    def end(self, task: str, instance: int, *, code: int | None = 0, **more: Any) -> list[ServiceCommand]:
        """The running attempt of an instance ends."""
        attempt = next(one for one in self.running if one.task == task and one.instance == instance)
        worker = self.running.pop(attempt)
        event = InstanceEnded(
            at=self.now,
            task=task,
            instance=instance,
            attempt=attempt.attempt,
            worker=worker,
            exit_code=code,
            cause=more.pop("cause", "exit"),
            **more,
        )
        return self.after(event)

    def lose(self, worker: str, *, cause: LossCause = "died", pool: str = "cpu") -> list[ServiceCommand]:
        """A worker is gone, with all that it ran."""
        self.running = {one: where for one, where in self.running.items() if where != worker}
        return self.after(WorkerLost(at=self.now, worker=worker, pool=pool, reason="no more", cause=cause))

    def later(self, seconds: float) -> list[ServiceCommand]:
        """Time passes."""
        self.now += seconds
        return self.after(Tick(at=self.now))

    def restart(self, events: list[ServiceEvent] | None = None) -> list[ServiceCommand]:
        """The service is killed, and started again from its log."""
        self.log = list(self.log if events is None else events)
        self.allocator = Allocator.replay(self.log)
        commands = self.allocator.resume(self.now)
        self.log += [command.event for command in commands if isinstance(command, RecordDecision)]
        return commands

    def come_back(self, worker: str, pool: str = "cpu", *, slots: int = 1) -> list[ServiceCommand]:
        """A worker says what it runs, and offers its slots again."""
        mine = tuple(one for one, where in self.running.items() if where == worker)
        return self.after(
            InstancesKnown(at=self.now, worker=worker, pool=pool, running=mine),
            WorkerJoined(at=self.now, worker=worker, pool=pool, slots=slots),
        )

    @property
    def slots_of_users(self) -> dict[str, int]:
        """User → instances that run."""
        users = {view.definition.id: view.definition.user for view in self.allocator.tasks()}
        return dict(Counter(users[one.task] for one in self.running))


def a_service_pool(name: str = "cpu", *, workers: int | None = 2, **more: Any) -> PoolDefinition:
    """Two workers with a slot each, unless told otherwise."""
    if "elastic" in more:
        workers = None
    return PoolDefinition(name=name, workers=workers, **more)


def an_elastic_size(*, most: int = 4, least: int = 0, idle: int = 10) -> Elastic:
    """A pool that grows and shrinks quickly."""
    return Elastic(min=least, max=most, idle_time=idle, resize_period=0)


def a_task(name: str = "one", instances: int = 1, **more: Any) -> TaskDefinition:
    """A task of user ada in pool cpu; its id is its name."""
    given = {"user": "ada", "pool": "cpu", "command": "true", **more}
    return TaskDefinition(id=name, name=name, instances=instances, **given)


def weights(**users: float) -> ShareRules:
    """Rules with these weights."""
    return ShareRules(shares=Shares(users=users))


def most_slots(**users: int) -> ShareRules:
    """Rules with these limits."""
    return ShareRules(most_slots=users)


def memory(amount: int) -> Amounts:
    """So much memory, in bytes."""
    return Amounts(memory=amount)


def started(commands: Iterable[ServiceCommand]) -> list[tuple[str, int]]:
    """Which instances were started, in order."""
    return [(one.task, one.instance) for one in commands if isinstance(one, StartInstance)]


def stopped(commands: Iterable[ServiceCommand]) -> list[tuple[str, int]]:
    """Which instances are to be stopped, in order."""
    return [(one.task, one.instance) for one in commands if isinstance(one, StopInstance)]


def decided(commands: Iterable[ServiceCommand], kind: type) -> list[Any]:
    """Decisions of one kind, without the commands around them."""
    return [one.event for one in commands if isinstance(one, RecordDecision) and isinstance(one.event, kind)]
