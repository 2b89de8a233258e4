"""This file says what a sink is: it writes events to a file."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from cenote.operations.events import Events
from cenote.plugins.settings import Settings


class Sink(Settings):
    """Writes the events of one partition. Its fields are the settings of a `write` entry."""

    suffix: ClassVar[str] = ""
    """Of the files it writes, with the dot."""

    def write(self, events: Events, target: Path) -> None:
        """Write all columns to this path, which does not exist yet; the caller renames it into place."""
        raise NotImplementedError
