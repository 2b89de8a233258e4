"""Carry out what the allocator wants on modelled nodes, and kill the service wherever it hurts."""

from __future__ import annotations

from collections import deque
from random import Random

from allocation.agents import Agent, Nodes, require
from allocation.ledger import Ledger
from cenote.engine.messages import (
    EndWorkers,
    StartWorkers,
    StopWorkers,
    Tick,
    WorkerJoined,
    WorkerLost,
    WorkerRequested,
    WorkerSilent,
)
from cenote.language.schema.service import OTHERS, PoolRules, ShareRules
from cenote.service.allocator.allocator import Allocator, entries
from cenote.service.allocator.messages import (
    ArchiveTask,
    AttemptId,
    CalendarTurned,
    InstanceAssigned,
    InstanceEnded,
    InstanceGivenUp,
    InstancePreempted,
    InstancesKnown,
    InstanceStarted,
    RecordDecision,
    RulesChanged,
    ServiceCommand,
    ServiceEvent,
    StartInstance,
    StopInstance,
    TaskAdded,
    TaskArchived,
    TaskEnded,
    TaskTimedOut,
)
from cenote.service.client.definitions import TaskDefinition, TaskState

_LATEST, _STEP = 20.0, 15.0
"""Seconds until a service hears what happened, and between two looks at its clock."""


class World:
    """A service, its log, and its nodes."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now = 1000.0
        self.allocator = Allocator()
        self.log: list[ServiceEvent] = []
        """What is committed."""
        self.nodes = Nodes()
        self.inbox: deque[ServiceEvent] = deque()
        self.coming: dict[str, Agent] = {}
        """Workers whose jobs wait."""
        self.untold: dict[str, WorkerLost] = {}
        """Workers that are gone, and the log does not know."""
        self.tasks: dict[str, TaskDefinition] = {}
        """Those in the log."""
        self.ended: dict[str, TaskState] = {}
        self.given_up: dict[str, list[str]] = {}
        """Task → why its instances were given up."""
        self.ledger = Ledger()
        self.budgets: ShareRules = ShareRules()
        """Budgets that all rules of this world have."""
        self.timed_out: set[str] = set()
        """Tasks that waited for too long."""
        self.restarts = 0
        self._heard = self.now
        """Everything that happened before was heard."""
        self._workers = 0
        self._lost: set[str] = set()
        """Workers whose loss is in the log: what comes from them later does not count."""

    # The service

    def say(self, event: ServiceEvent, *, killed: bool = False) -> None:
        """An event comes; the service may be killed before all of what follows is committed or carried out."""
        commands = self.allocator.handle(event)
        self._check(commands)
        found = entries(event, commands)
        committed = self.random.randint(0, len(found)) if killed else len(found)
        self._commit(found[:committed])
        agent = self.nodes.alive.get(event.worker) if isinstance(event, InstancesKnown) else None
        if agent and agent.greeting is event:
            agent.greeting = None
        self._carry_out(commands, committed - 1, killed=killed)
        if killed:
            self.restart()

    def restart(self) -> None:
        """The service is killed and started again: connections and what was on its way are gone."""
        self.restarts += 1
        self.inbox.clear()
        for agent in self.nodes.alive.values():
            agent.connected = False
        self.allocator = Allocator.replay(self.log)
        commands = self.allocator.resume(self.now)
        self._commit([command.event for command in commands if isinstance(command, RecordDecision)])
        self._carry_out(commands, len(commands), killed=False)
        self.inbox += [event for name, event in self.untold.items() if name not in self.nodes.alive]

    def hear(self) -> None:
        """Everything that is on its way arrives."""
        while self.inbox:
            self.say(self.inbox.popleft())
        self._heard = self.now

    def _commit(self, events: list[ServiceEvent]) -> None:
        self.log += events
        for event in events:
            match event:
                case TaskAdded():
                    self.tasks[event.task.id] = event.task
                case TaskEnded():
                    require(event.task not in self.ended, f"task {event.task} ends twice")
                    self.ended[event.task] = event.state
                case TaskTimedOut():
                    self.timed_out.add(event.task)
                case RulesChanged():
                    self.ledger.change_rules(event.rules, event.at)
                case CalendarTurned():
                    self.ledger.turn(event)
                case InstancePreempted():
                    self._check_preemption(event)
                    self.ledger.end(AttemptId(event.task, event.instance, event.attempt), event.at)
                case WorkerJoined() if event.worker in self.nodes.alive:
                    self.ledger.begin(event.worker, ("pool", event.pool), self._cost(event.pool), event.at, None)
                case WorkerLost():
                    self.untold.pop(event.worker, None)
                    self._lost.add(event.worker)
                case InstanceGivenUp():
                    self.given_up.setdefault(event.task, []).append(event.reason)
                case InstanceEnded():
                    self._acknowledge(event)
                case _:
                    pass

    def _check_preemption(self, event: InstancePreempted) -> None:
        """Nobody gives way to a task in a pool whose rules say so."""
        pool = self.allocator.rules.pools.get(event.worker.partition("-")[0], PoolRules())
        allowed = pool.preemption is not False and pool.scheduling == "priority"
        require(not event.ahead or allowed, f"{event.task} gives way to {event.ahead}, against the rules")

    def _cost(self, pool: str, *, slot: bool = False) -> float:
        """Of a worker or one of its slots, in a second."""
        found = [view.definition for view in self.allocator.pools() if view.definition.name == pool]
        return (found[0].cost or 0.0) / 3600 / (found[0].slots if slot else 1) if found else 0.0

    def _acknowledge(self, event: InstanceEnded) -> None:
        attempt = AttemptId(event.task, event.instance, event.attempt)
        if agent := self.nodes.alive.get(event.worker):
            agent.finished.pop(attempt, None)
        if event.exit_code == 0 and event.worker not in self._lost:
            self.nodes.acknowledged.add((event.task, event.instance))

    def _carry_out(self, commands: list[ServiceCommand], records: int, *, killed: bool) -> None:
        """Nothing is carried out before all decisions ahead of it are committed; a kill may come before any."""
        for command in commands:
            if isinstance(command, RecordDecision):
                records -= 1
                if records < 0:
                    return
            elif killed and self.random.random() < 0.3:
                return
            else:
                self._do(command)

    def _check(self, commands: list[ServiceCommand]) -> None:
        """No slot is given to a user who has as many as allowed."""
        given = {
            c.event.task for c in commands if isinstance(c, RecordDecision) and isinstance(c.event, InstanceAssigned)
        }
        if not given:
            return
        rules: ShareRules = self.allocator.rules
        users: dict[str, int] = {}
        for view in self.allocator.pools():
            for user, many in view.users.items():
                users[user] = users.get(user, 0) + many
        for task in given:
            user = self.allocator.task(task).definition.user  # type: ignore[union-attr]  # it was just given a slot
            most = rules.most_slots.get(user, rules.most_slots.get(OTHERS))
            require(most is None or users.get(user, 0) <= most, f"{user} has {users} slots, and may have {most}")
        for pool, task in {
            (c.event.pool, c.event.task)
            for c in commands
            if isinstance(c, RecordDecision) and isinstance(c.event, InstanceAssigned)
        }:
            user = self.allocator.task(task).definition.user  # type: ignore[union-attr]  # it was just given a slot
            own = rules.pools.get(pool, PoolRules()).most_slots
            here = next(view.users.get(user, 0) for view in self.allocator.pools() if view.definition.name == pool)
            require(
                here <= own.get(user, own.get(OTHERS, here)), f"{user} has {here} slots of {pool}, and may have {own}"
            )

    # The nodes

    def _do(self, command: ServiceCommand) -> None:
        match command:
            case StartInstance():
                self._start(command)
            case StopInstance():
                agent = self.nodes.alive.get(command.worker)
                attempt = AttemptId(command.task, command.instance, command.attempt)
                if agent and agent.listens and attempt in agent.running:
                    self.finish(agent, attempt, code=None, cause="stopped")
            case StartWorkers():
                for _ in range(command.count):
                    self._request(command.pool)
            case StopWorkers():
                for name in command.workers:
                    self._send_away(name, command.pool)
            case EndWorkers():
                for name in command.workers:
                    self.kill(name, command.pool, "silent")
            case ArchiveTask():
                record = self.allocator.record_of(command.task)
                require(record.state is not None, f"{command.task} is archived before its end")
                self.inbox.append(TaskArchived(at=self.now, task=command.task))
            case RecordDecision():
                pass

    def _start(self, command: StartInstance) -> None:
        agent = self.nodes.alive.get(command.worker)
        attempt = AttemptId(command.task, command.instance, command.attempt)
        if agent is None or not agent.listens or agent.knows(attempt):
            return
        self.nodes.run(agent, attempt)
        if (task := self.allocator.task(command.task)) is not None:
            rate = self._cost(agent.pool, slot=True)
            self.ledger.begin(attempt, ("user", task.definition.user), rate, self.now, task.definition.timeout)
        self.inbox.append(
            InstanceStarted(
                at=self.now,
                task=command.task,
                instance=command.instance,
                attempt=command.attempt,
                worker=agent.name,
            )
        )

    def _request(self, pool: str) -> None:
        self._workers += 1
        name = f"{pool}-{self._workers}"
        slots = next((v.definition.slots for v in self.allocator.pools() if v.definition.name == pool), 1)
        self.coming[name] = Agent(name, pool, slots)
        self.inbox.append(WorkerRequested(at=self.now, pool=pool, worker=name))

    def _send_away(self, name: str, pool: str) -> None:
        agent = self.nodes.alive.get(name)
        if agent is None:
            self.kill(name, pool, "retired")
        elif agent.listens:
            agent.draining = True
            self._leave_if_idle(agent)

    def _leave_if_idle(self, agent: Agent) -> None:
        if agent.draining and not agent.running:
            self.kill(agent.name, agent.pool, "retired")

    def kill(self, name: str, pool: str, cause: str) -> None:
        """A worker is gone, with all that it runs and could not say."""
        if (gone := self.nodes.alive.pop(name, None)) is not None:
            for attempt in gone.running:
                self.ledger.end(attempt, self.now)
        self.ledger.end(name, self.now)
        self.coming.pop(name, None)
        event = WorkerLost(at=self.now, worker=name, pool=pool, reason=f"it {cause}", cause=cause)  # type: ignore[arg-type]  # a LossCause
        self.untold[name] = event
        self.inbox.append(event)

    def join(self, agent: Agent) -> None:
        """A worker connects, for the first time or again."""
        self.coming.pop(agent.name, None)
        self.nodes.alive[agent.name] = agent
        agent.joined = agent.connected = True
        agent.greeting = agent.hello(self.now)
        self.inbox.append(agent.greeting)
        self.inbox.extend(agent.finished.values())
        self.inbox.append(WorkerJoined(at=self.now, worker=agent.name, pool=agent.pool, slots=agent.slots))

    def disconnect(self, agent: Agent) -> None:
        """The way to a worker is cut."""
        agent.connected = False
        self.inbox.append(WorkerSilent(at=self.now, worker=agent.name, pool=agent.pool, seconds=0.0, patience=30.0))

    def finish(self, agent: Agent, attempt: AttemptId, *, code: int | None, cause: str = "exit") -> None:
        """An attempt ends; a worker that is cut off says so later."""
        agent.running.discard(attempt)
        self.ledger.end(attempt, self.now)
        event = InstanceEnded(
            at=self.now,
            task=attempt.task,
            instance=attempt.instance,
            attempt=attempt.attempt,
            worker=agent.name,
            exit_code=code,
            cause=cause,  # type: ignore[arg-type]  # an EndCause
        )
        agent.finished[attempt] = event
        if agent.connected:
            self.inbox.append(event)
            self._leave_if_idle(agent)

    def pass_time(self, seconds: float) -> None:
        """Time passes. A service that runs hears everything within half a minute, and looks at its clock as often."""
        end = self.now + seconds
        while self.now < end:
            if self.now - self._heard >= _LATEST:
                self.hear()
            self.now = min(end, self.now + _STEP)
            self.inbox.append(Tick(at=self.now))
            self.ledger.check(self.now)
