"""Count the workers of a pool, and keep how the pool was. Only RunView changes it."""

from __future__ import annotations

from dataclasses import dataclass, field

from cenote.engine.messages import JobChanged, JobState, PoolChanged, TaskDone, WorkerJoined, WorkerLost
from cenote.execution.runs.summary import PoolRecord, StateRecord, iso_time, rounded
from cenote.planning.record import PlannedPool


@dataclass(slots=True)
class PoolTally:
    """The workers of one pool; their lifetimes are added up whenever one comes or goes."""

    workers: dict[str, int] = field(default_factory=dict)
    """Slots of the workers that are there, by name."""
    requested: dict[str, str] = field(default_factory=dict)
    """Workers that were asked for and have not come → what the batch system last said of them."""
    silent: dict[str, float] = field(default_factory=dict)
    """Workers that do not answer → since when."""
    workers_requested: int = 0
    workers_started: int = 0
    workers_lost: int = 0
    """Without those that were stopped on purpose, and those whose walltime was over."""
    workers_timed_out: int = 0
    """Gone because their walltime was over."""
    workers_refused: int = 0
    """Asked for, and gone before they came."""
    last_loss: str = ""
    last_lines: str = ""
    """What the worker that was lost last wrote."""
    empty_since: float | None = None
    """Since when it has had no worker; None while one is there, or before the run began."""
    held: str = ""
    """What keeps its tasks from its workers."""
    states: list[StateRecord] = field(default_factory=list)
    """How it was, as far as that was written down."""
    running: int = 0
    done: int = 0
    busy: float = 0.0
    peak_memory: int = 0
    _worker_seconds: float = 0.0
    _slot_seconds: float = 0.0
    _changed: float = 0.0

    def request(self, worker: str) -> None:
        """A worker was asked for."""
        if worker not in self.workers and worker not in self.requested:
            self.requested[worker] = ""
            self.workers_requested += 1

    def change_job(self, event: JobChanged) -> None:
        """The batch system has news of a worker that has not come."""
        if event.worker in self.requested:
            running = "its job has started" if event.state is JobState.RUNNING else ""
            self.requested[event.worker] = event.reason or running or event.native or event.state

    def join(self, event: WorkerJoined) -> None:
        """A worker came; one that is there already is not counted again."""
        self.requested.pop(event.worker, None)
        if event.worker not in self.workers:
            self._add_up(event.at)
            self.workers[event.worker] = event.slots
            self.workers_started += 1
            self.empty_since = None

    def lose(self, event: WorkerLost) -> None:
        """A worker left; an unknown one is not counted."""
        self.silent.pop(event.worker, None)
        by_itself = event.cause not in ("retired", "walltime")
        if event.worker in self.workers:
            self._add_up(event.at)
            del self.workers[event.worker]
            self.workers_lost += by_itself
            self.workers_timed_out += event.cause == "walltime"
            if not self.workers:
                self.empty_since = event.at
        elif by_itself and (self.requested.pop(event.worker, None) is not None or event.cause == "refused"):
            self.workers_refused += 1
        self.requested.pop(event.worker, None)
        if by_itself:
            self.last_loss, self.last_lines = event.reason, event.log

    def change(self, event: PoolChanged) -> None:
        """The pool is in another state."""
        self.states.append(StateRecord(event.state.value, iso_time(event.at), event.reason))

    def finish(self, event: TaskDone) -> None:
        """A task of this pool is done."""
        self.done += 1
        self.busy += event.seconds
        self.peak_memory = max(self.peak_memory, event.peak_memory)

    def lifetimes(self, now: float) -> tuple[float, float]:
        """Worker-seconds and slot-seconds until now."""
        since = max(0.0, now - self._changed)
        return (
            self._worker_seconds + since * len(self.workers),
            self._slot_seconds + since * sum(self.workers.values()),
        )

    @property
    def last_word(self) -> str:
        """The latest reason why a worker is not there."""
        return next((word for word in reversed(self.requested.values()) if word), self.last_loss)

    def record(
        self, pool: PlannedPool, *, now: float, running: float, ahead: int, time_left: float | None
    ) -> PoolRecord:
        """The pool at this moment; `running` are the seconds so far of the tasks that run there now."""
        worker_seconds, slot_seconds = self.lifetimes(now)
        busy = self.busy + running
        return PoolRecord(
            name=pool.name,
            strategy=pool.strategy,
            state=self.states[-1].state if self.states else self._word(ahead),
            states=tuple(self.states),
            workers_requested=self.workers_requested,
            workers_started=self.workers_started,
            workers_lost=self.workers_lost,
            workers_timed_out=self.workers_timed_out,
            workers_refused=self.workers_refused,
            slots=pool.granted.slots,
            tasks=self.done,
            running=self.running,
            waiting=ahead,
            slot_seconds_busy=rounded(busy),
            slot_seconds_idle=rounded(max(0.0, slot_seconds - busy)),
            peak_memory=self.peak_memory,
            cost=None if pool.cost is None else pool.cost * worker_seconds / 3600,
            workers=len(self.workers),
            awaited=len(self.requested),
            silent={worker: iso_time(since) for worker, since in self.silent.items()},
            empty_since=None if self.empty_since is None else iso_time(self.empty_since),
            last_word=self.last_word,
            last_loss=self.last_loss,
            last_lines=self.last_lines,
            held=self.held,
            time_left=time_left,
        )

    def _word(self, ahead: int) -> str:
        """For backends that request no workers: what the pool is doing."""
        if self.running:
            return "working"
        if not ahead:
            return "done"
        if self.workers:
            return "idle"
        return "workers lost" if self.workers_started else "no worker yet"

    def _add_up(self, at: float) -> None:
        self._worker_seconds, self._slot_seconds = self.lifetimes(at)
        self._changed = max(self._changed, at)
