"""The worker process of the local backend: takes tasks from a pipe, sends outcomes back.

Started by `cenote.execution.worker.process.start` with the numbers of two file descriptors, the pipe and where it
notes its stage: it never imports the user's main module again. It ends when the pipe closes or its parent is gone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from cenote.common.software import Difference, in_words
from cenote.execution.worker.failure import failure_of
from cenote.execution.worker.process.alarm import end_when_over, listen_to_alarm
from cenote.execution.worker.process.memory import keep_freed_memory
from cenote.execution.worker.process.user_output import say_lines_at_once
from cenote.execution.worker.process.whereabouts import Whereabouts
from cenote.execution.worker.run_task import TaskRunner
from cenote.execution.worker.task_spec import Outcome, RunSpec, TaskSpec, TimeLimit

_LOOK_EVERY = 0.2
"""Seconds between two looks at the parent and the clock."""


class _Watch:
    """Ends this process when its parent is gone, or when a stage runs past its timeout, and says which stage runs."""

    def __init__(self, pipe: Connection, lock: threading.Lock, whereabouts: Whereabouts) -> None:
        self._pipe, self._lock, self._whereabouts = pipe, lock, whereabouts
        self._parent = os.getppid()
        self._step: tuple[str, TimeLimit, float] | None = None
        self._alarmed = False
        self.task = -1

    def on_step(self, stage: str, limit: TimeLimit | None) -> None:
        """Called by the runner as it enters a stage."""
        self._whereabouts.write(stage)
        self._step = None if limit is None else (stage, limit, time.monotonic() + limit.seconds)
        if limit is not None or self._alarmed:
            end_when_over([] if limit is None else [limit.seconds])
            self._alarmed = limit is not None

    def run(self) -> None:
        while True:
            time.sleep(_LOOK_EVERY)
            if os.getppid() != self._parent:
                os._exit(1)
            step = self._step
            if step is not None and time.monotonic() > step[2]:
                with self._lock:
                    self._pipe.send(Outcome.of_timeout(self.task, stage=step[0], limit=step[1]))
                    os._exit(0)


def serve(pipe: Connection, whereabouts: Whereabouts, differs: str = "") -> None:
    """Until the pipe closes: one run spec, then lists of task specs in, outcomes out, each as it is there. Before the
    first task it says in what its software differs."""
    lock = threading.Lock()
    watch = _Watch(pipe, lock, whereabouts)
    threading.Thread(target=watch.run, daemon=True).start()
    run_spec: RunSpec = pipe.recv()
    try:
        runner = TaskRunner(run_spec)
    except BaseException as problem:  # a plugin may raise anything, SystemExit included
        _send(pipe, lock, Outcome(task=-1, failure=failure_of(problem)))
        return
    _send(pipe, lock, differs)
    while True:
        try:
            specs: list[TaskSpec] = pipe.recv()
        except (EOFError, OSError):
            return
        for spec in specs:
            watch.task = spec.task
            _send(pipe, lock, runner.run(spec, on_step=watch.on_step))


def _send(pipe: Connection, lock: threading.Lock, value: Any) -> None:
    with lock:
        try:
            pipe.send(value)
        except OSError:
            os._exit(1)  # the driver is gone; the result is stored, a resumed run will find it


def turned_away(reason: str) -> None:
    """The driver reads the reason from what this process wrote."""
    del reason


def main(differences: Sequence[Difference] = ()) -> None:
    """Run the worker, which differs so from its driver."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which tells us
    listen_to_alarm()
    keep_freed_memory()
    say_lines_at_once()
    with Connection(int(sys.argv[1])) as pipe:
        serve(pipe, Whereabouts(int(sys.argv[2])), in_words(differences))


if __name__ == "__main__":  # where no driver is named to compare with
    main()
