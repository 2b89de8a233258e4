"""Read JSON that may be old, cut short or from another version: what is not as expected is not there."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any


class Fields:
    """A JSON object, asked for one kind of value at a time."""

    def __init__(self, value: object) -> None:
        self._values: dict[str, Any] = value if isinstance(value, dict) else {}

    @classmethod
    def from_file(cls, path: Path) -> Fields:
        """The object in this file; an empty one when there is none."""
        try:
            return cls(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return cls(None)

    def __bool__(self) -> bool:
        return bool(self._values)

    def text(self, key: str, default: str = "") -> str:
        """A text; numbers are written out."""
        value = self._values.get(key)
        return default if value is None or isinstance(value, dict | list) else str(value)

    def number(self, key: str) -> float | None:
        """A finite number."""
        value = self._values.get(key)
        good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return float(value) if good else None  # type: ignore[arg-type]  # it is a number here

    def whole(self, key: str, default: int = 0) -> int:
        """A whole number."""
        value = self.number(key)
        return default if value is None else int(value)

    def flag(self, key: str) -> bool:
        """Whether it is there and true."""
        return self._values.get(key) is True

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        value = self._values.get(key)
        return tuple(str(one) for one in value if one is not None) if isinstance(value, list) else ()

    def inner(self, key: str) -> Fields:
        """The object under this key; an empty one when there is none."""
        return Fields(self._values.get(key))

    def objects(self, key: str) -> list[Fields]:
        """The list of objects under this key."""
        value = self._values.get(key)
        return [Fields(one) for one in value if isinstance(one, dict)] if isinstance(value, list) else []

    def rows(self, key: str, width: int) -> list[tuple[int, ...]]:
        """The list of rows of so many whole numbers (or yes and no) under this key."""
        value = self._values.get(key)
        lists = [one for one in value if isinstance(one, list)] if isinstance(value, list) else []
        return [tuple(map(int, one)) for one in lists if len(one) == width and all(isinstance(n, int) for n in one)]

    def numbers(self, key: str) -> list[int]:
        """The list of whole numbers under this key."""
        value = self._values.get(key)
        return [one for one in value if isinstance(one, int)] if isinstance(value, list) else []

    def items(self) -> list[tuple[str, str]]:
        """Every key with its value as text, for tables of names and values."""
        return [(str(key), self.text(str(key))) for key in self._values]

    def counts(self, key: str) -> tuple[tuple[str, int], ...]:
        """An object of whole numbers."""
        inner = self.inner(key)
        return tuple((name, inner.whole(name)) for name, _ in inner.items())
