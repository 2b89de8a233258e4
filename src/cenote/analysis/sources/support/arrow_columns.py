"""Turn Arrow's tables into columns: records are opened up, gaps make a column optional only where there are some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from cenote.analysis.operations.support.events import Column
from cenote.analysis.sources.interface import known_column, named
from cenote.common.arrays import ak


def columns_in(schema: Any) -> dict[str, tuple[str, ...]]:
    """Column name → path in the schema: `Muon_pt` → `("Muon", "pt")`."""
    paths = {".".join(path): path for field in schema for path in _leaves((field.name,), field.type)}
    return {name: paths[path] for name, path in named(paths).items()}


def _leaves(path: tuple[str, ...], of_type: Any) -> list[tuple[str, ...]]:
    """Records are opened up, also inside lists; anything else is one column."""
    inner = of_type.value_type if _is_list(of_type) else of_type
    if not pa.types.is_struct(inner) or inner.num_fields == 0:
        return [path]
    return [leaf for field in inner for leaf in _leaves((*path, field.name), field.type)]


def _is_list(of_type: Any) -> bool:
    return bool(pa.types.is_list(of_type) or pa.types.is_large_list(of_type) or pa.types.is_fixed_size_list(of_type))


def type_at(schema: Any, path: tuple[str, ...]) -> Any:
    """Arrow's type of what lies there."""
    found = schema.field(path[0]).type
    for name in path[1:]:
        inner = found.value_type if _is_list(found) else found
        found = inner.field(name).type
    return found


def columns_read(
    schema: Any, columns: Sequence[str], read: Callable[[Sequence[str]], Any], url: str, *, wanted: int
) -> dict[str, Column]:
    """These columns out of a table that `read` makes of some fields; its first rows, as many as are wanted.

    Raises `unreadable-input` for a column that is not there.
    """
    known = columns_in(schema)
    paths = {name: known[known_column(name, known, url)] for name in columns}
    if not paths:
        return {}
    table = read(list(dict.fromkeys(path[0] for path in paths.values())))
    return {name: column_of(table.column(path[0]), path[1:])[:wanted] for name, path in paths.items()}


def column_of(values: Any, inner: tuple[str, ...]) -> Column:
    """Plain numpy for one number per event without gaps, awkward for the rest."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    if not values.null_count and _is_number(values.type):
        return values.to_numpy()
    if any(chunk.offset for chunk in values.chunks):  # awkward 2.14 takes what is missing from the start of the chunk
        values = values.take(pa.array(range(len(values))))
    array = ak.from_arrow(values)
    for name in inner:
        array = array[name]
    array = ak.transform(_without_empty_options, array)
    if array.ndim > 1:
        return ak.from_regular(array, axis=None)
    layout = array.layout
    return layout.data if isinstance(layout, ak.contents.NumpyArray) else array


def _is_number(of_type: Any) -> bool:
    types = pa.types
    return bool(
        types.is_integer(of_type)
        or types.is_floating(of_type)
        or types.is_boolean(of_type)
        or types.is_timestamp(of_type)
        or types.is_duration(of_type)
    )


def _without_empty_options(layout: Any, **_: Any) -> Any:
    """Arrow calls nearly everything nullable; only what has a gap stays optional."""
    if layout.is_option and not layout.mask_as_bool(valid_when=False).any():
        return ak.transform(_without_empty_options, layout.project(), highlevel=False)
    return None
