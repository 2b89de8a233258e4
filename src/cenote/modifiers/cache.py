"""The `cache` modifier: keep the events that leave a stage for later runs."""

from __future__ import annotations

from typing import ClassVar

from cenote.modifiers.interface import Modifier, Run, StageCall
from cenote.operations.interface import Result
from cenote.operations.support.events import Events


class Cache(Modifier):
    """Stores the events that leave the stage, with the columns that later stages read, in the folder of the run. After
    a change of later stages only these run again, and what the stage and those before it computed is read from there.
    Costs the disk space of these columns, uncompressed, and the time to write them."""

    example: ClassVar[str] = """
    - id: Selected
      op: custom.slow_selection
      execution: {modifiers: [cache]}
    """

    why_not_compiled: ClassVar[str] = ""
    keeps_output: ClassVar[bool] = True

    def around(self, run: Run, events: Events, call: StageCall) -> Result:  # noqa: ARG002  # as all modifiers take it
        """Call the stage: what is kept is decided by the plan, and stored as the events leave the task."""
        return run(events)
