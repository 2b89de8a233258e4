"""The operation `hep.weights.pdf_envelope`: the largest and the smallest of many weights."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from pydantic import Field

from cenote.analysis.expressions.functions import FUNCTIONS
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import Events
from cenote.language.plugins.settings import Settings


class EnvelopeColumns(Settings):
    """The columns to add."""

    up: str | None = None
    """The largest weight of each event."""
    down: str | None = None
    """The smallest weight of each event."""


class PdfEnvelope(Operation):
    """Adds the envelope of weights that are stored as a list per event; missing where an event has none."""

    example: ClassVar[str] = """
    - id: Envelope
      op: hep.weights.pdf_envelope
      params: {inputs: LHEPdfWeight, outputs: {up: pdf_up, down: pdf_down}}
    """

    inputs: str = Field(min_length=1)
    """A column of lists."""
    outputs: EnvelopeColumns
    """The columns to add."""

    def reads(self) -> Collection[str]:
        """The weights."""
        return (self.inputs,)

    def adds(self) -> Collection[str]:
        """The columns that are named."""
        return tuple(name for name in (self.outputs.up, self.outputs.down) if name)

    def keeps_every_event(self) -> bool:
        """It adds columns."""
        return True

    def run(self, events: Events) -> Result:
        """Of each event."""
        weights = events[self.inputs]
        found = {self.outputs.up: "max", self.outputs.down: "min"}
        added = {name: FUNCTIONS[function].apply(weights) for name, function in found.items() if name}
        return Result(events.with_columns(added))
