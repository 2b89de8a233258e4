"""The operation `hep.select`: keep the events that fulfil a selection."""

from __future__ import annotations

from typing import ClassVar

from cenote.analysis.operations.filter import Filter


class Select(Filter):
    """Keeps events: `selection: ["nMuon >= 2", {Any: [HLT_IsoMu24, HLT_Mu50]}]`."""

    example: ClassVar[str] = """
    - id: TwoMuons
      op: hep.select
      params: {selection: ["nMuon >= 2", HLT_IsoMu24]}
    """
