"""The local backend: all cores of this machine; pools limit how many tasks run at once.

Somebody's own code has a process of its own, always: it may crash, start threads, or close what it did not open. Other
work begins in this process. Where other cores bring more than it costs to use them, threads take over what is left if
tasks compute without Python's lock, and worker processes if not.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from cenote.execution.backends.interface import Backend, Session, SessionRequest
from cenote.execution.worker.process.warm_processes import runs_own_code
from cenote.language.plugins.settings import Seconds


class LocalBackend(Backend):
    """Runs tasks on this machine, without any service."""

    runs_here: ClassVar[bool] = True
    shares_process: ClassVar[bool] = False
    example: ClassVar[str] = """
    execution: {backend: local}
    """

    patience: Seconds = Field(default=60, ge=1)
    """How long a worker process may be stopped until it is ended, and its task given to another one."""

    def open(self, request: SessionRequest) -> Session:
        """In this process first, where that is possible, nobody's own code runs, and no stage has to be stopped."""
        timed = any(step.may_be_stopped for segment in request.run_spec.segments for step in segment.steps)
        asked = request.processes_asked and request.cpus > 1
        if timed or asked or not request.in_process or runs_own_code(request.run_spec):
            from cenote.execution.backends.local.processes import ProcessSession

            return ProcessSession(request, self.patience)
        from cenote.execution.backends.local.in_process import InProcessSession

        return InProcessSession(request, self.patience)
