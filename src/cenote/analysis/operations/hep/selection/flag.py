"""The operation `hep.selection.flag`: a boolean column for a selection; no event is dropped."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field

from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.conditions import (
    Conditions,
    compiled_mask,
    decisions_in,
    mask_of,
    why_not_compiled,
)
from cenote.analysis.operations.support.evaluation import refuse_existing
from cenote.analysis.operations.support.events import Events
from cenote.common.text import column_name

if TYPE_CHECKING:
    from cenote.analysis.operations.support.stage_form import StageForm


class Flag(Operation):
    """Adds a boolean column."""

    example: ClassVar[str] = """
    - id: is_signal_region
      op: hep.selection.flag
      params: {selection: ["MET > 100", "nJet >= 2"]}
    """

    selection: Conditions
    """An expression, a list of them (all must hold), or a tree of `All` and `Any`."""
    output: str | None = None
    """The name of the column; the stage's id by default."""
    legacy: Mapping[str, Any] | None = Field(default=None, exclude=True)
    """Accepted, without effect."""

    @property
    def _column(self) -> str:
        return column_name(self.output or self.stage)

    def resolve(self, columns: Collection[str]) -> Self:
        """Raises `column-clash` when the column is there already."""
        refuse_existing(self._column, columns, self.stage)
        return super().resolve(columns)

    def reads(self) -> Collection[str]:
        """The columns of the conditions."""
        return self.names_in(*(text for condition in self.selection for text in condition.texts()))

    def adds(self) -> Collection[str]:
        """The flag."""
        return (self._column,)

    def conditions(self) -> Collection[str]:
        """All of them."""
        return decisions_in(self.selection)

    def why_not_compiled(self) -> str | None:
        """What in its conditions has no compiled form."""
        return why_not_compiled(self.selection)

    def write_compiled(self, form: StageForm) -> None:
        """Add the flag."""
        form.define(self._column, compiled_mask(self.selection, form))

    def keeps_every_event(self) -> bool:
        """It adds columns."""
        return True

    def run(self, events: Events) -> Result:
        """Add the flag."""
        return Result(events.with_columns({self._column: mask_of(self.selection, events)}))
