"""Make tables of Arrow out of events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from cenote.analysis.operations.support.events import Column, Events
from cenote.analysis.sources.interface import flat_name
from cenote.common.arrays import ak


def table_of(events: Events) -> Any:  # Any: pyarrow publishes no types
    """All columns; jagged ones as lists."""
    return pa.table({flat_name(name): _to_arrow(column) for name, column in events.columns.items()})


def _to_arrow(column: Column) -> Any:  # Any: pyarrow publishes no types
    if isinstance(column, np.ndarray) and column.ndim == 1:
        return pa.array(column)
    array = ak.from_numpy(column) if isinstance(column, np.ndarray) else ak.Array(column)
    if "unknown" in str(array.type):
        array = ak.values_astype(array, np.float64, including_unknown=True)
    return ak.to_arrow(ak.to_packed(array), extensionarray=False, list_to32=True, string_to32=True)
