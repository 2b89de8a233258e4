"""Read Parquet files, row groups being their boundaries."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from cenote import errors
from cenote.errors import ErrorKind
from cenote.jagged import ak
from cenote.operations.support.events import Column
from cenote.sources.interface import ColumnInfo, FileInfo, Source, find_column, named
from cenote.sources.support.files import (
    explained,
    is_remote,
    local_path,
    local_stamp,
    remote_options,
    stamp_of,
)
from cenote.values import dataclass

OPEN_FILES = 8
"""Kept open per process."""


@dataclass(frozen=True, eq=False)
class _OpenFile:
    file: Any  # pyarrow publishes no types
    size: int
    stamp: str
    columns: dict[str, tuple[str, ...]]
    """Column name → path in the schema: `Muon_pt` → `("Muon", "pt")`."""


class ParquetSource(Source):
    """Reads Parquet files. Fields of records and of lists of records are columns with flat names, like `Muon_pt`.

    Missing values make a column optional only where there are some.
    """

    example: ClassVar[str] = """
    sources:
      trips: {kind: parquet}
    """

    def describe(self, url: str) -> FileInfo:
        """Rows, columns and row groups."""
        with explained(url, errors.BAD_INPUT):
            opened = _opened(url, local_stamp(url))
            metadata = opened.file.metadata
            sizes = _sizes(metadata)
            columns = {
                name: ColumnInfo(str(_type_at(opened.file.schema_arrow, path)), sizes[path])
                for name, path in opened.columns.items()
            }
            groups = (metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
            boundaries = tuple(dict.fromkeys(accumulate(groups, initial=0)))
            return FileInfo(url, opened.size, opened.stamp, metadata.num_rows, columns, boundaries)

    def read(self, url: str, columns: Sequence[str], start: int, stop: int) -> dict[str, Column]:
        """Exactly these columns; the file stays open for the next range."""
        with explained(url, errors.UNREADABLE_INPUT):
            opened = _opened(url, local_stamp(url))
            paths = {name: _path_of(opened, name, url, errors.UNREADABLE_INPUT) for name in columns}
            table = _rows(opened.file, list(dict.fromkeys(paths.values())), start, stop)
            return {name: _as_column(table.column(path[0]), path[1:]) for name, path in paths.items()}


@lru_cache(maxsize=OPEN_FILES)
def _opened(url: str, stamp: str) -> _OpenFile:
    """The stamp is part of the key: a file that was rewritten is opened again."""
    if is_remote(url):
        return _opened_remote(url)
    path = local_path(url)
    size = path.stat().st_size
    if size == 0:
        raise errors.error(errors.BAD_INPUT, f"{url} is empty: a file of 0 bytes")
    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as problem:
        raise errors.error(
            errors.BAD_INPUT,
            f"{url} is not a Parquet file, or is cut short",
            hint="copy it again, or wait until its writer has closed it",
        ) from problem
    return _closing(_OpenFile(file, size, stamp, _columns(file.schema_arrow)))


def _opened_remote(url: str) -> _OpenFile:
    import fsspec  # with asyncio, which files of this machine do without

    filesystem, path = fsspec.core.url_to_fs(url, **remote_options(url))
    size = int(filesystem.info(path).get("size") or 0)
    file = pq.ParquetFile(filesystem.open(path, "rb"), pre_buffer=True)
    return _closing(_OpenFile(file, size, stamp_of(url), _columns(file.schema_arrow)))


def _closing(opened: _OpenFile) -> _OpenFile:
    weakref.finalize(opened, opened.file.close, force=True)
    return opened


def _columns(schema: Any) -> dict[str, tuple[str, ...]]:
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


def _type_at(schema: Any, path: tuple[str, ...]) -> Any:
    found = schema.field(path[0]).type
    for name in path[1:]:
        inner = found.value_type if _is_list(found) else found
        found = inner.field(name).type
    return found


def _sizes(metadata: Any) -> Counter[tuple[str, ...]]:
    """Uncompressed bytes by path; `list.element` and the like, which the format puts between, are left out."""
    sizes: Counter[tuple[str, ...]] = Counter()
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for number in range(row_group.num_columns):
            chunk = row_group.column(number)
            sizes[_schema_path(chunk.path_in_schema)] += chunk.total_uncompressed_size
    return sizes


def _schema_path(path_in_schema: str) -> tuple[str, ...]:
    parts = path_in_schema.split(".")
    kept = [parts[0]]
    position = 1
    while position < len(parts):
        if parts[position] == "list" and position + 1 < len(parts) and parts[position + 1] in ("element", "item"):
            position += 2
        else:
            kept.append(parts[position])
            position += 1
    return tuple(kept)


def _path_of(opened: _OpenFile, name: str, url: str, kind: ErrorKind) -> tuple[str, ...]:
    known = find_column(name, opened.columns)
    if known is None:
        message = f"{url} has no column '{name}'"
        raise errors.CenoteError(errors.unknown_name(kind, message, name, opened.columns, what="columns there"))
    return opened.columns[known]


def _rows(file: Any, paths: list[tuple[str, ...]], start: int, stop: int) -> Any:
    """A table of rows [start, stop), from the row groups that hold them."""
    metadata = file.metadata
    ends = list(accumulate(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)))
    begins = [0, *ends[:-1]]
    groups = [
        group for group, (begin, end) in enumerate(zip(begins, ends, strict=False)) if begin < stop and end > start
    ]
    wanted = set(paths)
    leaves = [
        file.schema.column(number).path
        for number in range(len(file.schema))
        if _schema_path(file.schema.column(number).path) in wanted
    ]
    table = file.read_row_groups(groups, columns=leaves, use_threads=False)
    offset = start - begins[groups[0]] if groups else 0
    return table.slice(offset, max(0, stop - start))


def _as_column(values: Any, inner: tuple[str, ...]) -> Column:
    """Plain numpy for one number per event without gaps, awkward for the rest."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    if not values.null_count and _is_number(values.type):
        return values.to_numpy()
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
        return layout.project()
    return None
