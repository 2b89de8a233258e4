"""Find the columns of a collection by the names that experiments give them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

CARTESIAN: Mapping[str, tuple[str, ...]] = {
    "px": ("px",),
    "py": ("py",),
    "pz": ("pz",),
    "energy": ("e", "energy"),
}
CYLINDRICAL: Mapping[str, tuple[str, ...]] = {"pt": ("pt",), "eta": ("eta",), "phi": ("phi",)}
MASS: tuple[str, ...] = ("mass", "m")


def column_of(collection: str, names: Collection[str], columns: Collection[str]) -> str | None:
    """The column `<collection>_<name>` for the first of these names, whatever its capital letters."""
    prefix = f"{collection}_"
    by_folded = {column.lower(): column for column in columns if column.startswith(prefix)}
    return next((by_folded[key] for name in names if (key := f"{prefix}{name}".lower()) in by_folded), None)


def columns_of(
    collection: str, wanted: Mapping[str, tuple[str, ...]], columns: Collection[str]
) -> dict[str, str] | None:
    """Component → column, if all of them are there."""
    found = {component: column_of(collection, names, columns) for component, names in wanted.items()}
    complete = {component: column for component, column in found.items() if column is not None}
    return complete if len(complete) == len(wanted) else None
