"""State where a task's inputs come from and where its results go."""

from __future__ import annotations

from typing import Any, Protocol

from cenote.worker.results.packed_events import PackedEvents


class Exchange(Protocol):
    """Where a task's inputs come from and its results go: the store, or the memory of workers."""

    def read(self, name: str) -> Any:
        """What an earlier task wrote under this name."""

    def write(self, name: str, value: Any, *, wait: bool = False) -> int:
        """Hand over a result; returns its size in bytes, or 0 where that is not known.

        With `wait` it is safe from a crash of the machine afterwards, where it can be.
        """


class Collected:
    """Keeps what the pieces of a split partition hand over, until they are put together."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.written: dict[str, PackedEvents] = {}

    def read(self, name: str) -> Any:
        return self._exchange.read(name)

    def write(self, name: str, value: Any, *, wait: bool = False) -> int:  # noqa: ARG002  # put together first
        self.written[name] = value
        return 0
