"""The operation `filter`: keep the events that fulfil a condition."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from pydantic import AliasChoices, Field

from cenote.operations.interface import Operation, Result
from cenote.operations.support.conditions import Conditions, mask_of
from cenote.operations.support.events import Events


class Filter(Operation):
    """Drops events."""

    example: ClassVar[str] = """
    - id: Complete
      op: filter
      params: {expr: "minutes > 1 && kilometres > 0.1"}
    """

    selection: Conditions = Field(validation_alias=AliasChoices("selection", "expr"))
    """An expression, a list of them (all must hold), or a tree of `All` and `Any`."""

    def reads(self) -> Collection[str]:
        """The columns of the conditions."""
        return self.names_in(*(text for condition in self.selection for text in condition.texts()))

    def run(self, events: Events) -> Result:
        """Keep what fulfils all conditions."""
        return Result(events.where(mask_of(self.selection, events)))
