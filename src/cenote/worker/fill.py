"""Make columns that a file lacks: of the type that another file has, with a default in every event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cenote import errors
from cenote.jagged import ak
from cenote.operations.support.events import Column, flat
from cenote.plan.plan import Fill
from cenote.sources.interface import Source

DEFAULTS: dict[str, Any] = {"b": False, "i": 0, "u": 0, "f": np.nan, "c": np.nan}
"""Kind of a numpy type → what stands in for a value: NaN shows up in results, where 0 might go unnoticed."""


def filled(source: Source, fill: Fill, name: str, found: Callable[[str], str], size: int) -> Column:
    """A column of this many events; `found` says where the file is that has it."""
    like = flat(source.read(found(fill.like), [name], 0, 0)[name])
    if isinstance(like, np.ndarray) and like.dtype.kind in DEFAULTS:
        value = DEFAULTS[like.dtype.kind] if fill.value is None else fill.value
        if _fits(value, like.dtype):
            return np.full((size, *like.shape[1:]), value, dtype=like.dtype)
    layout = ak.to_layout(like)
    if isinstance(layout, ak.contents.ListArray):
        layout = layout.to_ListOffsetArray64()
    if isinstance(fill.value, str) and layout.parameter("__array__") == "string":
        return ak.Array([fill.value])[np.zeros(size, dtype=np.int64)]
    if fill.value is None and isinstance(layout, ak.contents.ListOffsetArray):
        empty = ak.index.Index64(np.zeros(size + 1, dtype=np.int64))
        return ak.Array(ak.contents.ListOffsetArray(empty, layout.content, parameters=layout.parameters))
    wanted = f"{fill.value!r}" if fill.value is not None else "a default"
    raise errors.error(
        errors.UNREADABLE_INPUT,
        f"column '{name}' of type {fill.type} cannot be filled with {wanted}",
        hint="numbers and conditions can be filled with a value of their type; lists are left empty",
    )


def _fits(value: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a value stays what it is in a column of this type: 2.5 is no whole number."""
    if isinstance(value, str):
        return False
    with np.errstate(all="ignore"):
        stored = np.asarray(value).astype(dtype)
    return bool(dtype.kind in "fc" or stored == value)
