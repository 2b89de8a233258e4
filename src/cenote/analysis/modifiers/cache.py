"""The `cache` modifier: keep the events that leave a stage for later runs."""

from __future__ import annotations

from typing import ClassVar

from cenote.analysis.modifiers.interface import Modifier, Run, StageCall
from cenote.analysis.operations.interface import Result
from cenote.analysis.operations.support.events import Events


class Cache(Modifier):
    """Keeps the events that leave the stage, with the columns that later stages read, for later runs: always, and not
    only where they were dear to compute. After a change of later stages only these run again, and what the stage and
    those before it computed is read from the store of results. Costs room there, and the time to write them."""

    example: ClassVar[str] = """
    - id: Selected
      op: custom.slow_selection
      execution: {modifiers: [cache]}
    """

    why_not_compiled: ClassVar[str] = ""
    keeps_output: ClassVar[bool] = True

    def around(self, run: Run, events: Events, call: StageCall) -> Result:  # noqa: ARG002  # as all modifiers take it
        """Call the stage: what is kept is decided by the plan, and written as the events leave the task."""
        return run(events)
