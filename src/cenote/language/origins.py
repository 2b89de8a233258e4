"""Say where a value stands in the document, and which layer gave it."""

from __future__ import annotations

from cenote.errors import Place
from cenote.values import dataclass

KeyPath = tuple[str | int, ...]
"""Where a value stands in the document: `("analysis", "stages", 2, "params", "expr")`."""


@dataclass(frozen=True)
class Origin:
    """Where an effective value came from."""

    layer: str
    """`built-in`, `site (desy)`, `profile mine.yaml`, `flow.yaml`, `command line`."""
    place: Place | None = None
