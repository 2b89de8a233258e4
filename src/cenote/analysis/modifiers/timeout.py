"""The `timeout` modifier: a limit of time that grows with the events."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Self

from pydantic import Field, model_validator

from cenote.analysis.modifiers.interface import Modifier, Run, StageCall
from cenote.analysis.modifiers.support.measures import Measure
from cenote.analysis.operations.interface import Result
from cenote.analysis.operations.support.events import Events
from cenote.language.plugins.settings import Seconds

LONGEST_EVENT = 86400
"""Seconds that one event may add: a day."""


class Timeout(Modifier):
    """Stops the stage when it takes longer than its events explain. The task then counts as timed out, and is tried
    again as often as `execution.retries` says. The limit takes the place of `execution.timeout`, which is the same for
    partitions of every size. Limits are whole seconds, rounded up."""

    example: ClassVar[str] = """
    - id: Fit
      op: custom.fit
      execution: {modifiers: [{name: timeout, params: {base: 1m, per_event: 0.002}}]}
    """

    why_not_compiled: ClassVar[str] = "limits its time"
    limits_time: ClassVar[bool] = True
    measures: ClassVar[Mapping[str, Measure]] = {
        "limit": Measure("Largest limit", "most", unit="seconds"),
        "seconds": Measure("Longest call", "most", unit="seconds"),
        "used": Measure("Most of a limit used, %", "most"),
    }

    base: Seconds = 60
    """Time that a call may take however few events it has."""
    per_event: float = Field(default=0.0, ge=0, le=LONGEST_EVENT)
    """Seconds that every event adds to it."""

    @model_validator(mode="after")
    def _is_a_limit(self) -> Self:
        if self.base <= 0 and self.per_event <= 0:
            raise ValueError("'base' or 'per_event' must be more than zero: no stage ends in no time")
        return self

    def around(self, run: Run, events: Events, call: StageCall) -> Result:
        """Set the limit, and call the stage."""
        limit = max(1, math.ceil(self.base + self.per_event * events.size))
        call.limit(limit)
        began = call.seconds()
        result = run(events)
        seconds = call.seconds() - began
        call.note(limit=limit, seconds=seconds, used=round(100 * seconds / limit, 1))
        return result
