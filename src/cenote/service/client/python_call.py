"""Define what a Python instance runs. Light, because every agent imports it."""

from __future__ import annotations

import msgspec

RETURNED = "cenote-returned"
"""Result file of a Python instance that runs calls of a function (`client.functions.call_files`)."""


class PythonCall(msgspec.Struct, frozen=True):
    """What a Python instance runs: a module with arguments, or calls of a function. Exactly one of both is given."""

    module: str = ""
    arguments: tuple[str, ...] = ()
    function: str = ""
    """Which of the task's resources holds the function: agents fetch it once, and instances read it where it is."""
    calls: str = ""
    """Which of them holds the calls: each instance makes those that are there under its number."""
    limit: float | None = None
    """Seconds for one call, after which its process is ended."""
    warm: tuple[str, ...] = ()
    """Modules of Cenote that it finds imported, where the usual ones are not enough: they must start no threads."""

    @property
    def read_in_place(self) -> tuple[str, ...]:
        """Names of resources that are not copied into folders of instances."""
        return tuple(name for name in (self.function, self.calls) if name)
