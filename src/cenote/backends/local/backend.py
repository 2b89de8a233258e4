"""The local backend: all cores of this machine; pools limit how many tasks run at once.

Work begins in this process. Where other cores bring more than it costs to use them, threads take over what is left if
tasks compute without Python's lock, and worker processes if not.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from cenote.backends.interface import Backend, Session, SessionRequest
from cenote.plugins.settings import Seconds


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
        """In this process first, unless that is not possible or nothing for somebody's own code: it may end the process
        that it runs in."""
        from cenote.backends.local.worth import are_worth_it  # a file is planned without worker processes

        timed = any(step.may_be_stopped for segment in request.run_spec.segments for step in segment.steps)
        own = bool(request.run_spec.plugins) and are_worth_it(request.work.seconds, request.cpus)
        if timed or not request.in_process or (request.cpus > 1 and (request.processes_asked or own)):
            from cenote.backends.local.processes import ProcessSession

            return ProcessSession(request, self.patience)
        from cenote.backends.local.in_process import InProcessSession

        return InProcessSession(request, self.patience)
