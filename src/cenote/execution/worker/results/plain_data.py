"""Write values as data: bytes that can be read without running anything, whoever wrote them.

Numbers, texts, arrays, lists, tuples, mappings, and the products that are made of them: histograms, cutflows, tables.
What is read is what was written, bit for bit and type for type. Arrays that are large lie beside the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from cenote.analysis.products.support.histogram_data import NotDataError, histogram_data, histogram_from

SMALL = 1 << 14
"""Arrays of fewer bytes lie among the rest: that costs less than to look after each."""
_SCALARS = frozenset({type(None), bool, int, float, str, bytes})
_LEAVES, _LIST, _TUPLE, _LEAF_TUPLE, _TUPLES, _DICT, _DICTS, _RECORD, _RECORDS = range(9)
_ARRAY, _BESIDE, _SCALAR, _COMPLEX, _HISTOGRAM = range(9, 14)
"""How a list begins that stands for something."""
NUMBERS = frozenset("biufcSUMm")
"""Kinds of arrays that are data, as numpy calls them."""
_KINDS = {
    "cutflow": ("cenote.analysis.products.cutflow", "Cutflow"),
    "cut": ("cenote.analysis.products.cutflow", "CutflowRow"),
    "table": ("cenote.analysis.products.table", "GroupedTable"),
    "total": ("cenote.analysis.products.table", "Total"),
}
"""What products are made of."""
_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder()
Beside = list[memoryview]


def as_data(value: Any) -> tuple[bytes, Beside]:
    """A value as bytes, and its large arrays. Raises NotDataError for what is not data."""
    beside: Beside = []
    try:
        return _ENCODER.encode(_Writer(beside).plain(value)), beside
    except (RecursionError, OverflowError, UnicodeEncodeError):  # one that holds itself; 2**64; half a character
        raise NotDataError from None


def from_data(head: bytes | memoryview, beside: Sequence[memoryview]) -> Any:
    """The value again; its large arrays are read-only and lie in `beside`. Raises NotDataError for what is none."""
    try:
        return _Reader(beside).value(_DECODER.decode(head))
    except NotDataError:
        raise
    except Exception as problem:  # forged: whatever comes of it
        raise NotDataError(str(problem)) from None


class _Writer:
    def __init__(self, beside: Beside) -> None:
        self._beside = beside
        self._places: dict[int, int] = {}
        """Arrays that lie beside the rest → where."""
        self._kept: list[Any] = []

    def plain(self, value: Any) -> Any:
        """As lists and scalars."""
        kind = type(value)
        if kind in _SCALARS:
            return value
        write = _WRITERS.get(kind)
        if write is None:
            write = _writer_of(kind)
        return write(self, value)

    def of_list(self, value: Sequence[Any]) -> Any:
        """Things of one form are written together: what they share once, and all that they hold as one list."""
        kinds = set(map(type, value))
        if kinds <= _SCALARS:
            return [_LEAVES, *value]
        together = _TOGETHER.get(*kinds) if len(kinds) == 1 else None
        written = None if together is None else together(self, value)
        if written is not None:
            return written
        return [_LIST, *map(self.plain, value)]

    def of_tuple(self, value: tuple[Any, ...]) -> Any:
        if _SCALARS.issuperset(map(type, value)):
            return [_LEAF_TUPLE, *value]
        return [_TUPLE, self.of_list(value)]

    def tuples(self, value: Sequence[tuple[Any, ...]]) -> Any:
        width = len(value[0])
        if set(map(len, value)) == {width} and width:
            return [_TUPLES, width, self.of_list([*chain.from_iterable(value)])]
        return None

    def dicts(self, value: Sequence[dict[Any, Any]]) -> Any:
        keys = [*value[0]]
        if keys and all([*one] == keys for one in value):
            return [_DICTS, self.of_list(keys), self.of_list([*chain.from_iterable(one.values() for one in value)])]
        return None

    def of_dict(self, value: dict[Any, Any]) -> Any:
        return [_DICT, self.of_list([*value]), self.of_list([*value.values()])]

    def array(self, value: Any) -> Any:
        dtype = value.dtype
        if dtype.kind not in NUMBERS or dtype.metadata or not dtype.itemsize:
            raise NotDataError
        fortran = value.flags.f_contiguous and not value.flags.c_contiguous
        if value.nbytes < SMALL:
            return [_ARRAY, dtype.str, value.shape, fortran, value.tobytes("A")]
        place = self._places.get(id(value))
        if place is None:
            flat: Any = (value.T if fortran else np.ascontiguousarray(value)).reshape(-1)
            place = self._places[id(value)] = len(self._beside)
            self._kept.append(value)  # so that no other one gets its id
            self._beside.append(memoryview(flat.view(np.uint8)))
        return [_BESIDE, dtype.str, value.shape, fortran, place]

    def scalar(self, value: Any) -> Any:
        if value.dtype.kind not in NUMBERS or not value.dtype.itemsize:
            raise NotDataError
        return [_SCALAR, value.dtype.str, value.tobytes()]

    def of_complex(self, value: complex) -> Any:
        return [_COMPLEX, value.real, value.imag]

    def histogram(self, value: Any) -> Any:
        form, attributes, bins = histogram_data(value)
        return [_HISTOGRAM, form, self.of_dict({**attributes}), self.array(bins)]


_WRITERS: dict[type, Callable[[_Writer, Any], Any]] = {
    list: _Writer.of_list,
    tuple: _Writer.of_tuple,
    dict: _Writer.of_dict,
    complex: _Writer.of_complex,
    np.ndarray: _Writer.array,
}


def _writer_of(kind: type) -> Callable[[_Writer, Any], Any]:
    """How values of a type are written that was not met before."""
    if issubclass(kind, np.generic) and kind.__module__ == "numpy":
        _WRITERS[kind] = _Writer.scalar
    elif (kind.__module__, kind.__name__) == ("hist.hist", "Hist"):
        _WRITERS[kind] = _Writer.histogram
    else:
        names = [name for name, place in _KINDS.items() if place == (kind.__module__, kind.__qualname__)]
        if not names:
            raise NotDataError
        _add_records(kind, names[0])
    return _WRITERS[kind]


def _add_records(kind: type, name: str) -> None:
    """Let values of a kind be written by their fields."""
    fields = [*kind.__dataclass_fields__]  # type: ignore[attr-defined]  # all of them are dataclasses
    values = attrgetter(*fields)

    def write(writer: _Writer, value: Any) -> Any:
        return [_RECORD, name, writer.of_list(values(value) if len(fields) > 1 else [values(value)])]

    def together(writer: _Writer, found: Sequence[Any]) -> Any:
        rows = map(values, found)
        columns = zip(*rows, strict=True) if len(fields) > 1 else [rows]
        return [_RECORDS, name, [writer.of_list([*column]) for column in columns]]

    _WRITERS[kind], _TOGETHER[kind] = write, together


_TOGETHER: dict[type, Callable[[_Writer, Any], Any]] = {tuple: _Writer.tuples, dict: _Writer.dicts}
"""How many of a kind are written together; None where they differ."""


@cache
def _record(name: str) -> Callable[..., Any]:
    """The class of a record."""
    module, kind = _KINDS[name]
    found: Callable[..., Any] = getattr(import_module(module), kind)
    return found


class _Reader:
    def __init__(self, beside: Sequence[memoryview]) -> None:
        self._beside = beside
        self._arrays: dict[int, Any] = {}

    def value(self, data: Any) -> Any:
        if type(data) is not list:
            return data
        return _READERS[data[0]](self, data)

    def leaves(self, data: list[Any]) -> Any:
        return data[1:]

    def leaf_tuple(self, data: list[Any]) -> Any:
        return tuple(data[1:])

    def of_list(self, data: list[Any]) -> Any:
        return [*map(self.value, data[1:])]

    def of_tuple(self, data: list[Any]) -> Any:
        return tuple(self.value(data[1]))

    def tuples(self, data: list[Any]) -> Any:
        _, width, flat = data
        values = iter(self.value(flat))
        return [*zip(*[values] * width, strict=True)]

    def dicts(self, data: list[Any]) -> Any:
        keys, flat = map(self.value, data[1:])
        values = iter(flat)
        return [dict(zip(keys, row, strict=True)) for row in zip(*[values] * len(keys), strict=True)]

    def of_dict(self, data: list[Any]) -> Any:
        _, keys, values = data
        return dict(zip(self.value(keys), self.value(values), strict=True))

    def array(self, data: list[Any]) -> Any:
        _, kind, shape, fortran, content = data
        return _array(bytearray(content), kind, shape, fortran=fortran)

    def beside(self, data: list[Any]) -> Any:
        _, kind, shape, fortran, place = data
        if place not in self._arrays:
            self._arrays[place] = _array(self._beside[place], kind, shape, fortran=fortran)
        return self._arrays[place]

    def scalar(self, data: list[Any]) -> Any:
        _, kind, content = data
        return np.frombuffer(content, _dtype(kind))[0]

    def of_complex(self, data: list[Any]) -> Any:
        return complex(*data[1:])

    def record(self, data: list[Any]) -> Any:
        _, name, values = data
        return _record(name)(*self.value(values))

    def records(self, data: list[Any]) -> Any:
        _, name, columns = data
        return [*map(_record(name), *map(self.value, columns))]

    def histogram(self, data: list[Any]) -> Any:
        _, form, attributes, bins = data
        return histogram_from(form, self.value(attributes), self.value(bins))


_READERS: Mapping[int, Callable[[_Reader, list[Any]], Any]] = {
    _LEAVES: _Reader.leaves,
    _LIST: _Reader.of_list,
    _TUPLE: _Reader.of_tuple,
    _LEAF_TUPLE: _Reader.leaf_tuple,
    _DICT: _Reader.of_dict,
    _ARRAY: _Reader.array,
    _BESIDE: _Reader.beside,
    _SCALAR: _Reader.scalar,
    _COMPLEX: _Reader.of_complex,
    _RECORD: _Reader.record,
    _RECORDS: _Reader.records,
    _TUPLES: _Reader.tuples,
    _DICTS: _Reader.dicts,
    _HISTOGRAM: _Reader.histogram,
}


def _array(content: Any, kind: str, shape: Sequence[int], *, fortran: bool) -> Any:
    return np.frombuffer(content, _dtype(kind)).reshape(shape, order="F" if fortran else "C")


def _dtype(kind: str) -> np.dtype[Any]:
    found = _dtypes.get(kind)
    if found is None:
        found = np.dtype(str(kind))
        if found.kind not in NUMBERS:
            raise NotDataError
        _dtypes[kind] = found
    return found


_dtypes: dict[str, np.dtype[Any]] = {}
