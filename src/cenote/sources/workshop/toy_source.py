"""The source `workshop.toy_source`: `toy` under the name that FAST-HEP's workshop has for it."""

from __future__ import annotations

from typing import ClassVar

from cenote.sources.toy import ToySource


class WorkshopToySource(ToySource):
    """The same as `toy`."""

    example: ClassVar[str] = """
    sources:
      events: {kind: workshop.toy_source, nevents: 1000, seed: 42}
    """
