"""Keep events for later runs as plain data: numbers and forms, so that whoever reads them runs nobody's code.

Arrays are compressed: bytes of one place of all numbers together, by zstd at its lowest level. Of what zlib's kin offer
that is the smallest for most columns, at 1 GB a second each way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import cramjam
import numpy as np
from numpy.typing import NDArray

from cenote.analysis.operations.support.events import Column, Events
from cenote.analysis.products.support.histogram_data import NotDataError
from cenote.common.arrays import ak
from cenote.common.values import dataclass
from cenote.execution.worker.join import rows_of
from cenote.execution.worker.results.bundle import Nested, packed
from cenote.execution.worker.results.plain_data import NUMBERS

_LEAST_SECONDS = 0.01
"""Of work for a task: what takes less is not worth a look, a file and a place in the store."""
_SECONDS_PER_BYTE = 1e-7
"""Of work that is dear: to compress a megabyte, to keep it and to read it back takes 10 ms altogether, of which the run
that keeps it pays a third. So it pays ten times at the least, and costs that run 3 % at the most."""
_SMALL = 1 << 12
"""Arrays of fewer bytes are kept as they are."""
_LEVEL = 1
_PAYS = 0.95
"""Share of its size that an array has to be compressed to."""
Data = dict[str, Any]
"""What `plain_data` can write."""


class NotKeptError(ValueError):
    """These are no kept events, or not those of the events that they are to go with."""


@dataclass(frozen=True)
class KeptEvents:
    """Events as they were kept."""

    events: Events
    seconds: float
    """What it took to compute them."""


def is_too_cheap(seconds: float) -> bool:
    """Whether what took so long is not kept, however small."""
    return seconds < _LEAST_SECONDS


def kept_data(events: Events, seconds: float, *, always: bool) -> Data | None:
    """These events as data, where it was dear to compute them, or `always`; None where not, and for columns of which
    nobody knows how to write them."""
    if is_too_cheap(seconds) and not always:
        return None
    flat = packed(events)
    if seconds < _SECONDS_PER_BYTE * flat.nbytes and not always:
        return None
    known: dict[int, Any] = {}
    try:
        return {
            "events": events.size,
            "seconds": seconds,
            "index": None if events.index is None else _array(np.asarray(events.index), known),
            "columns": {name: _column(column, known) for name, column in flat.columns.items()},
        }
    except NotDataError:
        return None


def from_kept(data: Data, like: Events) -> KeptEvents:
    """The events again, of the same dataset and run as these. Raises NotKeptError for data of any other form."""
    try:
        known: dict[object, NDArray[Any]] = {}
        size, index = data["events"], data["index"]
        columns = {name: _column_of(column, known) for name, column in data["columns"].items()}
        found = None if index is None else _array_of(index, known)
        seconds, lengths = float(data["seconds"]), {size, *map(len, columns.values())}
        whole = lengths == {size} and (found is None or found.shape == (size,))
    except Exception as problem:  # forged: whatever comes of it
        raise NotKeptError(str(problem)) from None
    if not whole:
        raise NotKeptError(f"not all columns are of {size} events")
    return KeptEvents(replace(like, columns=columns, size=size, index=found, live=None), seconds)


def size_of(data: Any) -> int:
    """Bytes of all arrays."""
    if isinstance(data, np.ndarray):
        return data.nbytes
    inner = data.values() if isinstance(data, dict) else data if isinstance(data, tuple) else ()
    return sum(map(size_of, inner))


def what_it_did(before: Events, after: Events, columns: tuple[str, ...]) -> Events | None:
    """What a stage did to events: which of them go on, with the columns that it adds. None where these do not tell
    which events they were."""
    added = after.keep(columns)
    if before.size == after.size and _are_same(before, after):
        return added
    rows = _rows(before)
    known = after.index is not None and len(after.index) == after.size and bool(np.all(rows[1:] > rows[:-1]))
    return added if known else None


def done_again(kept: Events, before: Events) -> Events:
    """What the stage gave for the events that came in. Raises NotKeptError where they are others."""
    if kept.size == before.size and _are_same(kept, before):
        return before.with_columns(kept.columns)
    rows, chosen = _rows(before), _rows(kept)
    positions = np.searchsorted(rows, chosen)
    if len(chosen) and (positions.max() >= len(rows) or np.any(rows[positions] != chosen)):
        raise NotKeptError("they are of other events")
    columns = {name: column[positions] for name, column in before.columns.items() if name not in kept.columns}
    return replace(before, columns={**columns, **kept.columns}, size=kept.size, index=chosen, resident={})


def within(kept: Events, rows: tuple[int, int] | None) -> Events:
    """Those of a part of the partition."""
    return kept if rows is None else rows_of(kept, *rows)


def _are_same(one: Events, other: Events) -> bool:
    if one.index is other.index:
        return True
    return np.array_equal(_rows(one), _rows(other))


def _rows(events: Events) -> NDArray[Any]:
    return np.arange(events.size) if events.index is None else np.asarray(events.index)


# columns and arrays


def _column(column: Nested | Column, known: dict[int, Any]) -> Any:
    if not isinstance(column, Nested):
        return _array(column, known)
    arrays = {name: _array(array, known) for name, array in column.arrays.items()}
    return {"form": column.form, "length": column.length, "arrays": arrays}


def _column_of(data: Any, known: dict[object, NDArray[Any]]) -> Column:
    if type(data) is not dict:
        return _array_of(data, known)
    arrays = {name: _array_of(array, known) for name, array in data["arrays"].items()}
    return ak.from_buffers(data["form"], data["length"], arrays)


def _array(array: Any, known: dict[int, Any]) -> Any:
    """As it is, or compressed; several columns may share one."""
    if type(array) is not np.ndarray or array.dtype.kind not in NUMBERS or array.dtype.metadata:
        raise NotDataError
    if id(array) not in known:
        known[id(array)] = _compressed(array) if array.nbytes >= _SMALL else array
    return known[id(array)]


def _compressed(array: NDArray[Any]) -> Any:
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    width = array.dtype.itemsize
    content = flat if width == 1 else np.ascontiguousarray(flat.reshape(-1, width).T)
    packed: Any = cramjam.zstd.compress(content.reshape(-1).data, level=_LEVEL)  # some buffer: its type does not say so
    found = np.frombuffer(packed, np.uint8)
    return (array.dtype.str, array.shape, found) if len(found) < _PAYS * array.nbytes else array


def _array_of(data: Any, known: dict[object, NDArray[Any]]) -> NDArray[Any]:
    """One that may be written to, as that of the stage could be."""
    key = (*data[:2], id(data[2])) if type(data) is tuple else id(data)
    if key not in known:
        known[key] = _expanded(*data) if type(data) is tuple else np.array(data)
    return known[key]


def _expanded(kind: str, shape: tuple[int, ...], content: NDArray[Any]) -> NDArray[Any]:
    dtype = np.dtype(kind)
    size = dtype.itemsize * int(np.prod(shape))
    unpacked: Any = cramjam.zstd.decompress(content.data, output_len=size)  # as above
    flat = np.frombuffer(unpacked, np.uint8)
    if len(flat) != size or dtype.hasobject:
        raise NotKeptError("an array is cut")
    if dtype.itemsize == 1:
        return np.array(flat).view(dtype).reshape(shape)
    apart = flat.reshape(dtype.itemsize, -1).T
    return np.ascontiguousarray(apart).reshape(-1).view(dtype).reshape(shape)


def data_in(bundle: Mapping[str, Any], product: str) -> Data:
    """What was kept under this name. Raises NotKeptError where it is not there."""
    found = bundle.get(product)
    if type(found) is not dict:
        raise NotKeptError(f"'{product}' is not there")
    return found
