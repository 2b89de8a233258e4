"""The service itself: takes what users ask and agents say, in one order, and carries out what the allocator decides.

Everything happens in one asyncio loop. An event, and what the allocator decides on it, are in the log before anything
is done about them, so that a service that is killed and started again goes on where it was.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import os
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, assert_never

import msgspec

from cenote.common.text import plural
from cenote.engine.messages import (
    AnyEvent,
    EndWorkers,
    JobChanged,
    LossCause,
    StartWorkers,
    StopWorkers,
    Tick,
    WorkerAnswers,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerSilent,
)
from cenote.engine.scaling import PoolState
from cenote.execution.strategies.interface import OVER
from cenote.language.schema.service import ShareRules
from cenote.service.allocator.allocator import PATIENCE, Allocator, entries
from cenote.service.allocator.messages import (
    ArchiveTask,
    AttemptId,
    InstanceEnded,
    InstancesKnown,
    InstanceStarted,
    PoolAdded,
    PoolResized,
    RecordDecision,
    RulesChanged,
    ServiceCommand,
    ServiceEvent,
    StartInstance,
    StopInstance,
    WorkerEvent,
)
from cenote.service.client.definitions import PoolDefinition
from cenote.service.client.home import ServiceHome
from cenote.service.client.records import OutputRecord
from cenote.service.history import SlotHistory
from cenote.service.protocol import (
    Acknowledge,
    AttemptEnded,
    AttemptKey,
    DrainAgent,
    Hello,
    Hindered,
    Leaving,
    NeedFile,
    Output,
    PlacedFile,
    Pong,
    PoolFiles,
    ResultFile,
    Start,
    Started,
    Stop,
)
from cenote.service.server.agent_pools import AgentPools
from cenote.service.server.calendar import next_turn, now_is
from cenote.service.server.hub import AgentJoined, AgentLeft, AgentSaid, Hub, HubEvent, digest_of
from cenote.service.server.kept_output import KeptOutput
from cenote.service.server.log import ServiceLog, WriteAhead

_LOG = logging.getLogger("cenote.service")
ROOM_AGAIN = 5.0
"""Seconds until a worker is asked again for what there was no room for."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_WHY_GONE: dict[LossCause, str] = {"walltime": "its walltime was over", "retired": "it was asked to end"}


class Unkept(NamedTuple):
    """What of an attempt cannot be kept here."""

    what: str
    words: str


class Service:
    """Pools, tasks and agents. Every method is for the loop that it was made in."""

    def __init__(
        self,
        home: ServiceHome,
        log: ServiceLog,
        hub: Hub,
        pools: AgentPools,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._log, self._hub, self._pools, self.home = log, hub, pools, home
        self._clock = clock
        self.output = KeptOutput(home)
        """What instances print and leave."""
        self.history = SlotHistory(home.path)
        """How the slots of pools were used."""
        self.allocator = Allocator.replay(log.read())
        """To ask; only `take` changes what it knows."""
        self._agents: dict[str, str] = {}
        """Workers that are connected → their pool."""
        self._leaving: dict[str, LossCause] = {}
        """Workers that were told to go, or said that they do → why they will be gone, if that is known."""
        self._hindered: dict[str, str] = {}
        """Worker → why it can begin nothing for now."""
        self._offers: dict[tuple[str, int, int], PlacedFile] = {}
        """Files that agents may ask for, by path, time and size."""
        self._next_turn = math.inf
        """When another day or scaling period begins."""
        self._ahead = WriteAhead(log)
        self._incomplete: dict[AttemptKey, Unkept] = {}
        """Attempts of which something cannot be kept here."""
        self._tell_again: dict[str, float] = {}
        """Workers that have what there was no room for → when they are asked for it again."""
        self._ended: list[str] = []
        """Tasks that are to be archived."""
        self._drains = False
        """Whether nothing more is begun."""
        self.on_change: Callable[[], None] = lambda: None
        """Told whenever something is different."""
        self.on_events: Callable[[Sequence[ServiceEvent]], None] = lambda _: None
        """Told what was taken and decided."""
        self.on_output: Callable[[OutputRecord], None] = lambda _: None
        """Told what tasks print."""

    def resume(self, *, compact: bool = False) -> None:
        """Go on where the log ends: pools that are there, jobs of theirs that run, what was decided and not done."""
        if compact:
            self._log.compact(self.allocator.compacted())
        for view in self.allocator.pools():
            name = view.definition.name
            self._pools.add_again(view.definition, self.allocator.joined(name))
        if self._log.missing:
            _LOG.warning(
                "the end of the log was damaged: its last %s are lost; what workers run, or have run lately, is not "
                "begun again, but tasks that were submitted last may have to be submitted again",
                plural(self._log.missing, "entry", "entries"),
            )
        commands = self.allocator.resume(self._clock(), careful=self._log.missing > 0)
        self._follow([], commands)
        self._ahead.add([], self._archive_ended)
        self._ahead.flush()
        self.try_again()

    def try_again(self) -> None:
        """Pools that failed get another chance: what was wrong may be right by now."""
        for view in self.allocator.pools():
            pool = view.definition
            if view.state is PoolState.FAILURE:
                at = self._clock()
                self.take([PoolResized(at=at, pool=pool.name, workers=pool.workers, elastic=pool.elastic)])

    def old_output(self) -> list[Path]:
        """Folders of tasks that ended longer ago than what they printed and left is kept."""
        since = self._clock() - self.allocator.rules.keep_output
        old = self._log.ended_before(since)
        return [self.home.task(name) for name in os.listdir(self.home.tasks) if name in old]  # noqa: PTH208  # names alone

    def use_rules(self, rules: ShareRules) -> None:
        """Share by these rules from now on."""
        if rules != self.allocator.rules:
            self.take([RulesChanged(at=self._clock(), rules=rules)])
        self._tell_calendar()

    def _tell_calendar(self) -> None:
        """What day it is, and which hours hold, if that is news."""
        rules, at = self.allocator.rules, self._clock()
        self._next_turn = next_turn(rules, at)
        turned = now_is(rules, at)
        if self._next_turn < math.inf and (turned.spans, turned.sizes) != self.allocator.calendar:
            self.take([turned])

    def open_pools(self, wanted: Iterable[PoolDefinition]) -> None:
        """Add the pools that a file asks for, where they are not there yet; the others get the sizes that it says."""
        there = {view.definition.name: view.definition for view in self.allocator.pools()}
        for pool in wanted:
            known = there.get(pool.name)
            if known is None:
                self.add_pool(pool)
            elif (known.workers, known.elastic) != (pool.workers, pool.elastic) and not known.profile:
                self._pools.refuse_too_many(pool)
                self.take([PoolResized(at=self._clock(), pool=pool.name, workers=pool.workers, elastic=pool.elastic)])

    def add_pool(self, pool: PoolDefinition) -> None:
        """A pool that may be added. Raises where its workers could not be started."""
        self._ahead.refuse_if_stuck()
        self._pools.refuse_too_many(pool)
        self._pools.add(pool)
        self.take([PoolAdded(at=self._clock(), pool=pool), Tick(at=self._clock())])

    def drain(self) -> None:
        """Begin nothing more, and let all agents go when what they run is over. What is decided meanwhile is done by
        the next service."""
        self._drains = True
        for worker in self._hub.workers:
            self._hub.send(worker, DrainAgent())

    @property
    def is_drained(self) -> bool:
        """Whether it was asked to drain, and no agent is left."""
        return self._drains and not self._hub.workers

    def close(self) -> None:
        """End all agents: what they run is lost, and begun again when the service is."""
        self._pools.close()
        at, reason = self._clock(), "the service was stopped"
        gone: list[ServiceEvent] = []
        for pool, worker in self.allocator.workers():  # the next service does not wait for them to come back
            gone.append(WorkerLeaving(at=at, worker=worker, pool=pool, reason=reason))
            gone.append(WorkerLost(at=at, worker=worker, pool=pool, reason=reason, cause="retired"))
        self._drains = True
        self._ahead.add(gone, lambda: None)
        self._ahead.flush()

    # What happens

    @property
    def trouble(self) -> str:
        """Why nothing new is begun: the log cannot be written. Empty where it can."""
        return self._ahead.trouble

    def ask(self, events: Sequence[ServiceEvent]) -> None:
        """What a user asks for. Raises where it cannot be written down now."""
        self._ahead.refuse_if_stuck()
        self.take(events)

    def take(self, events: Sequence[ServiceEvent]) -> None:
        """These events, in order: decided on, written down, carried out."""
        with self._ahead.turn():
            for event in events:
                commands = self.allocator.handle(event)
                self._follow([event], commands)
                self.on_events(entries(event, commands))
            self._ahead.add([], self._archive_ended)
        self.on_change()

    def _follow(self, events: Sequence[ServiceEvent], commands: Sequence[ServiceCommand]) -> None:
        decided = [command.event for command in commands if isinstance(command, RecordDecision)]
        written = [event for event in (*events, *decided) if not isinstance(event, Tick)]
        todo = [command for command in commands if not isinstance(command, RecordDecision)]
        if written or todo:
            self._ahead.add(written, lambda: self._carry_out(todo))

    def hear(self, events: Sequence[HubEvent]) -> None:
        """What agents say: written down in one piece."""
        with self._ahead.turn():
            for event in events:
                match event:
                    case AgentJoined():
                        self._agent_joined(event)
                    case AgentLeft():
                        self._agent_left(event)
                    case AgentSaid():
                        self._agent_said(event)
                    case _:
                        assert_never(event)

    def look_around(self) -> None:
        """Now and then: what strategies say of jobs, and whether it is time for something."""
        if self._clock() >= self._next_turn:
            self._tell_calendar()
        self._ahead.flush()
        for worker in [worker for worker, at in self._tell_again.items() if at <= self._clock()]:
            del self._tell_again[worker]
            self._hub.let_go(worker, "it has what there was no room for")
        news = self._pools.events()
        for event in news:
            self._on_job(event)
        self.take([*(event for event in news if isinstance(event, WorkerEvent)), Tick(at=self._clock())])
        self.history.note(self._clock(), self.allocator.pools())

    def _on_job(self, event: AnyEvent) -> None:
        """The job of an agent that is out of reach is over: it will not come back."""
        if isinstance(event, JobChanged) and event.state in OVER and event.worker not in self._hub.workers:
            self._lose(event.worker, event.pool, event.reason or "its job is over")

    def _agent_joined(self, event: AgentJoined) -> None:
        hello, at = event.hello, self._clock()
        self._agents[event.worker] = hello.pool
        for one in hello.held:  # it tells all of it again
            self._incomplete.pop(one.key, None)
        self._hub.greet(event.worker)
        held = {
            state: tuple(AttemptId(*one.key) for one in hello.held if (one.state == "ended") is state)
            for state in (False, True)
        }
        if files := self._files_of(hello.pool):
            self._hub.send(event.worker, PoolFiles(files=files))
        known = InstancesKnown(
            at=at,
            worker=event.worker,
            pool=hello.pool,
            running=held[False],
            finished=held[True],
            over=tuple(AttemptId(*key) for key in hello.over) if self._log.missing else (),
        )
        self.take([known, WorkerAnswers(at=at, worker=event.worker, pool=hello.pool)])
        leaves = None if hello.leaves_in is None else at + hello.leaves_in
        self._pools.tell(
            WorkerJoined(at=at, worker=event.worker, pool=hello.pool, slots=hello.slots, pid=hello.pid, leaves=leaves)
        )
        self.look_around()

    def hindrances(self, pool: str) -> list[str]:
        """Of the pool's workers that have no room to begin anything, for now."""
        theirs = [(worker, words) for worker, words in self._hindered.items() if self._agents.get(worker) == pool]
        return [f"worker {worker} begins nothing for now: {words}" for worker, words in theirs if words]

    def _files_of(self, pool: str) -> tuple[PlacedFile, ...]:
        definitions = [view.definition for view in self.allocator.pools() if view.definition.name == pool]
        return self._offered(definitions[0].resource_files) if definitions else ()

    def _offered(self, names: Sequence[str]) -> tuple[PlacedFile, ...]:
        """Files of this machine, ready for agents; one that is gone by now, or cannot be read, is left out, and missed
        by its command."""
        offered = []
        for file in map(Path, names):
            try:
                offered.append(self._offer(file))
            except OSError as problem:
                _LOG.warning("%s is not sent to instances: %s", file, problem.strerror or problem)
        return tuple(offered)

    def _offer(self, file: Path) -> PlacedFile:
        """Its content is read once, as long as it stays the same: a task may have many instances. Raises OSError."""
        key = _as_it_is(file)
        if key not in self._offers:
            self._offers[key] = self._hub.offer(file)
        return self._offers[key]

    async def read_ahead(self, names: Iterable[str]) -> None:
        """Read files that instances will get, aside: large ones take seconds, in which everybody else would wait."""
        for file in map(Path, names):
            with suppress(OSError):  # whoever asks for it is told
                key = _as_it_is(file)
                if key not in self._offers:
                    self._offers[key] = self._hub.offer(file, digest=await asyncio.to_thread(digest_of, file))

    def _agent_left(self, event: AgentLeft) -> None:
        pool, at = self._agents.pop(event.worker, ""), self._clock()
        self._hindered.pop(event.worker, None)
        if (cause := self._leaving.pop(event.worker, None)) is not None:
            self._lose(event.worker, pool, _WHY_GONE.get(cause, event.reason), cause)
        else:
            self.take([WorkerSilent(at=at, worker=event.worker, pool=pool, seconds=0.0, patience=PATIENCE)])

    def _lose(self, worker: str, pool: str, reason: str, cause: LossCause = "unknown") -> None:
        self._pools.tell(WorkerLost(at=self._clock(), worker=worker, pool=pool, reason=reason, cause=cause))

    def _agent_said(self, event: AgentSaid) -> None:
        message, at = event.message, self._clock()
        match message:
            case Started():
                self.take([InstanceStarted(at=at, worker=event.worker, **message.key._asdict())])
            case Output() | ResultFile():
                self._keep(event.worker, message)
            case AttemptEnded():
                self._attempt_ended(event.worker, message)
            case Leaving():
                self._on_leaving(event.worker, message)
            case Hindered():
                self._hindered[event.worker] = message.reason
            case Hello() | NeedFile() | Pong():
                pass  # the hub answers these itself
            case _:
                assert_never(message)

    def _on_leaving(self, worker: str, message: Leaving) -> None:
        """It gets nothing more, and another may be asked for in its place."""
        if worker not in self._leaving:
            self._leaving[worker] = "walltime" if message.walltime else "unknown"
            pool = self._agents.get(worker, "")
            self.take([WorkerLeaving(at=self._clock(), worker=worker, pool=pool, reason=message.reason)])

    def _attempt_ended(self, worker: str, message: AttemptEnded) -> None:
        """It is recorded, and then acknowledged; not where something of it may still be kept, once there is room."""
        if worker in self._tell_again and message.key in self._incomplete and self._is_wanted(message.key):
            return
        ended = InstanceEnded(
            at=self._clock(),
            worker=worker,
            **message.key._asdict(),
            exit_code=message.exit_code,
            cause=message.cause,
            message=message.message,
        )
        if (lost := self._incomplete.pop(message.key, None)) is not None and message.cause == "exit":
            ended = msgspec.structs.replace(ended, cause="unkept", message=lost.words)
        self.take([ended])
        self._ahead.add([], lambda: self._acknowledge(worker, message.key))

    def _acknowledge(self, worker: str, key: AttemptKey) -> None:
        self._hub.send(worker, Acknowledge(**key._asdict()))

    def _is_wanted(self, key: AttemptKey) -> bool:
        """Whether somebody waits for what an attempt leaves."""
        view = self.allocator.task(key.task)
        return view is not None and not view.reason

    def _keep(self, worker: str, message: Output | ResultFile) -> None:
        """What an instance printed or left. Where there is no room, its worker keeps it, and is asked again."""
        what = message.stream if isinstance(message, Output) else f"result '{message.name}'"
        if (before := self._incomplete.get(message.key)) is not None and (
            worker in self._tell_again or (before.what == what and message.offset)
        ):
            return  # it comes again as a whole, or never
        try:
            if isinstance(message, Output):
                offset, new = self.output.add(message)
                if new:
                    self.on_output(OutputRecord(task=message.task, stream=message.stream, offset=offset, data=new))
            else:
                self.output.add_result(message)
        except OSError as problem:
            words = f"its {what} cannot be kept: {(problem.strerror or str(problem)).lower()}"
            self._incomplete[message.key] = Unkept(what, words)
            if problem.errno in _NO_ROOM:
                self._tell_again[worker] = self._clock() + ROOM_AGAIN
            _LOG.warning("task %s, instance %s: %s", message.task, message.instance, words)
        self.on_change()

    def unkept(self, task: str) -> list[str]:
        """What cannot be kept of a task's instances just now, in words."""
        found = ((key, unkept) for key, unkept in self._incomplete.items() if key.task == task)
        return [f"instance {key.instance}: {unkept.words}" for key, unkept in found]

    # What is done about it

    def _carry_out(self, commands: Sequence[ServiceCommand]) -> None:
        for command in commands:
            match command:
                case RecordDecision():
                    pass
                case StartInstance() | StartWorkers() if self._drains:
                    pass
                case StartInstance():
                    self._start(command)
                case StopInstance(task, instance, attempt, worker, reason):
                    self._hub.send(worker, Stop(task=task, instance=instance, attempt=attempt, reason=reason))
                case StartWorkers(pool, count):
                    self._pools.start_workers(pool, count)
                case StopWorkers(pool, workers, reason):
                    self._leaving.update(dict.fromkeys(workers, "retired"))
                    self._pools.stop_workers(pool, workers, reason)
                case EndWorkers(pool, workers, reason):
                    self._pools.end_workers(pool, workers, reason)
                case ArchiveTask(task):
                    self._ended.append(task)
                case _:
                    assert_never(command)

    def _archive_ended(self) -> None:
        """All that ended, in one transaction: each takes the disk a while."""
        for event in self._log.archive([self.allocator.record_of(task) for task in self._ended], self._clock()):
            self.allocator.handle(event)
        self._ended.clear()

    def _start(self, command: StartInstance) -> None:
        view = self.allocator.task(command.task)
        if view is None:
            return
        task = view.definition
        start = Start(
            task=task.id,
            instance=command.instance,
            attempt=command.attempt,
            terms=task,
            files=self._offered(task.resources),
            job=uuid.uuid5(uuid.UUID(task.id), f"{command.instance}.{command.attempt}").hex,
        )
        self._hub.send(command.worker, start)


def _as_it_is(file: Path) -> tuple[str, int, int]:
    """What changes with its content. Raises OSError."""
    facts = file.stat()
    return str(file), facts.st_mtime_ns, facts.st_size
