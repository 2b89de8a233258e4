"""State what a sink is: it writes events to a file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from cenote.analysis.operations.support.events import Events
from cenote.language.plugins.settings import Plugin


class Sink(Plugin):
    """Writes the events of one partition. Its fields are the settings of a `write` entry."""

    suffix: ClassVar[str] = ""
    """Of the files it writes, with the dot."""

    demands_whole: ClassVar[bool] = False
    """Whether it is of use only where its parts become one file."""

    shown: ClassVar[bool] = False
    """Whether its whole files are short texts for people, which `cenote run` shows at the end."""

    def wants(self) -> tuple[str, ...] | None:
        """The columns that it is given where `keep` names none; None for all."""
        return None

    @classmethod
    def can_merge(cls) -> bool:
        """Whether it says how files become one: what `when: dataset` needs."""
        return cls.merge is not Sink.merge

    def merge(self, parts: Sequence[Path], target: Path) -> None:
        """Write the events of several files of this sink to one, in this order; no more than one part in memory."""
        raise NotImplementedError

    @abstractmethod
    def write(self, events: Events, target: Path) -> None:
        """Write all columns to this path, which does not exist yet; the caller renames it into place."""
