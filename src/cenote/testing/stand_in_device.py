"""Stand in for a GPU: arrays that lie in another memory as far as anybody can tell, and refuse to be mixed up."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from cenote.analysis.expressions.arrays import Column
from cenote.analysis.modifiers.support.devices import Device

_MARK = {"memory": "stand-in"}


class DeviceArray(NDArrayOperatorsMixin):
    """An array of the stand-in: numpy's functions compute with it, and nothing turns it into numpy's by accident."""

    __array_priority__ = 100

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self._values = values

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        raise TypeError("there is no GPU behind this array")

    dtype = property(lambda self: self._values.dtype)
    shape = property(lambda self: self._values.shape)
    ndim = property(lambda self: self._values.ndim)
    size = property(lambda self: self._values.size)
    nbytes = property(lambda self: self._values.nbytes)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, where: Any) -> Any:
        return _there(self._values[where])

    def __array__(self, *_args: Any, **_kwargs: Any) -> np.ndarray[Any, Any]:
        raise TypeError("an array of a GPU does not become one of numpy's by itself: use .get()")

    def get(self) -> np.ndarray[Any, Any]:
        """A copy for numpy."""
        return self._values.copy()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _there(getattr(ufunc, method)(*map(_values_of, inputs), **kwargs))

    def __array_function__(self, function: Any, _types: Any, args: Any, kwargs: Any) -> Any:
        return _there(function(*_unwrapped(args), **kwargs))


def _there(values: Any) -> Any:
    return DeviceArray(values) if isinstance(values, np.ndarray) and values.ndim else values


def _values_of(value: Any) -> Any:
    if isinstance(value, DeviceArray):
        return value._values  # noqa: SLF001  # of its own class
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError("arrays of a GPU and of numpy do not mix")
    return value


def _unwrapped(value: Any) -> Any:
    return type(value)(map(_unwrapped, value)) if isinstance(value, list | tuple) else _values_of(value)


class StandInDevice(Device):
    """Counts what is moved. Its memory has a size, and columns count against it while they are there."""

    name = "a stand-in"
    simulated = True

    def __init__(self, memory: int = 1 << 30) -> None:
        self._memory = memory
        self.moved_there: list[int] = []
        """Bytes of each column that was moved there."""
        self.moved_back: list[int] = []

    def free_memory(self) -> int:
        """All of it: nothing stays from one call to the next."""
        return self._memory

    def to_device(self, column: Column) -> Column:
        """A marked copy."""
        self.moved_there.append(int(column.nbytes))
        if isinstance(column, ak.Array):
            return ak.Array(ak.to_packed(column), attrs=_MARK)
        if column.dtype.kind not in "biufc":
            raise TypeError(f"a column of {column.dtype} has no place on a GPU")
        return DeviceArray(column.copy())

    def to_host(self, column: Column) -> Column:
        """A copy without the mark."""
        self.moved_back.append(int(column.nbytes))
        return ak.Array(column.layout) if isinstance(column, ak.Array) else column.get()

    def holds(self, column: Column) -> bool:
        """By the mark."""
        if isinstance(column, ak.Array):
            return bool(column.attrs.get("memory") == _MARK["memory"])
        return isinstance(column, DeviceArray)

    def adopted(self, array: Any) -> Column:
        """As if it were there."""
        return DeviceArray(np.asarray(array))

    def wait(self) -> None:
        """Nothing is ever under way."""
