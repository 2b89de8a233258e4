"""Read HDF5 files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from cenote.analysis.operations.support.events import Column
from cenote.analysis.sources.interface import ColumnInfo, FileInfo, Source, known_column, named
from cenote.analysis.sources.support.byte_files import content_of_few, file_size, opened
from cenote.analysis.sources.support.files import explained, is_remote, local_path
from cenote.common import errors
from cenote.common.arrays import ak

MOST_BOUNDARIES = 10_000
"""Of chunks, of which some files have very many."""
MOST_AT_ONCE = 1000
"""Values of a list column whose lengths say how large it is."""


def h5py_for(doing: str) -> Any:  # Any: h5py publishes no types
    """The package. Raises `environment`, with the extra to install, where it is not there."""
    try:
        import h5py
    except ImportError:
        words = f"{doing} needs h5py, which is not installed"
        raise errors.error(errors.ENVIRONMENT, words, hint="pip install 'cenote[hdf5]'") from None
    return h5py


class Hdf5Source(Source):
    """Reads HDF5 files with h5py: datasets of equal length below a group are columns, and so are the fields of a table.

    Values have to be in the file itself: links to other files, external and virtual datasets are an error. It needs the
    extra `hdf5`.
    """

    example: ClassVar[str] = """
    sources:
      events: {kind: hdf5, group: events}
    """

    group: str | None = None
    """The group, or the table, that holds the columns; by default the only one of the file, or the whole file."""

    def describe(self, url: str) -> FileInfo:
        """Rows and columns."""
        stamp = self.stamp(url)
        with explained(url, errors.BAD_INPUT), self._columns(url) as columns:
            lengths = {len(values) for values in columns.values()}
            if len(lengths) != 1:
                what = "columns of different lengths" if lengths else "no columns"
                raise errors.error(errors.BAD_INPUT, f"{url} holds {what} in {self.group or 'its groups'}")
            for values in columns.values():
                if other := _other_file(values):
                    raise _elsewhere(url, other)
            infos = {name: ColumnInfo(str(values.dtype), _size(values)) for name, values in columns.items()}
            largest = columns[max(infos, key=lambda name: infos[name].bytes)]
            boundaries = _boundaries(len(largest), largest.chunks)
            size = file_size(url)
            content = content_of_few(url, size)
            return FileInfo(url, size, stamp, lengths.pop(), infos, boundaries, content=content)

    def read(self, url: str, columns: Sequence[str], start: int, stop: int) -> dict[str, Column]:
        """Exactly these columns."""
        with explained(url, errors.UNREADABLE_INPUT), self._columns(url) as known:
            return {name: _values(known[known_column(name, known, url)], start, stop) for name in columns}

    @contextmanager
    def _columns(self, url: str) -> Iterator[dict[str, Any]]:
        """Name → where its values are, as long as the file is open."""
        h5py = h5py_for(f"reading {url}")
        file_size(url)
        with self._opened(h5py, url) as file:
            if self.group is not None and self.group not in file:
                words = f"{url} has no group '{self.group}'"
                raise errors.CenoteError(
                    errors.unknown_name(errors.BAD_INPUT, words, self.group, list(file), what="groups there")
                )
            only = next(iter(file)) if len(file) == 1 else "/"
            found = file[self.group or only]
            if found.file.filename != file.filename:
                raise _elsewhere(url, str(found.file.filename))
            if isinstance(found, h5py.Dataset):
                yield {name: _Field(found, name) for name in found.dtype.names or ()} or {"values": found}
                return
            paths: dict[str, Any] = {}
            found.visititems(lambda path, one: paths.update({path: one}) if isinstance(one, h5py.Dataset) else None)
            yield {name: paths[path] for name, path in named(paths).items()}

    @contextmanager
    def _opened(self, h5py: Any, url: str) -> Iterator[Any]:  # Any: h5py publishes no types
        """From elsewhere in ranges, by Python."""
        if not is_remote(url):
            with h5py.File(local_path(url), "r") as file:
                yield file
            return
        with opened(url) as remote, h5py.File(remote, "r") as file:
            yield file


class _Field:
    """A field of a table, which is read by itself."""

    def __init__(self, table: Any, name: str) -> None:
        self.table, self.name = table, name
        self.dtype, self.shape, self.chunks = table.dtype[name], table.shape, table.chunks
        self.external, self.is_virtual, self.virtual_sources = table.external, table.is_virtual, table.virtual_sources

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: slice) -> Any:
        return self.table.fields(self.name)[rows]


def _other_file(values: Any) -> str:
    """One that values of a column are in; empty where all are here."""
    mapped = [one.file_name for one in values.virtual_sources()] if values.is_virtual else []
    outside = [name for name, *_ in values.external or ()]
    return next((str(name) for name in [*mapped, *outside] if name != "."), "")


def _elsewhere(url: str, where: str) -> errors.CenoteError:
    """Nobody would notice that the other file was replaced: neither this one nor its time changes with it."""
    words = f"{url} has values in another file, '{where}'"
    return errors.error(
        errors.BAD_INPUT, words, hint="name the files that the values are in, or copy them into one file"
    )


def _boundaries(rows: int, chunks: tuple[int, ...] | None) -> tuple[int, ...]:
    """Between chunks, which are decompressed whole; not more than anybody needs."""
    if chunks is None:
        return ()
    step = chunks[0] * max(1, rows // (chunks[0] * MOST_BOUNDARIES))
    return tuple(dict.fromkeys([*range(0, rows, step), rows]))


def _size(values: Any) -> int:
    """Uncompressed bytes; of lists, from the first ones."""
    if values.dtype.kind != "O":
        return max(1, int(np.prod(values.shape)) * int(values.dtype.itemsize))
    some = values[:MOST_AT_ONCE]
    bytes_each = sum(int(getattr(one, "nbytes", len(one))) for one in some) / max(1, len(some))
    return max(1, int(bytes_each * len(values)))


def _values(values: Any, start: int, stop: int) -> Column:
    read = values[start:stop]
    if values.dtype.kind == "O":
        return _lists(read, values.dtype)
    if values.dtype.kind == "S":
        return ak.Array([one.decode() for one in read.tolist()])
    return ak.from_regular(ak.from_numpy(read), axis=None) if read.ndim > 1 else np.ascontiguousarray(read)


def _lists(read: Any, dtype: Any) -> Column:
    """Lists of numbers, or texts."""
    import h5py

    inner = h5py.check_vlen_dtype(dtype)
    if inner is None or inner in (str, bytes):
        return ak.Array([one.decode() if isinstance(one, bytes) else one for one in read.tolist()])
    content = np.concatenate([np.zeros(0, inner), *read]).astype(inner, copy=False)
    return ak.unflatten(content, np.array([len(one) for one in read], np.int64))
