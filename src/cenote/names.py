"""This file finds the name that somebody probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to this one, or None when none is close."""
    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(_folded(candidate), candidate)
    if _folded(name) in by_folded:
        return by_folded[_folded(name)]
    matches = get_close_matches(_folded(name), by_folded, n=1, cutoff=0.65)
    return by_folded[matches[0]] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint for an error, or None."""
    match = nearest(name, known)
    return f"did you mean '{match}'?" if match else None


def listed(names: Iterable[str], *, most: int = 12) -> str:
    """Names for a line of an error: sorted, and cut when there are too many to read."""
    ordered = sorted(names)
    shown = ", ".join(ordered[:most])
    return f"{shown}, … ({len(ordered)} in all)" if len(ordered) > most else shown or "none"


def _folded(name: str) -> str:
    return name.lower().replace("-", "_")
