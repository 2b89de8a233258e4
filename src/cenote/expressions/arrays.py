"""Tell kinds of columns apart, so that flat ones stay plain numpy and only jagged ones meet awkward."""

from __future__ import annotations

from typing import Any

import numpy as np

from cenote.jagged import ak, is_awkward

Column = Any
"""A numpy array, an awkward array or a Python scalar; awkward publishes no types."""


def plain(value: Column) -> Column:
    """The same values as a numpy array where that costs nothing, or as lists of any length.

    Lists that happen to have one length each are lists too. As a table they would meet a value per event along the
    wrong axis: numpy and awkward (2.9) match axes of tables from the last one.
    """
    if is_awkward(value) and isinstance(value.layout, ak.contents.NumpyArray):
        value = value.layout.data
    return ak.from_regular(value, axis=None) if _has_tables(value) else value


def _has_tables(value: Column) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 1
    layout = value.layout if is_awkward(value) else None
    while layout is not None and not layout.is_record and not layout.is_union and not layout.parameter("__array__"):
        if layout.is_regular or (layout.is_numpy and len(layout.inner_shape) > 0):
            return True
        layout = getattr(layout, "content", None)
    return False


def is_array(value: Column) -> bool:
    """Whether it is more than one Python scalar."""
    flat = isinstance(value, np.ndarray) or is_on_device(value)
    return value.ndim > 0 if flat else is_awkward(value)


def is_on_device(value: Column) -> bool:
    """Whether it is an array in the memory of a GPU; those of awkward are arrays of awkward, wherever they lie."""
    return hasattr(type(value), "__cuda_array_interface__")


def on_host(value: Column) -> Column:
    """The same values where numpy can reach them."""
    return value.get() if is_on_device(value) else value


def is_text(value: Column) -> bool:
    """Whether it holds texts."""
    if is_awkward(value):
        return leaf_kind(value) == "U"
    return isinstance(value, str) or (isinstance(value, np.ndarray) and value.dtype.kind in "UST")


def dimensions(value: Column) -> int:
    """0 for a scalar, 1 for one value per event, more for jagged or fixed-size lists; texts count as values."""
    return int(value.ndim) if is_awkward(value) else int(np.ndim(value))


def leaf_kind(value: Column) -> str:
    """numpy's letter for what the innermost values are: `b`, `i`, `u`, `f`, `U` for text, `?` where unknown."""
    if isinstance(value, str):
        return "U"
    found = leaf_type(value)
    return "?" if found is None else found.kind


def leaf_type(value: Column) -> np.dtype[Any] | None:
    """numpy's type of the innermost values; None where it is unknown, as for records."""
    if not is_awkward(value):
        return np.asarray(value).dtype
    layout = value.layout
    while layout.parameter("__array__") not in ("string", "bytestring") and hasattr(layout, "content"):
        if layout.is_record:  # whose `content` is a function
            return None
        layout = layout.content
    if layout.parameter("__array__") in ("string", "bytestring"):
        return np.dtype(np.str_)
    found: np.dtype[Any] | None = layout.dtype if isinstance(layout, ak.contents.NumpyArray) else None
    return found
