"""State what a sink is: it writes events to a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from cenote.operations.support.events import Events
from cenote.plugins.settings import Settings


class Sink(Settings):
    """Writes the events of one partition. Its fields are the settings of a `write` entry."""

    suffix: ClassVar[str] = ""
    """Of the files it writes, with the dot."""

    merges: ClassVar[bool] = False
    """Whether it has `merge`: what `when: dataset` needs."""

    def merge(self, parts: Sequence[Path], target: Path) -> None:
        """Write the events of several files of this sink to one, in this order; no more than one part in memory."""
        raise NotImplementedError

    def write(self, events: Events, target: Path) -> None:
        """Write all columns to this path, which does not exist yet; the caller renames it into place."""
        raise NotImplementedError
