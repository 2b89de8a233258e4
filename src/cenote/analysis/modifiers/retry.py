"""The `retry` modifier: call a stage again at once when it raises what may pass."""

from __future__ import annotations

import builtins
import time
from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, NonNegativeFloat, PositiveInt, field_validator

from cenote.analysis.modifiers.interface import Modifier, Run, StageCall
from cenote.analysis.modifiers.support.measures import Measure
from cenote.analysis.operations.interface import Result
from cenote.analysis.operations.support.events import Events
from cenote.common.text import did_you_mean

BUILT_IN = {
    name: found
    for name, found in vars(builtins).items()
    if isinstance(found, type) and issubclass(found, Exception) and not issubclass(found, Warning)
}
"""The exceptions that need no import."""
LONGEST_WAIT = 300.0
"""Seconds: from here on waits grow no more."""
MOST_DOUBLINGS = 60
"""Of a wait; more would leave the range of numbers."""


def _known(name: str) -> str:
    if "." not in name and name not in BUILT_IN:
        hint = did_you_mean(name, BUILT_IN) or "write 'module.Name' for one that is not built into Python"
        raise ValueError(f"there is no built-in exception '{name}'; {hint}")
    return name


ExceptionName = Annotated[str, AfterValidator(_known)]


class Retry(Modifier):
    """Calls the stage again, on the same worker and with the events that are there, when it raises one of the named
    exceptions. For a service or a file system that fails now and then; `execution.retries` starts the whole task again
    instead, on any worker, whatever the cause."""

    example: ClassVar[str] = """
    - id: Corrected
      op: custom.from_service
      execution: {modifiers: [{name: retry, params: {times: 3, on: [ConnectionError, TimeoutError], wait: 0.5}}]}
    """

    why_not_compiled: ClassVar[str] = "may call it again"
    measures: ClassVar[Mapping[str, Measure]] = {
        "repeats": Measure("Repeats"),
        "rescued": Measure("Calls that succeeded after repeats"),
        "waited": Measure("Waited", unit="seconds"),
        "reason": Measure("Raised", "words"),
    }

    times: PositiveInt = 2
    """How often to call the stage again before its exception counts."""
    on: list[ExceptionName] = Field(default=["OSError"], min_length=1)
    """Exceptions, with all that derive from them: names of Python's own, and `module.Name` of others."""
    wait: NonNegativeFloat = 1.0
    """Seconds before the first repeat; each further one waits twice as long."""

    @field_validator("on", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    def around(self, run: Run, events: Events, call: StageCall) -> Result:
        """Call the stage until it succeeds, raises something else, or has had its repeats."""
        waited = 0.0
        for repeats in range(self.times + 1):
            try:
                result = run(events)
            except Exception as problem:
                if repeats == self.times or not self._may_pass(problem):
                    raise
                call.note(reason=type(problem).__name__)
                pause = min(self.wait * 2.0 ** min(repeats, MOST_DOUBLINGS), LONGEST_WAIT)
                time.sleep(pause)
                waited += pause
            else:
                call.note(repeats=repeats, rescued=int(repeats > 0), waited=waited)
                return result
        raise AssertionError("the last repeat returns or raises")

    def _may_pass(self, problem: Exception) -> bool:
        return any(_is_called(kind, name) for kind in type(problem).__mro__ for name in self.on)


def _is_called(kind: type, name: str) -> bool:
    if "." not in name:
        return kind is BUILT_IN[name]
    whole = f".{kind.__module__}.{kind.__qualname__}"
    return whole.endswith(f".{name}")
