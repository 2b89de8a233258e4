"""Run tasks in worker processes of this machine: start them, by forking where possible, and replace those that die."""

from __future__ import annotations

import os
import signal
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path

from cenote.common import errors, software
from cenote.common.shell import ProcessGroup, RunningProcess, exit_code, is_fault, is_overdue, start_process
from cenote.common.units import format_seconds
from cenote.engine.messages import AnyEvent, LossCause, Warned, WorkerAnswers, WorkerSilent
from cenote.execution.backends.interface import Session, SessionRequest
from cenote.execution.backends.local.slots import SlotTable
from cenote.execution.backends.support.outcomes import (
    STOPPED,
    Bundling,
    event_of,
    failed,
    lost_in,
    started,
    vital_signs,
    withdrawn,
)
from cenote.execution.launch import Launch, words
from cenote.execution.start_failures import StartFailure
from cenote.execution.worker.process.forking import ForkedOutput, NoForkError, WarmProcess
from cenote.execution.worker.process.user_output import tail
from cenote.execution.worker.process.warm_processes import TEMPLATE_LOG, WarmProcesses, words_to_import
from cenote.execution.worker.process.whereabouts import Whereabouts
from cenote.execution.worker.results.store import Store
from cenote.execution.worker.task_spec import Outcome, TaskSpec
from cenote.language.execution import Amounts

# Start the worker processes of the local backend: forked from a warm one where that is possible, else in full.


_MODULE = "cenote.execution.worker.process.main"
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Tasks are the parallelism: libraries that start a thread per core would fight over the cores."""


class ProcessStarter:
    """Knows how processes of one run are started."""

    def __init__(self, request: SessionRequest) -> None:
        warm = words_to_import(_MODULE, request.run_spec.segments)
        launch = Launch(run=request.run, pool="", resources=Amounts(), module=_MODULE, warm=warm)
        threads = {name: value for name, value in _ONE_THREAD.items() if name not in os.environ}
        self._launch = request.complete(launch.with_variables(**threads))
        self._templates = WarmProcesses()

    def warm(self) -> None:
        """Begin to import what processes need: the driver has something to do until there are tasks."""
        self._template()

    @property
    def is_ready(self) -> bool:
        """Whether a process can be started now: not while the one that it is forked from is still importing."""
        template = self._template()
        return template is None or template.is_warm

    @property
    def warming(self) -> list[socket.socket]:
        """Readable when that has changed."""
        return self._templates.warming

    def start(self, name: str, shared: Sequence[int]) -> RunningProcess:
        """A worker with these descriptors, whose numbers are its last arguments; its output goes to files of this
        name."""
        template = self._template()
        return (self._forked(template, name, shared) if template else None) or self._in_full(name, shared)

    def close(self) -> None:
        """No more will be started."""
        self._templates.close()

    def _template(self) -> WarmProcess | None:
        """What processes are forked from; None where each is started in full."""
        if (ready := self._launch.forked_here("")) is None:
            return None
        return self._templates.of(self._launch.warm, ready[1], self._launch.run.folder("err") / TEMPLATE_LOG)

    def _forked(self, template: WarmProcess, name: str, shared: Sequence[int]) -> RunningProcess | None:
        ready = self._launch.forked_here(name)
        assert ready is not None, "there would be no template"
        command, variables = ready
        with suppress(NoForkError):
            return template.fork(command, variables=variables, output=self._output(name), descriptors=shared)
        return None

    def _in_full(self, name: str, shared: Sequence[int]) -> RunningProcess:
        command, made = replace(self._launch, arguments=words(*map(str, shared))).here(name)
        output = self._output(name)
        started = start_process(command, pass_fds=shared, environment=made, stdout=output.stdout, stderr=output.stderr)
        return ProcessGroup(started)

    def _output(self, name: str) -> ForkedOutput:
        return ForkedOutput(self._launch.run.folder("out") / name, self._launch.run.folder("err") / name)


_LOOK_EVERY = 1.0
"""Seconds between two looks at how the processes are."""
_TO_END = 2.0
"""Seconds for a process that has hung up to be gone."""
_STILLBORN = 3
"""So many processes that die before their first task mean that none will ever live."""


@dataclass
class _Bundle:
    """Tasks that were sent to a process together, for one place of a pool; it runs them one after the other."""

    specs: deque[TaskSpec]
    """Those that it has not told of; it is at the first."""
    pool: str
    place: int
    since: float
    """When it began the first."""


@dataclass
class _Worker:
    """One process and what it does."""

    process: RunningProcess
    pipe: Connection
    whereabouts: Whereabouts
    number: int
    ready: bool = False
    bundle: _Bundle | None = None
    """What it works on."""
    cancelled: bool = False
    stopped: float | None = None
    """Since when it has been seen to be stopped."""


class ProcessSession(Session):
    """As many processes as there are cores, each serving every pool."""

    def __init__(self, request: SessionRequest, patience: float, *, joined: bool = True) -> None:
        self._request, self._patience = request, patience
        self._looked = 0.0
        self._slots = SlotTable(request.pools)
        self._bundling = Bundling()
        self._workers: list[_Worker] = []
        self._started = 0
        self._stillborn = 0
        """How many died in a row before they could take a task."""
        self._warned = False
        self._pending: list[AnyEvent] = list(self._slots.joined(request.clock())) if joined else []
        request.run.make_folders()
        self._starter = ProcessStarter(request)
        self._starter.warm()

    def prepare(self, tasks: int, seconds: float = 0) -> bool:
        """Have processes for so many tasks, which will come later; whether one could begin now. Called again, for it
        waits for so long at the most."""
        self._start_some(min(tasks, self._request.cpus) - len(self._workers))
        self._listen(seconds)
        return any(worker.ready for worker in self._workers)

    def run(self, spec: TaskSpec, pool: str) -> None:
        self._slots.wait(spec, pool)

    def cancel(self, task: int) -> None:
        if (taken := self._slots.withdraw(task)) is not None:
            self._pending.append(withdrawn(taken[0], at=self._request.clock(), pool=taken[1]))
            return
        for worker in self._workers:
            if worker.bundle is None or all(spec.task != task for spec in worker.bundle.specs):
                continue
            if worker.bundle.specs[0].task == task:
                worker.cancelled = True
                worker.process.kill()
            else:
                self._take_out(worker.bundle, task)

    def events(self, seconds: float) -> list[AnyEvent]:
        self._dispatch()
        self._listen(0 if self._pending else seconds)
        self._look_at_processes()
        self._dispatch()
        told, self._pending = self._pending, []
        return told

    def close(self) -> None:
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.wait()
            worker.pipe.close()
            worker.whereabouts.close()
        self._workers.clear()
        self._starter.close()

    def _take_out(self, bundle: _Bundle, task: int) -> None:
        """A task that its process has not begun: what that will tell of it is not heard."""
        (spec,) = [spec for spec in bundle.specs if spec.task == task]
        bundle.specs.remove(spec)
        self._pending.append(withdrawn(spec, at=self._request.clock(), pool=bundle.pool))

    def _dispatch(self) -> None:
        idle = [worker for worker in self._workers if worker.ready and worker.bundle is None]
        while idle and (taken := self._slots.take()) is not None:
            worker = idle.pop()
            spec, pool, place = taken
            together = self._bundling.size(spec, 1 + self._slots.alike(spec, pool), self._request.cpus)
            specs = [spec, *self._slots.take_more(spec, pool, together - 1)]
            worker.bundle = _Bundle(deque(specs), pool, place, 0.0)
            self._begin_next(worker.bundle)
            try:
                worker.pipe.send(specs)
            except OSError:
                continue  # it died just now; the pipe tells so next time
        starting = sum(not worker.ready for worker in self._workers)
        most = min(self._request.cpus, self._slots.places)
        self._start_some(min(self._slots.waiting - starting, most - len(self._workers)))

    def _begin_next(self, bundle: _Bundle) -> None:
        bundle.since = at = self._request.clock()
        name = self._slots.worker(bundle.pool, bundle.place)
        self._pending.append(started(bundle.specs[0], at=at, pool=bundle.pool, worker=name))

    def _start_some(self, count: int) -> None:
        """So many processes, or none yet where they cannot begin at once."""
        if count <= 0 or not self._starter.is_ready:
            return
        for _ in range(count):
            self._start()

    def _start(self) -> None:
        key = Store(self._request.store).key  # may have to be written, on a disk that is full
        self._started += 1
        ours, theirs = socket.socketpair()
        with theirs:
            whereabouts = Whereabouts.new()
            process = self._starter.start(self._name(self._started), [theirs.fileno(), whereabouts.descriptor])
        pipe = Connection(ours.detach())
        run_spec = replace(self._request.run_spec, key=key)
        with suppress(OSError):  # one that was turned away is gone already; the pipe tells so
            pipe.send(run_spec)
        self._workers.append(_Worker(process, pipe, whereabouts, self._started))

    def _listen(self, seconds: float) -> None:
        pipes = {worker.pipe: worker for worker in self._workers}
        for ready in wait([*pipes, *self._starter.warming], timeout=seconds):
            if isinstance(ready, Connection):
                self._hear(pipes[ready])

    def _look_at_processes(self) -> None:
        """Say which are stopped, and end those that stay so. What one has started may keep its pipe open after its end,
        which is then seen here."""
        now = self._request.clock()
        if now - self._looked < _LOOK_EVERY:
            return
        self._looked = now
        for worker in [worker for worker in self._workers if worker.process.poll() is not None]:
            if not worker.pipe.poll():  # else it has said something, or its end is known
                self._lost(worker)
        for worker in [worker for worker in self._workers if worker.bundle is not None]:
            signs = vital_signs(worker.process.pid)
            if signs is None or not signs.stopped:
                self._go_on(worker, now)
            elif worker.stopped is None:
                worker.stopped = now
                self._pending.append(WorkerSilent(at=now, **self._named(worker), seconds=0.0, patience=self._patience))
            elif now - worker.stopped >= self._patience:
                worker.process.kill()  # the pipe tells when it is gone

    def _go_on(self, worker: _Worker, now: float) -> None:
        if worker.stopped is not None:
            worker.stopped = None
            self._pending.append(WorkerAnswers(at=now, **self._named(worker)))

    def _named(self, worker: _Worker) -> dict[str, str]:
        assert worker.bundle is not None
        pool = worker.bundle.pool
        return {"pool": pool, "worker": self._slots.worker(pool, worker.bundle.place)}

    def _hear(self, worker: _Worker) -> None:
        """All that it has said by now."""
        while self._hear_one(worker) and worker.pipe.poll():
            pass

    def _hear_one(self, worker: _Worker) -> bool:
        """Whether it lives."""
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            self._lost(worker)
            return False
        if isinstance(message, Outcome) and message.task >= 0:
            self._finished(worker, message)
        elif isinstance(message, Outcome) and message.failure is not None:
            raise errors.error(errors.BAD_PLUGIN, f"workers cannot start: {message.failure.message}")
        else:
            worker.ready = True
            self._stillborn = 0
            self._compared(str(message))
        return True

    def _compared(self, words: str) -> None:
        """Say once in what worker processes differ from this one."""
        if words and not self._warned:
            self._warned = True
            warning = software.warning("worker processes", words)
            self._pending.append(Warned(at=self._request.clock(), message=warning))

    def _finished(self, worker: _Worker, outcome: Outcome) -> None:
        bundle = worker.bundle
        if bundle is None or bundle.specs[0].task != outcome.task:
            return  # it was taken out
        at = self._request.clock()
        self._go_on(worker, at)
        spec = bundle.specs.popleft()
        if outcome.failure is None:
            self._bundling.finish(spec, outcome.seconds)
        name = self._slots.worker(bundle.pool, bundle.place)
        self._pending.append(event_of(outcome, spec, at=at, pool=bundle.pool, worker=name))
        if bundle.specs:
            self._begin_next(bundle)
        else:
            worker.bundle = None
            self._slots.free(bundle.pool, bundle.place)

    def _lost(self, worker: _Worker) -> None:
        code = exit_code(worker.process, patience=_TO_END)  # its code may have closed the pipe, and go on
        worker.pipe.close()
        stage = worker.whereabouts.read()
        worker.whereabouts.close()
        self._workers.remove(worker)
        if not worker.ready:
            self._count_stillborn(worker, code)
        if worker.bundle is None:
            return
        was_stopped = worker.stopped is not None
        self._go_on(worker, self._request.clock())  # another process takes its place
        spec, *others = worker.bundle.specs
        pool, place, since = worker.bundle.pool, worker.bundle.place, worker.bundle.since
        self._slots.free(pool, place)
        self._slots.wait_first(others, pool)
        at = self._request.clock()
        by_itself: LossCause = "crashed" if is_fault(code) else "overdue" if is_overdue(code) else "died"
        fate = "silent" if was_stopped else by_itself
        held = f"the worker process was stopped, and ended after {format_seconds(self._patience)}"
        told = held if was_stopped else self._last_words(worker, code)
        dead = lost_in(stage, spec, self._request.run_spec, message=told, fate=fate)
        lost, name = STOPPED if worker.cancelled else dead, self._slots.worker(pool, place)
        self._pending.append(failed(spec, lost, at=at, pool=pool, worker=name, seconds=at - since))

    def _count_stillborn(self, worker: _Worker, code: int) -> None:
        self._stillborn += 1
        if (failure := StartFailure.of(code)) is not None:
            words, written = failure.value.words, tail(self._errors_of(worker)).strip().splitlines()[-1:]
            raise errors.error(
                errors.ENVIRONMENT, f"workers cannot start: {words}", details=written, hint=failure.value.hint
            )
        if self._stillborn >= _STILLBORN:
            raise errors.error(
                errors.WORKER_LOST,
                f"worker processes exit before they can take a task: {self._last_words(worker, code)}",
                hint=f"their output is in {self._request.run.output}",
            )

    def _last_words(self, worker: _Worker, code: int) -> str:
        how = f"ended with exit code {code}"
        if code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
            if -code == signal.SIGKILL:
                how += " (often because the machine ran out of memory)"
        return "\n".join([f"the worker process {how}", *tail(self._errors_of(worker)).splitlines()[-5:]])

    def _errors_of(self, worker: _Worker) -> Path:
        return self._request.run.folder("err") / self._name(worker.number)

    @staticmethod
    def _name(number: int) -> str:
        return f"local-{number}"
