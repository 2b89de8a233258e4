"""Start the worker processes of the local backend: forked from a warm one where that is possible, else in full."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from cenote.backends.interface import SessionRequest
from cenote.language.execution import Amounts
from cenote.launch import Launch, words
from cenote.shell import ProcessGroup, RunningProcess, start_process
from cenote.worker.process.forking import ForkedOutput, NoForkError, WarmProcess
from cenote.worker.process.warm_processes import TEMPLATE_LOG, WarmProcesses, words_to_import

_MODULE = "cenote.worker.process.main"
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
