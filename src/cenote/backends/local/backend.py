"""The local backend: all cores of this machine, by processes; pools limit how many tasks run at once.

Small work runs in this process. When it turns out not to be small, or another core would help, worker processes
are started and take over what is left.
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
        """In this process when one core is all there is or the work is small; by processes otherwise."""
        from cenote.backends.local.in_process import InProcessSession  # a file is planned without worker processes
        from cenote.backends.local.processes import ProcessSession

        timed = any(step.may_be_stopped for segment in request.run_spec.segments for step in segment.steps)
        if timed or not request.in_process or (request.cpus > 1 and not request.small):
            return ProcessSession(request, self.patience)
        return InProcessSession(request, self.patience)
