"""State what a kind of product is: merged in order, saved in formats that other tools read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Product(ABC):
    """A kind of product. The values themselves are ordinary objects (`hist.Hist`, tables, lists of files)."""

    @abstractmethod
    def merge(self, parts: Sequence[Any]) -> Any:
        """One value from many, in the order given; a single part comes back equal."""

    @abstractmethod
    def save(self, value: Any, folder: Path, name: str) -> list[Path]:
        """Write it under this name; every file is written atomically. Returns what was written."""

    @abstractmethod
    def load(self, folder: Path, name: str) -> Any:
        """Read back what `save` wrote."""

    @abstractmethod
    def describe(self, value: Any) -> str:
        """One line for a summary: `1 axis, 60 bins, 1.2 M entries`."""
