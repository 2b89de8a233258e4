"""Write a histogram as plain data, and make it again from that, bit for bit and as quickly as a pickle.

The library's own state of a histogram is plain data too, but what the library does with a state that somebody forged is
not known. So there is a description beside it, from which the library builds an empty histogram in its public way; a
state counts only where it has the form of that one. This is done once for each form, not for each histogram.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from cenote.common.arrays import later
from cenote.common.values import dataclass

if TYPE_CHECKING:
    import hist
else:
    hist = later("hist")

State = tuple[Any, ...]
"""Of a histogram of the C++ library: numbers, texts, mappings of metadata and arrays; its bins come last."""
_STORAGES = ("Weight", "Int64", "Double", "Mean", "WeightedMean", "AtomicInt64")
_AXES = ("Regular", "Variable", "Integer", "StrCategory", "IntCategory", "Boolean")
_TRAITS = ("underflow", "overflow", "circular", "growth")
_PLAIN = frozenset({str, int, float, bool, type(None)})
_MOST_FORMS = 512
_FLOATS = 0x40
"""Marks arrays of floating-point numbers."""
_LARGEST_FORM = 1 << 16
"""Bytes of a form that is remembered."""


class NotDataError(ValueError):
    """A value cannot be written as data, or data does not make one."""


@dataclass(frozen=True)
class _Form:
    """Everything of a histogram but its bins: the state of an empty one without them, and what its bins are."""

    kind: Any  # the class of the C++ library
    state: State
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


_described: dict[bytes, bytes] = {}
"""State without bins → the form as data."""
_forms: dict[bytes, _Form] = {}
"""The form as data → what it is."""


def histogram_data(histogram: Any) -> tuple[bytes, Mapping[str, Any], Any]:
    """Its form as bytes, its own attributes, and its bins. Raises NotDataError for what is not plain."""
    *state, bins = histogram._hist.__getstate__()  # noqa: SLF001  # its public view is ten times as slow
    try:
        key = _encoder.encode((histogram._hist.__class__.__name__, state))  # noqa: SLF001  # as above
    except (TypeError, OverflowError, UnicodeEncodeError):
        raise NotDataError from None
    form = _described.get(key)
    if form is None:
        form = _form_as_data(histogram, state)
        if not _agrees(_form(form, bins.size), histogram, bins):
            raise NotDataError
        _remember(_described, key, form)
    return form, histogram.__dict__, bins


def histogram_from(form: bytes, attributes: Mapping[str, Any], bins: Any) -> Any:
    """The histogram again. Raises NotDataError where these do not make one."""
    if not isinstance(bins, np.ndarray):
        raise NotDataError
    known = _form(form, bins.size)
    if bins.shape != known.shape or bins.dtype != known.dtype:
        raise NotDataError
    made = known.kind.__new__(known.kind)
    made.__setstate__((*(dict(one) if type(one) is dict else one for one in known.state), bins))
    histogram = hist.Hist.__new__(hist.Hist)
    histogram.__setstate__((0, {"_hist": made, "_variance_known": True}))
    histogram.__dict__.update(attributes)
    return histogram


def _form_as_data(histogram: Any, state: list[Any]) -> bytes:
    storage = histogram.storage_type.__name__
    axes = [_axis_as_data(axis) for axis in histogram.axes]
    if storage not in _STORAGES or type(histogram) is not hist.Hist:
        raise NotDataError
    return _encoder.encode((storage, axes, state))


def _axis_as_data(axis: Any) -> tuple[Any, ...]:
    """Its kind, what its constructor takes, and which traits it has."""
    kind = type(axis).__name__
    if type(axis) is not getattr(hist.axis, kind, None) or kind not in _AXES or getattr(axis, "transform", None):
        raise NotDataError
    if any(type(value) not in _PLAIN for value in axis.__dict__.values()):
        raise NotDataError
    traits = [bool(getattr(axis.traits, trait)) for trait in _TRAITS]
    match kind:
        case "Regular":
            return kind, (axis.size, *map(float, axis.edges[[0, -1]])), traits
        case "Variable":
            return kind, (np.asarray(axis.edges),), traits
        case "Integer":
            low = int(axis.bin(0)) if axis.size else 0
            return kind, (low, low + axis.size), traits
        case "Boolean":
            return kind, (), traits
    return kind, (list(axis),), traits


def _size(kind: str, given: list[Any]) -> int:
    """Bins of an axis, those beyond its limits left out."""
    match kind:
        case "Regular":
            return int(given[0])
        case "Integer":
            return int(given[1] - given[0])
        case "Boolean":
            return 2
    return len(given[0]) - (kind == "Variable")


def _axis_from(kind: str, given: list[Any], traits: list[bool]) -> Any:
    if kind not in _AXES:
        raise NotDataError
    chosen = dict(zip(_TRAITS, traits, strict=True))
    match kind:
        case "Boolean":
            chosen = {}
        case "StrCategory" | "IntCategory":
            chosen = {name: chosen[name] for name in ("overflow", "growth")}
            if chosen["growth"]:
                del chosen["overflow"]
    return getattr(hist.axis, kind)(*given, **chosen)


def _form(data: bytes, numbers: int) -> _Form:
    """What a form as data is. Raises NotDataError where the library builds nothing of this form that has so many
    numbers in its bins."""
    found = _forms.get(data)
    if found is None:
        try:
            storage, axes, state = _decoder.decode(data)
            if storage not in _STORAGES or math.prod(_size(kind, given) for kind, given, _ in axes) > numbers:
                raise NotDataError
            empty: Any = hist.Hist(*(_axis_from(*axis) for axis in axes), storage=getattr(hist.storage, storage)())
        except NotDataError:
            raise
        except Exception:  # whatever a forged one makes of a constructor
            raise NotDataError from None
        *own, bins = empty._hist.__getstate__()  # noqa: SLF001  # as above
        if len(own) != len(state) or not all(map(_fits, own, state)):
            raise NotDataError
        found = _Form(empty._hist.__class__, tuple(state), bins.shape, bins.dtype)  # noqa: SLF001  # as above
        _remember(_forms, data, found)
    return found


def _fits(own: Any, given: Any) -> bool:
    """Whether part of a state is as it should be: limits in their last bits and metadata may differ, nothing else."""
    if type(own) is not type(given):
        return False
    if isinstance(own, np.ndarray):
        return own.dtype == given.dtype and np.array_equal(own, given)
    if isinstance(own, dict):
        return all(type(key) is str and type(value) in _PLAIN for key, value in given.items())
    return isinstance(own, float) or own == given


def _agrees(form: _Form, histogram: Any, bins: Any) -> bool:
    same_kind = form.kind is histogram._hist.__class__  # noqa: SLF001  # as above
    return same_kind and form.shape == bins.shape and form.dtype == bins.dtype


def _remember(known: dict[bytes, Any], key: bytes, value: Any) -> None:
    if len(known) >= _MOST_FORMS:
        known.clear()
    if len(key) <= _LARGEST_FORM:
        known[key] = value


def _array_as_data(array: Any) -> msgspec.msgpack.Ext:
    """Limits of bins, and categories that are numbers."""
    if type(array) is not np.ndarray or array.dtype.kind not in "if" or array.ndim != 1:
        raise NotDataError
    kind = _FLOATS if array.dtype.kind == "f" else 0
    return msgspec.msgpack.Ext(kind | array.dtype.itemsize, array.astype(array.dtype.newbyteorder("<")).tobytes())


def _array_from(code: int, data: memoryview) -> Any:
    return np.frombuffer(data, f"<{'f' if code & _FLOATS else 'i'}{code & ~_FLOATS}").copy()


_encoder = msgspec.msgpack.Encoder(enc_hook=_array_as_data)
_decoder = msgspec.msgpack.Decoder(tuple[str, list[tuple[str, list[Any], list[bool]]], list[Any]], ext_hook=_array_from)
