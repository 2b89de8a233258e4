"""Show two values that differ in a few words: `60 → 50`, `"pt > 20" → "pt > 25"`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

_MOST = 48
"""Characters of a value that is shown whole."""
_AROUND = 12
"""Characters of what is equal that are shown beside what is not, where a text is too long."""
_GAP = re.compile(r"\s")


def as_mapping(value: Any) -> Any:  # Any: plain data
    """Where the order of a mapping counts, identities have it as a list of pairs: the mapping; all else as it is."""
    if not isinstance(value, list | tuple) or not value:
        return value
    if not all(isinstance(one, list | tuple) and len(one) == 2 and isinstance(one[0], str) for one in value):
        return value
    found = dict(value)
    return found if len(found) == len(value) else value


def shown(value: Any) -> str:  # Any: plain data
    """As a person would write it, shortened."""
    return _cut_off(_written(value))


def shown_pair(before: Any, after: Any) -> str:  # Any: plain data
    """`60 → 50`; of long texts, the part that differs."""
    if isinstance(before, str) and isinstance(after, str) and max(len(before), len(after)) > _MOST:
        before, after = _parts_that_differ(before, after)
    return f"{shown(before)} → {shown(after)}"


def _written(value: Any) -> str:  # Any: plain data
    if isinstance(value, str):
        return f'"{value}"'
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    if isinstance(value, float) and math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_written(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_written(inner) for inner in value) + "]"
    return str(value)


def _cut_off(text: str) -> str:
    most = _MOST + 2 * _AROUND + 4  # room for a part of a text, and the dots around it
    if len(text) <= most:
        return text
    end = text[-1] if text[-1] in '"]}' else ""
    return f"{text[: most - 2]}…{end}"


def _parts_that_differ(before: str, after: str) -> tuple[str, str]:
    """Both without most of what they begin and end with alike, from the beginning of a word on."""
    start = _alike(before, after)
    most = min(len(before), len(after)) - start
    end = min(most, _alike(before[::-1], after[::-1]))
    start, end = max(0, start - _AROUND), max(0, end - _AROUND)
    start -= _to_a_gap(before[:start][::-1])
    end -= _to_a_gap(before[len(before) - end :])
    return _part(before, start, end), _part(after, start, end)


def _alike(one: str, other: str) -> int:
    """How many characters they begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))


def _to_a_gap(text: str) -> int:
    """How many characters there are until a word ends; 0 where that is far."""
    found = _GAP.search(text[:_AROUND])
    return found.start() if found else 0


def _part(text: str, start: int, end: int) -> str:
    found = text[start : len(text) - end]
    return ("… " if start else "") + found.strip() + (" …" if end else "")
