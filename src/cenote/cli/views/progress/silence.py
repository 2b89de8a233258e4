"""Show no progress at all."""

from __future__ import annotations

from typing import Generic, Self, TypeVar

from cenote.execution.packing.archive import PackingStep

Shown = TypeVar("Shown", contravariant=True)


class Silence(Generic[Shown]):
    """A context that receives every change and says nothing, and what the kinds of progress have in common."""

    def __call__(self, view: Shown) -> None:
        """Nothing to say."""

    def planning(self, done: int, files: int) -> None:
        """Nothing to say."""

    def packing(self, step: PackingStep) -> None:
        """Nothing to say."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""
