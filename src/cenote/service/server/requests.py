"""Do what users ask of a service, and answer what they want to know: one method for each request."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sys
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import assert_never

import msgspec

from cenote import __version__
from cenote.common import errors, storage
from cenote.common.text import plain_name, plural
from cenote.common.units import format_seconds
from cenote.engine.messages import Tick
from cenote.engine.scaling import PoolState
from cenote.execution.runs.summary import iso_time
from cenote.service.allocator.allocator import Allocator
from cenote.service.allocator.messages import (
    PoolClosed,
    PoolRemoved,
    ServiceEvent,
    TaskAdded,
    TaskCancelled,
    TaskMoved,
    TaskPaused,
    TaskPrioritised,
    TaskPutAhead,
    TaskResumed,
)
from cenote.service.allocator.queued_task import restored_task
from cenote.service.allocator.reasons import PoolView, TaskView, view_instances, view_task
from cenote.service.allocator.refusals import HIGHEST_PRIORITY
from cenote.service.allocator.snapshot import TaskKept
from cenote.service.client.definitions import InstanceState, TaskDefinition, TaskState
from cenote.service.client.functions.call_files import PYTHON
from cenote.service.client.home import user_name
from cenote.service.client.python_call import RETURNED
from cenote.service.client.records import (
    PENDING_DELETE,
    AwaitedInstances,
    EndedInstance,
    EndedInstances,
    ForecastRecord,
    LivePoolRecord,
    NewPool,
    NewTask,
    QueuedTaskRecord,
    QueueForecast,
    ServiceRecord,
    TaskChange,
    TaskInstance,
    TaskVerb,
    UploadedFile,
    progress_of,
)
from cenote.service.history import SlotsOverTime
from cenote.service.protocol import AttemptKey, StreamName
from cenote.service.server.clock import in_turns
from cenote.service.server.forecast import Forecast, ForeseenTask, PastDurations
from cenote.service.server.log import ServiceLog
from cenote.service.server.profiles import Profiles
from cenote.service.server.rules_file import refuse_pool, refuse_priority, refuse_strategy
from cenote.service.server.service import Service

_SMALL = 256 * 1024
"""Bytes that calls of an instance returned, which are in the answer that it ended."""
_MOST_RETURNED = 4 * 1024 * 1024
"""Of such bytes in one answer."""
_LONGEST = 366 * 86400.0
"""Seconds that a forecast may look ahead."""
_REMEMBERED = 300
"""Ended tasks that a forecast takes durations from."""
_CANCELLED_AT_ONCE = 100
"""Tasks of a pool that is deleted: they are written down together."""
_ENDED_SHOWN = 100
"""The latest ended tasks that are among the others, where nobody says how many."""
PlaceFiles = Callable[[Path], tuple[str, ...]]
"""Puts files that were uploaded into a folder, and returns where they are."""


def no_files(_folder: Path) -> tuple[str, ...]:
    """Nothing was uploaded."""
    return ()


class ServiceRequests:
    """What users may ask. Every method is for the loop of the service."""

    def __init__(
        self,
        service: Service,
        log: ServiceLog,
        profiles: Profiles,
        *,
        home: Path,
        private: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._service, self._log, self._profiles = service, log, profiles
        self._home, self._private, self._clock, self._started = home, private, clock, clock()
        self._owner = user_name(os.geteuid())
        self._added = 0
        """Tasks since it was started."""
        self.url = self.fingerprint = ""
        """Where it listens for others, and what it shows them there."""

    def record(self) -> ServiceRecord:
        """Of itself."""
        return ServiceRecord(
            version=__version__,
            user=self._owner,
            pid=os.getpid(),
            python_version=PYTHON,
            started=iso_time(self._started),
            private=self._private,
            python=sys.executable,
            home=str(self._home),
            url=self.url,
            fingerprint=self.fingerprint,
        )

    @property
    def is_idle(self) -> bool:
        """Whether it has neither pools that somebody asked for nor tasks."""
        open_ones = (view for view in self._service.allocator.pools() if view.state is not PoolState.CLOSED)
        return all(view.definition.on_demand for view in open_ones) and not self._service.allocator.has_tasks

    def sweep(self) -> None:
        """Remove what tasks printed and left that ended long ago, aside."""
        if old := self._service.old_output():
            asyncio.get_running_loop().run_in_executor(None, _remove_all, old)

    def reload(self) -> ServiceRecord:
        """Read the file of the service again: rules take effect at once. Raises what is wrong with it."""
        if self._profiles.file is None:
            raise errors.error(errors.USAGE, "this service has no file to read again", hint="`cenote serve FILE`")
        try:
            profiles = Profiles(self._profiles.file)
        except errors.CenoteError as problem:
            words = "\n".join(str(one) for one in problem.problems)
            raise errors.error(problem.problems[0].kind, words) from problem
        self._profiles = profiles
        self._service.use_rules(profiles.rules)
        self._service.open_pools(profiles.pools)
        self._service.try_again()
        self.sweep()
        return self.record()

    @property
    def running(self) -> int:
        """Instances that run, or were given to a worker and may have begun by now."""
        return sum(view.busy for view in self._service.allocator.pools())

    def drain(self) -> None:
        """Begin nothing more; the service ends when what runs is over."""
        self._service.drain()

    def pools(self) -> list[LivePoolRecord]:
        """Every pool that is not closed."""
        return [
            self._pool_record(view) for view in self._service.allocator.pools() if view.state is not PoolState.CLOSED
        ]

    def pool(self, name: str) -> LivePoolRecord:
        """One pool."""
        return self._pool_record(self._known_pool(name))

    def history(self, name: str, *, seconds: float, most: int) -> SlotsOverTime:
        """How the slots of a pool were used, in so many points or a few more."""
        pool = self._known_pool(name).definition.name
        return self._service.history.of(pool, now=self._clock(), seconds=seconds, most=most)

    async def read_ahead(self, names: Iterable[str]) -> None:
        """Read files that are asked for, while others are served."""
        await self._service.read_ahead(names)

    def create_pool(
        self, asked: NewPool, user: str, *, admin: bool = False, key: str = "", place: PlaceFiles = no_files
    ) -> LivePoolRecord:
        """Add a pool; the service gives it a name of one word. A request with the key of another made this already."""
        views = self._service.allocator.pools()
        there = [view.definition for view in views]
        for made in there:
            if key and (made.request, made.user) == (key, user):
                return self.pool(made.name)
        taken = {pool.name for pool in there}
        name = next(name for name in _names(plain_name(asked.name.strip().replace(" ", "_"))) if name not in taken)
        _refuse_files(asked.resources, asked.uploads)
        made = self._profiles.pool(name, asked, user)
        if self._is_limited(user, admin=admin):
            refuse_strategy(self._service.allocator.rules, asked.profile, self._profiles.names)
            open_ones = [view.definition for view in views if view.state is not PoolState.CLOSED]
            refuse_pool(self._service.allocator.rules, made, open_ones)
        uploaded = place(self._service.home.pools / f"{name}-{uuid.uuid4().hex[:8]}")
        pool = msgspec.structs.replace(made, resource_files=(*asked.resources, *uploaded), request=key)
        if (why_not := self._service.allocator.why_no_pool(pool)) is not None:
            raise errors.error(errors.BAD_VALUE, why_not)
        self._service.add_pool(pool)
        return self.pool(name)

    def _is_limited(self, user: str, *, admin: bool) -> bool:
        """Whether the rules for users with a token hold: not for admins, nor for tasks of the owner."""
        return not admin and user != self._owner

    def close_pool(self, name: str) -> LivePoolRecord:
        """Let a pool end when what it runs is over. Raises where something still waits for it."""
        known = self._known_pool(name)
        if known.waiting:
            raise errors.error(
                errors.USAGE,
                f"{plural(known.waiting, 'instance')} of tasks still wait for pool '{name}'",
                hint="wait for these tasks, move or cancel them; or delete the pool, which cancels them",
            )
        self._service.ask([PoolClosed(at=self._clock(), pool=known.definition.name), Tick(at=self._clock())])
        found = [view for view in self._service.allocator.pools() if view.definition.name == name]
        return self._pool_record(found[0]) if found else closed_pool(self._pool_record(known))

    async def delete_pool(self, name: str) -> None:
        """Stop what a pool runs, and forget it. It takes nothing more while its tasks are cancelled, some at a time."""
        pool = self._known_pool(name).definition.name
        self._service.ask([PoolClosed(at=self._clock(), pool=pool)])
        theirs = self._service.allocator.tasks_of(pool)
        async for start in in_turns(range(0, len(theirs), _CANCELLED_AT_ONCE)):
            at, some = self._clock(), theirs[start : start + _CANCELLED_AT_ONCE]
            self._service.ask([TaskCancelled(at=at, task=task, reason="its pool was deleted") for task in some])
        at = self._clock()
        self._service.ask([PoolRemoved(at=at, pool=pool), Tick(at=at)])

    async def tasks(
        self,
        *,
        pool: str | None = None,
        state: TaskState | None = None,
        label: str | None = None,
        runs: bool = False,
        most: int | None = None,
    ) -> AsyncIterator[QueuedTaskRecord]:
        """Tasks, or those that drive `runs`, the latest submitted first; at most so many. `label` is one that they
        have, as `name` or `name=value`. Only what is shown is asked why it waits."""
        ended = self._log.latest_ended(_ENDED_SHOWN if most is None else max(most, _ENDED_SHOWN))
        submitted = {**ended, **self._service.allocator.submitted()}
        left = len(submitted) if most is None else most
        in_order = sorted(zip(submitted.values(), submitted, strict=True), reverse=True)
        async for _, name in in_turns(in_order):
            if left <= 0:
                return
            view = self._view(name)
            if (
                view is not None
                and pool in (None, view.definition.pool)
                and state in (None, view.state)
                and (label is None or _has_label(view, label))
                and (view.definition.run or not runs)
            ):
                left -= 1
                yield self._task_record(view)

    def task(self, task: str) -> QueuedTaskRecord:
        """One task, by its id or the beginning of it."""
        return self._task_record(self._known_task(task))

    def progress(self, task: str) -> str:
        """How far a task is, in the word that its record has for it."""
        view = self._known_task(task)
        return progress_of(view.state, {str(state): count for state, count in view.counts.items()})

    def ending(self, task: str) -> str:
        """How a task ended; empty as long as it did not."""
        state = self._known_task(task).state
        return str(state) if state.is_over else ""

    def create_task(
        self, asked: NewTask, user: str, *, admin: bool = False, key: str = "", place: PlaceFiles = no_files
    ) -> QueuedTaskRecord:
        """Put a task into the queue; one that could never run is refused. The key of a request gives the task its id:
        the same request sent twice makes one task."""
        name = hashlib.sha256(f"{user}\0{key}".encode()).hexdigest()[:32] if key else uuid.uuid4().hex
        if self._service.allocator.task(name) is not None or self._log.ended_task(name) is not None:
            return self.task(name)
        given = msgspec.structs.asdict(asked)
        del given["uploads"]
        pool = asked.pool or self._profiles.default_pool(
            [
                view.definition
                for view in self._service.allocator.pools()
                if view.state is not PoolState.CLOSED and not view.definition.on_demand
            ],
            gpus=bool(asked.amounts.gpus),
        )
        task = TaskDefinition(**{**given, "pool": pool}, id=name, user=user, submitted=self._clock())
        _refuse_files(asked.resources, asked.uploads)
        if (why_never := self._service.allocator.why_never(task, self._log.ending_of)) is not None:
            raise errors.error(errors.NEVER_FITS, why_never)
        if self._is_limited(user, admin=admin):
            refuse_priority(self._service.allocator.rules, user, task.priority)
        self._added += 1
        uploaded = place(self._service.home.task(name) / "resources")
        task = msgspec.structs.replace(task, resources=(*task.resources, *uploaded))
        self._service.ask([TaskAdded(at=self._clock(), task=task)])
        return self.task(task.id)

    def ended_instances(self, asked: AwaitedInstances) -> EndedInstances:
        """Those that are over, with what they returned; as many as fit into one answer."""
        ended: list[EndedInstance] = []
        room = _MOST_RETURNED
        for task, numbers in asked.tasks.items():
            view = self._known_task(task)
            over = sum(count for state, count in view.counts.items() if state.is_over)
            if over <= view.definition.instances - len(numbers):
                continue  # none of these
            for one in self._instances(view.definition.id, numbers):
                if room > 0 and one.state.is_over:
                    ended.append(self._ended_instance(view, one))
                    room -= len(ended[-1].returned)
        return EndedInstances(added=self._added, ended=tuple(ended))

    def _ended_instance(self, view: TaskView, one: TaskInstance) -> EndedInstance:
        file = self._service.output.result(view.definition.id, f"{one.number}/{RETURNED}")
        size = None if file is None else file.stat().st_size
        returned = file.read_bytes() if file is not None and size is not None and size <= _SMALL else b""
        return EndedInstance(task=view.definition.id, instance=one, why=view.reason, returned=returned, size=size)

    def change_task(
        self, task: str, verb: TaskVerb, given: TaskChange, user: str, *, admin: bool = False
    ) -> QueuedTaskRecord:
        """Cancel, pause, resume, move, prioritise a task, or put it ahead of another."""
        name, at, limited = self._known_task(task).definition.id, self._clock(), self._is_limited(user, admin=admin)
        if self._service.allocator.task(name) is None:
            if verb == "cancel":
                return self.task(name)
            raise errors.error(errors.USAGE, f"task {name} is over")
        match verb:
            case "cancel":
                event: ServiceEvent = TaskCancelled(at=at, task=name, by=user, reason=f"cancelled by {user}")
            case "pause":
                event = TaskPaused(at=at, task=name)
            case "resume":
                event = TaskResumed(at=at, task=name)
            case "move":
                event = self._moved(name, given.pool)
            case "priority":
                if limited:
                    refuse_priority(self._service.allocator.rules, user, given.priority)
                event = TaskPrioritised(at=at, task=name, priority=_priority(given.priority))
            case "ahead":
                of = self._known_task(given.of).definition
                if limited:
                    refuse_priority(self._service.allocator.rules, user, of.priority)  # it gets at least that
                event = TaskPutAhead(at=at, task=name, of=of.id)
            case _:
                assert_never(verb)
        self._service.ask([event])
        return self.task(name)

    def _moved(self, task: str, pool: str) -> TaskMoved:
        if (why_not := self._service.allocator.why_not_there(task, pool)) is not None:
            raise errors.error(errors.NEVER_FITS, why_not)
        return TaskMoved(at=self._clock(), task=task, pool=pool)

    def instances(
        self, task: str, *, first: int = 0, last: int | None = None, state: InstanceState | None = None
    ) -> AsyncIterator[TaskInstance]:
        """Instances of a task, or those of them in a state, from the `first` to before the `last`."""
        return in_turns(self._instances(self._known_task(task).definition.id, slice(first, last), state))

    def _instances(
        self, task: str, which: slice | Collection[int], state: InstanceState | None = None
    ) -> Iterator[TaskInstance]:
        kept = self._log.ended_task(task)
        found = (
            self._service.allocator.instances(task, which, state)
            if kept is None
            else view_instances(restored_task(kept), which, state)
        )
        return (msgspec.convert(one, TaskInstance, from_attributes=True) for one in found)

    def output_file(self, task: str, stream: str, *, instance: int | None = None) -> Path:
        """Where what a task printed is, or one of its instances in its last attempt."""
        known, which = self._known_task(task).definition.id, msgspec.convert(stream, StreamName)
        if instance is None:
            return self._service.output.file_of_task(known, which)
        found = next(self._instances(known, [instance]), None)
        if found is None:
            raise errors.error(errors.USAGE, f"task {known} has no instance {instance}")
        return self._service.output.file_of_attempt(AttemptKey(known, instance, found.attempts), which)

    def result_names(self, task: str) -> tuple[str, ...]:
        """Files that a task left so far."""
        return self._service.output.results(self._known_task(task).definition.id)

    def result_file(self, task: str, name: str) -> Path:
        """Where such a file is."""
        known = self._known_task(task).definition.id
        if (found := self._service.output.result(known, name)) is None:
            raise errors.error(errors.MISSING_FILE, f"task {known} left no file '{name}'")
        return found

    def remove_results(self, task: str) -> None:
        """Files that a task left so far are not needed any more."""
        self._service.output.forget_results(self._known_task(task).definition.id)

    async def queue(self, pool: str | None = None) -> dict[str, list[QueuedTaskRecord]]:
        """Pool → tasks that wait for it, in the order in which they would start now. Closed pools are there only as
        long as something waits for them."""
        views = self._service.allocator.pools() if pool is None else [self._known_pool(pool)]
        shown = [view for view in views if pool is not None or view.waiting or view.state is not PoolState.CLOSED]
        names = [view.definition.name for view in shown]
        found: dict[str, list[QueuedTaskRecord]] = {}
        async for name in in_turns(names):
            ids = dict.fromkeys(entry.task for entry in self._service.allocator.queue(name))
            found[name] = [self.task(one) for one in ids]
        return found

    async def forecast(
        self, duration: float = 600.0, startup: float = 30.0, horizon: float = 7 * 86400.0
    ) -> Callable[[], QueueForecast]:
        """When the tasks of the queue would start and end: a copy of everything is made here, and looked at later,
        elsewhere. Durations are those of ended tasks, or as given."""
        if not (0 < duration < _LONGEST and 0 <= startup < _LONGEST and 0 < horizon < _LONGEST):
            raise errors.error(errors.BAD_VALUE, "`duration`, `startup` and `horizon` should be seconds, up to a year")
        async for _ in in_turns(self._service.allocator.copy_ahead()):
            pass
        ended, copied, now = self._log.ended_tasks(most=_REMEMBERED), self._service.allocator.copied(), self._clock()
        trouble = [f"the service cannot write its log: {self._service.trouble}"] if self._service.trouble else []

        def look() -> QueueForecast:
            kept = copied()
            queue, history = Allocator.replay(kept), PastDurations(ended, duration)
            busy = {one.task.id: one.busy for one in kept if isinstance(one, TaskKept)}
            views = {view.definition.id: view for view in queue.tasks() if not view.state.is_over}
            durations = {
                name: history.of(view.definition, busy[name], view.counts[InstanceState.SUCCEEDED])
                for name, view in views.items()
            }
            foreseen = Forecast(kept, durations, now=now, startup=startup, horizon=horizon).look()
            return QueueForecast(
                tasks=tuple(_forecast_record(one, views[one.task], queue, trouble) for one in foreseen)
            )

        return look

    def _known_pool(self, name: str) -> PoolView:
        views = {view.definition.name: view for view in self._service.allocator.pools()}
        if name not in views:
            raise errors.CenoteError(
                errors.unknown_name(errors.UNKNOWN_POOL, f"there is no pool '{name}'", name, views, what="pools")
            )
        return views[name]

    def _known_task(self, task: str) -> TaskView:
        if (view := self._view(task)) is not None:
            return view
        meant = {*self._service.allocator.tasks_meant(task), *self._log.ended_meant(task)} if task else set()
        if len(meant) == 1 and (view := self._view(meant.pop())) is not None:
            return view
        what = f"there are {len(meant)} tasks" if meant else "there is no task"
        raise errors.error(errors.UNKNOWN_STAGE, f"{what} '{task}'", hint="`cenote tasks` lists them with their ids")

    def _view(self, task: str) -> TaskView | None:
        """A task of the queue or of the archive, by its whole id."""
        if (view := self._service.allocator.task(task)) is not None:
            return view
        return None if (kept := self._log.ended_task(task)) is None else view_task(restored_task(kept))

    def _pool_record(self, view: PoolView) -> LivePoolRecord:
        hindered = self._service.hindrances(view.definition.name)
        return _pool_record(view, "; ".join(filter(None, (view.why, *hindered))))

    def _task_record(self, view: TaskView) -> QueuedTaskRecord:
        task, known = view.definition, self._service.allocator.task(view.definition.id) is not None
        why = self._service.allocator.why(task.id) if known else []
        if known and not view.state.is_over:
            trouble = self._service.trouble
            stuck = [f"the service cannot write its log: {trouble}"] if trouble else []
            held = self._service.hindrances(task.pool) if view.counts.get(InstanceState.ASSIGNED) else []
            why = [*stuck, *self._service.unkept(task.id), *held, *why]
        if view.ended is not None and self._clock() - view.ended > (kept := self._service.allocator.rules.keep_output):
            why = [*why, f"what it printed and left was kept for {format_seconds(kept)}"]
        return QueuedTaskRecord(
            id=task.id,
            name=task.name,
            user=task.user,
            group=task.group,
            pool=task.pool,
            state=view.state,
            instances=task.instances,
            counts={str(state): count for state, count in view.counts.items() if count},
            priority=task.priority,
            fell_back_from=view.fell_back_from,
            command=task.command,
            labels=task.labels,
            submitted=iso_time(task.submitted),
            ended=None if view.ended is None else iso_time(view.ended),
            why=tuple([view.reason] if view.reason else why),
            run=task.run,
        )


def _forecast_record(one: ForeseenTask, view: TaskView, queue: Allocator, trouble: list[str]) -> ForecastRecord:
    task = view.definition
    return ForecastRecord(
        task=one.task,
        name=task.name,
        user=task.user,
        pool=one.pool or task.pool,
        ahead=queue.ahead_of(one.task),
        starts=None if one.starts is None else iso_time(one.starts),
        ends=None if one.ends is None else iso_time(one.ends),
        seconds=one.duration.seconds,
        duration=one.duration.source,
        why=(view.reason,) if view.reason else (*trouble, *queue.why(one.task)),
    )


def _priority(given: int) -> int:
    if abs(given) > HIGHEST_PRIORITY:
        most = HIGHEST_PRIORITY
        raise errors.error(errors.BAD_VALUE, f"`priority` should be a whole number from -{most} to {most}, not {given}")
    return given


def _has_label(view: TaskView, label: str) -> bool:
    name, equals, value = label.partition("=")
    found = view.definition.labels.get(name)
    return found is not None and (not equals or found == value)


def closed_pool(before: LivePoolRecord) -> LivePoolRecord:
    """A pool that is gone, by what was last known of it."""
    return msgspec.structs.replace(before, state=PoolState.CLOSED.value, workers=0)


def _pool_record(view: PoolView, why: str) -> LivePoolRecord:
    pool = view.definition
    return LivePoolRecord(
        name=pool.name,
        title=pool.title,
        user=pool.user,
        profile=pool.profile,
        strategy=pool.strategy,
        state=PENDING_DELETE if view.removed else view.state.value,
        reason=why,
        workers=view.joined,
        awaited=view.queued + view.dispatched,
        wanted=pool.workers,
        elastic=pool.elastic,
        slots=pool.slots,
        busy=view.busy,
        waiting=view.waiting,
        resources=pool.resources,
        on_demand=pool.on_demand,
    )


def _remove_all(folders: Sequence[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _refuse_files(paths: Sequence[str], uploads: Sequence[UploadedFile]) -> None:
    """Raises where instances could not have all of these."""
    for path in map(Path, paths):
        if not storage.is_file(path):
            raise errors.error(errors.MISSING_FILE, f"there is no file {path} to send to instances")
        try:
            with path.open("rb") as opened:
                opened.read(1)
        except OSError as problem:
            words = (problem.strerror or str(problem)).lower()
            raise errors.error(errors.NO_ACCESS, f"{path} cannot be sent to instances: {words}") from problem
    for name, times in Counter((*(Path(path).name for path in paths), *(file.name for file in uploads))).items():
        if times > 1:
            raise errors.error(
                errors.BAD_VALUE,
                f"{times} files are called '{name}', and instances would find one of them",
                hint="give each a name of its own, or put them into one archive",
            )


def _names(first: str) -> Iterator[str]:
    """`hello`, `hello-2`, `hello-3`, …"""
    yield first
    for number in count(2):
        yield f"{first}-{number}"
