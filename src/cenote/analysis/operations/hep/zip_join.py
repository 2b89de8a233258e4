"""The operation `hep.zip_join`: a stage that starts from several sources side by side."""

from __future__ import annotations

from typing import ClassVar, Literal

from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import Events
from cenote.language.plugins.settings import Settings


class ZipJoinInput(Settings):
    """One of the sources."""

    name: str
    """The source, as under `from`."""
    prefix: str
    """Its columns are called `<prefix>_<column>`."""


class ZipJoin(Operation):
    """Starts from the sources under `from`, event by event; the same as an entry of `joins`."""

    example: ClassVar[str] = """
    sources:
      l1: {kind: root_tree, tree: L1Tree}
      reco: {kind: root_tree, tree: Events}
    analysis:
      stages:
        - id: Both
          op: hep.zip_join
          from: [l1, reco]
          params: {inputs: [{name: l1, prefix: l1}, {name: reco, prefix: reco}], on_mismatch: error}
    """

    inputs: tuple[ZipJoinInput, ...] = ()
    """Prefixes of sources; without one, the name of the source."""
    on_mismatch: Literal["error", "warn"] = "error"
    """Where they have different numbers of events: an error, or a warning and only as many as all of them have."""

    def run(self, events: Events) -> Result:
        """They come in joined."""
        return Result(events)
