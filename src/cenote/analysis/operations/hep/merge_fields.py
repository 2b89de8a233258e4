"""The operation `hep.merge_fields`: the columns of several branches together."""

from __future__ import annotations

from typing import ClassVar, Literal

from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import Events

_WHOSE: dict[str, Literal["first", "last", "error"]] = {"keep_first": "first", "keep_last": "last", "error": "error"}


class MergeFields(Operation):
    """Puts the columns of its inputs side by side, for the events that all of them kept."""

    example: ClassVar[str] = """
    - id: Together
      op: hep.merge_fields
      params: {on_conflict: keep_last}
    """

    on_conflict: Literal["keep_first", "keep_last", "error"] = "keep_first"
    """Whose column counts where several inputs define one of the same name; `error` where it is read later."""

    def whose_columns(self) -> Literal["first", "last", "error"]:
        """As the setting says."""
        return _WHOSE[self.on_conflict]

    def run(self, events: Events) -> Result:
        """They come in joined."""
        return Result(events)
