"""The allocator's one door: an event comes in, the commands that follow from it go out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from cenote.language.schema.service import ShareRules
from cenote.service.allocator.decide.endings import answers, assign, end_tasks, give_up, preempt
from cenote.service.allocator.decide.fallback import clear_removed, fall_back, time_out
from cenote.service.allocator.decide.sizes import bound_pools, end_spending, resize_pools, send_away_again
from cenote.service.allocator.fold.event import fold
from cenote.service.allocator.fold.instances import copied_state, copy_ahead, in_order, kept_state
from cenote.service.allocator.messages import (
    ArchiveTask,
    KeptEvent,
    OwnDecision,
    RecordDecision,
    ServiceCommand,
    ServiceEvent,
    ServiceStarted,
)
from cenote.service.allocator.queue import QueueEntry, queue
from cenote.service.allocator.queued_task import keep_task
from cenote.service.allocator.reasons import (
    InstanceView,
    Lines,
    PoolView,
    TaskView,
    ahead_of,
    view_instances,
    view_pool,
    view_task,
    why,
)
from cenote.service.allocator.refusals import Ending, why_never, why_no_pool, why_not_there
from cenote.service.allocator.snapshot import Span, TaskKept
from cenote.service.allocator.state import ServiceState
from cenote.service.client.definitions import InstanceState, PoolDefinition, TaskDefinition

PATIENCE = 60.0
"""Seconds that workers may be out of reach before they count as lost; also after the service was started again."""


class Allocator:
    """Decides who gets which slot, and nothing else: no clock, no I/O, no threads, no randomness.

    Whoever calls it writes the event and every RecordDecision that came out to the log (`entries`), and only then
    carries out the other commands. Events may come twice, late, or about what it does not know.
    """

    def __init__(self) -> None:
        self._state = ServiceState()
        self._lines = Lines(self._state)
        """Until something happens."""

    @classmethod
    def replay(cls, events: Iterable[ServiceEvent]) -> Allocator:
        """The allocator as these events of a log leave it. `resume` has to follow."""
        allocator = cls()
        for event in events:
            fold(allocator._state, event)
        return allocator

    def resume(self, now: float, patience: float = PATIENCE, *, careful: bool = False) -> list[ServiceCommand]:
        """What to do after a replay. What workers were sent is sent again when they come back (InstancesKnown). Where
        the end of the log is missing, nothing is begun (`careful`) before all workers came back or are lost."""
        event = ServiceStarted(at=now, patience=patience, careful=careful)
        self._lines = Lines(self._state)
        fold(self._state, event)
        self._state.autoscaler.scale_soon()
        ended = [ArchiveTask(task.id) for task in self._state.tasks.values() if task.state is not None]
        return [RecordDecision(event), *ended, *send_away_again(self._state), *self._decide()]

    def handle(self, event: ServiceEvent) -> list[ServiceCommand]:
        """What to do now that this has happened; nothing for a decision that comes back. TaskCancelled, which users say
        too, does no harm twice."""
        if isinstance(event, OwnDecision):
            return []
        self._lines = Lines(self._state)
        fold(self._state, event)
        return [*answers(self._state, event), *self._decide()]

    def compacted(self) -> list[KeptEvent]:
        """A short log that leads to the same state."""
        return kept_state(self._state)

    def copy_ahead(self) -> Iterator[str]:
        """Prepare `copied`, task by task: others may have their turn in between."""
        return copy_ahead(self._state)

    def copied(self) -> Callable[[], list[KeptEvent]]:
        """What `compacted` gives now. Most of it was copied ahead; the rest of the work is done where it is called."""
        others, tasks = copied_state(self._state)
        return lambda: [*others, *in_order(tasks)]

    def record_of(self, task: str) -> TaskKept:
        """What the archive keeps of a task."""
        return keep_task(self._state.tasks[task], self._state.now)

    def _decide(self) -> Iterator[ServiceCommand]:
        state = self._state
        yield from give_up(state)
        yield from clear_removed(state)
        yield from end_tasks(state)
        if state.autoscaler.is_due(state.now):
            yield from end_spending(state)
            yield from bound_pools(state)
            yield from fall_back(state)
            yield from time_out(state)
            yield from end_tasks(state)
            yield from resize_pools(state)
        yield from assign(state)
        yield from preempt(state)

    # What others may ask

    @property
    def rules(self) -> ShareRules:
        """By which slots are shared."""
        return self._state.rules

    @property
    def calendar(self) -> tuple[dict[str, Span], dict[str, tuple[int, int]]]:
        """The spans and the sizes that the last CalendarTurned told."""
        return self._state.spans, self._state.sizes

    def why_never(self, task: TaskDefinition, archived: Ending = lambda _: None) -> str | None:
        """Why a task could never run; to be asked before TaskAdded. `archived` says how a task of the archive ended."""
        return why_never(self._state, task, archived)

    def why_not_there(self, task: str, pool: str) -> str | None:
        """Why a task can not move to this pool; to be asked before TaskMoved."""
        return why_not_there(self._state, self._state.tasks[task].definition, pool)

    def why_no_pool(self, pool: PoolDefinition) -> str | None:
        """Why a pool can not be added; to be asked before PoolAdded."""
        return why_no_pool(self._state, pool)

    def pools(self) -> list[PoolView]:
        """All pools, in the order in which they were added."""
        return [view_pool(self._state, pool) for pool in self._state.pools.values()]

    def tasks(self) -> list[TaskView]:
        """All tasks that are not in the archive, in the order in which they were added."""
        return [view_task(task) for task in self._state.tasks.values()]

    @property
    def has_tasks(self) -> bool:
        """Whether there are any of these."""
        return bool(self._state.tasks)

    def submitted(self) -> dict[str, float]:
        """Ids of these tasks, in the same order → when they were submitted."""
        return {name: task.definition.submitted for name, task in self._state.tasks.items()}

    def tasks_of(self, pool: str) -> list[str]:
        """Ids of those that wait or run in a pool."""
        return [name for name, task in self._state.tasks.items() if task.definition.pool == pool]

    def tasks_meant(self, text: str) -> list[str]:
        """Ids that begin so, and those of tasks with this name."""
        tasks = self._state.tasks.items()
        return [name for name, task in tasks if name.startswith(text) or task.definition.name == text]

    def task(self, task: str) -> TaskView | None:
        """One task; None where it is not known, or in the archive."""
        known = self._state.tasks.get(task)
        return view_task(known) if known else None

    def instances(
        self, task: str, which: slice | Collection[int] = slice(None), state: InstanceState | None = None
    ) -> Iterator[InstanceView]:
        """Instances of a task: a part of all, or of those in a state, or these numbers."""
        return view_instances(self._state.tasks[task], which, state)

    def workers(self) -> list[tuple[str, str]]:
        """Every worker that is there, leaves or was asked for: its pool and its name."""
        found = ((name, pool.workers) for name, pool in self._state.pools.items())
        return [(name, one) for name, of in found for one in sorted({*of.observed, *of.requested, *of.leaving})]

    def joined(self, pool: str) -> frozenset[str]:
        """Workers of a pool that came, and are not known to be gone."""
        return frozenset(self._state.pools[pool].seats.slots)

    def queue(self, pool: str, most: int = 100) -> list[QueueEntry]:
        """The order in which the instances that wait for a pool would start now: so many entries; none where it is
        gone."""
        known = self._state.pools.get(pool)
        return queue(self._state, known, most=most) if known else []

    def ahead_of(self, task: str) -> int:
        """How many instances of other tasks would start before its next one; counted up to a thousand."""
        return ahead_of(self._state, self._state.tasks[task], self._lines)

    def why(self, task: str) -> list[str]:
        """Why instances of a task wait, and what is ahead of them; empty where none waits."""
        return why(self._state, self._state.tasks[task], self._lines)


def entries(event: ServiceEvent, commands: Iterable[ServiceCommand]) -> list[ServiceEvent]:
    """What the log gets before the commands are carried out: the event, and what was decided."""
    return [event, *(command.event for command in commands if isinstance(command, RecordDecision))]
