"""The operation `hep.select`: keep the events that fulfil a selection."""

from __future__ import annotations

from cenote.operations.filter import Filter


class Select(Filter):
    """Keeps events: `selection: ["nMuon >= 2", {Any: [HLT_IsoMu24, HLT_Mu50]}]`."""
