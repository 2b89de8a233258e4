"""Find the GPU of this worker, and move columns there and back."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, Literal

import numpy as np

from cenote.analysis.expressions.arrays import Column, is_on_device
from cenote.analysis.modifiers.interface import Run, StageCall
from cenote.analysis.operations.interface import Result
from cenote.analysis.operations.support.events import Events
from cenote.common import errors
from cenote.common.arrays import ak, is_awkward
from cenote.common.machine import GPU_VARIABLE, visible_gpus
from cenote.common.values import dataclass

SIMULATOR = "NUMBA_ENABLE_CUDASIM"
"""The variable that makes Numba run kernels in Python; read when Numba is imported."""


@dataclass(frozen=True)
class NoDevice:
    """There is no GPU to use, and why."""

    reason: str


class Device(ABC):
    """The memory of a GPU."""

    name: str
    """For people."""
    simulated: bool = False
    """Whether this is no real GPU."""

    @abstractmethod
    def free_memory(self) -> int:
        """Bytes that can be taken now."""

    @abstractmethod
    def to_device(self, column: Column) -> Column:
        """A copy there. Raises TypeError for what cannot lie there."""

    @abstractmethod
    def to_host(self, column: Column) -> Column:
        """A copy here, of a column that lies there."""

    @abstractmethod
    def holds(self, column: Column) -> bool:
        """Whether it lies there."""

    @abstractmethod
    def adopted(self, array: Any) -> Column:  # Any: an array of another library's
        """A flat array that lies there already, as a column of this device, without a copy."""

    @abstractmethod
    def wait(self) -> None:
        """Until everything that was begun there is done."""


class CudaDevice(Device):
    """A GPU of NVIDIA, by CuPy: numpy's columns become CuPy's, awkward arrays stay awkward arrays."""

    def __init__(self, cupy: Any) -> None:  # Any: CuPy publishes no types
        self._cupy = cupy
        device = cupy.cuda.Device()
        found = cupy.cuda.runtime.getDeviceProperties(device.id)["name"]
        self.name = found.decode() if isinstance(found, bytes) else str(found)

    def free_memory(self) -> int:
        """What the driver has, and what CuPy's pool keeps for the next array."""
        free, _ = self._cupy.cuda.Device().mem_info
        return int(free) + int(self._cupy.get_default_memory_pool().free_bytes())

    def to_device(self, column: Column) -> Column:
        """Flat buffers are copied; awkward arrays buffer by buffer."""
        if is_awkward(column):
            return ak.to_backend(ak.to_packed(column), "cuda")
        if not isinstance(column, np.ndarray) or column.dtype.kind not in "biufc":
            raise TypeError(f"a column of {getattr(column, 'dtype', type(column).__name__)} has no place on a GPU")
        return self._cupy.asarray(column)

    def to_host(self, column: Column) -> Column:
        """The same, back."""
        return ak.to_backend(column, "cpu") if is_awkward(column) else self._cupy.asnumpy(column)

    def holds(self, column: Column) -> bool:
        """By the backend of awkward arrays, and the type of others."""
        return ak.backend(column) == "cuda" if is_awkward(column) else is_on_device(column)

    def adopted(self, array: Any) -> Column:
        """By the interface that GPU libraries share."""
        return self._cupy.asarray(array)

    def wait(self) -> None:
        """For the stream that CuPy uses."""
        self._cupy.cuda.get_current_stream().synchronize()


_stand_in: Device | NoDevice | None = None


@contextmanager
def using(device: Device | NoDevice) -> Iterator[None]:
    """Take this one for the GPU of this process, for tests and trials."""
    global _stand_in  # one GPU per process
    before, _stand_in = _stand_in, device
    try:
        yield
    finally:
        _stand_in = before


def find_device() -> Device | NoDevice:
    """The GPU of this worker, for columns."""
    return _stand_in or _cuda_device()


@cache
def _cuda_device() -> Device | NoDevice:
    if (missing := missing_gpu()) is not None:
        return missing
    try:
        cupy = import_module("cupy")
    except ImportError as problem:
        return NoDevice(f"CuPy cannot be imported ({problem}): pip install 'cenote[gpu]'")
    try:
        if not cupy.cuda.is_available():
            return NoDevice("CuPy finds no GPU that it can use")
        return CudaDevice(cupy)
    except Exception as problem:  # the driver's and the runtime's own classes, which differ between versions
        return NoDevice(f"CuPy cannot use the GPU: {problem}")


def missing_gpu() -> NoDevice | None:
    """Why there is no GPU here, as far as files and variables tell; None where there seems to be one."""
    if os.environ.get(SIMULATOR) == "1":
        return NoDevice(f"{SIMULATOR}=1 asks for a simulated one")
    if visible_gpus():
        return None
    hidden = os.environ.get(GPU_VARIABLE)
    return NoDevice("no GPU is on this machine" if hidden is None else f"{GPU_VARIABLE}={hidden} shows none")


def run_on_cpu(
    reason: str, run: Run, events: Events, call: StageCall, *, on_unavailable: Literal["cpu", "error"]
) -> Result:
    """What a modifier does that finds no GPU: the stage runs as without it, with one warning, or fails."""
    if on_unavailable == "error":
        raise errors.error(
            errors.NO_DEVICE,
            f"there is no GPU for stage '{call.stage}': {reason}",
            hint="`on_unavailable: cpu` lets it run on the CPU",
        )
    call.warn(f"no GPU is used, its stages compute on the CPU: {reason}")
    call.note(ran=f"the CPU: {reason}")
    return run(events)
