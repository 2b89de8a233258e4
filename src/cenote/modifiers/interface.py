"""State what a modifier is: one method around the call of an operation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from cenote.operations.interface import Result
from cenote.operations.support.events import Events
from cenote.plugins.settings import Plugin


class Modifier(Plugin):
    """Runs on the worker, around a stage. Its fields are the `params` of the modifier."""

    @abstractmethod
    def around(self, run: Callable[[Events], Result], events: Events, *, stage: str, folder: str) -> Result:
        """Call `run`, doing something before, after or instead. `folder` is where diagnostics may be written."""
