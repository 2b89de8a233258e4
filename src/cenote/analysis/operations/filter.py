"""The operation `filter`: keep the events that fulfil a condition."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar

from pydantic import AliasChoices, Field

from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.conditions import (
    Conditions,
    compiled_mask,
    decisions_in,
    mask_of,
    why_not_compiled,
)
from cenote.analysis.operations.support.events import Events

if TYPE_CHECKING:
    from cenote.analysis.operations.support.stage_form import StageForm


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

    def conditions(self) -> Collection[str]:
        """All of them."""
        return decisions_in(self.selection)

    def why_not_compiled(self) -> str | None:
        """What in its conditions has no compiled form."""
        return why_not_compiled(self.selection)

    def write_compiled(self, form: StageForm) -> None:
        """Keep what fulfils all conditions."""
        form.kept = compiled_mask(self.selection, form)

    def run(self, events: Events) -> Result:
        """Keep what fulfils all conditions."""
        return Result(events.where(mask_of(self.selection, events)))
