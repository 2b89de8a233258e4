"""Refuse to overwrite columns where that is nearly always a mistake."""

from __future__ import annotations

from collections.abc import Collection

from cenote import errors


def refuse_existing(name: str, columns: Collection[str], stage: str) -> None:
    """Raises `column-clash` when a column of this name is there already."""
    if name in columns:
        raise errors.error(
            errors.COLUMN_CLASH,
            f"stage '{stage}' would add the column '{name}', which already exists",
            hint="give the output another name",
        )
