"""Make GPU kernels of an operation's kernels, compile them with Numba, and launch them over flat buffers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np

from cenote.analysis.expressions.arrays import Column, is_on_device
from cenote.analysis.modifiers.support.devices import SIMULATOR, NoDevice, missing_gpu
from cenote.analysis.operations.support.events import Events
from cenote.analysis.operations.support.kernels import Kernel, NoKernelError
from cenote.common.arrays import ak, is_awkward
from cenote.common.values import dataclass

THREADS = 128
"""Per block, on a GPU."""
MOST_BLOCKS = 4096
SIMULATED_THREADS = 32
"""All of them: each is a thread of Python."""
_TYPES = "biuf"
"""numpy's letters for what kernels compute with."""


@dataclass(frozen=True)
class Cuda:
    """Numba with a GPU, or with its simulator."""

    numba: Any
    """The module `numba.cuda`, which publishes no types."""
    name: str
    simulated: bool


@cache
def find_cuda() -> Cuda | NoDevice:
    """What compiles and launches kernels in this process."""
    simulated = os.environ.get(SIMULATOR) == "1"
    if not simulated and (missing := missing_gpu()) is not None:
        return missing
    try:
        numba = import_module("numba.cuda")
    except ImportError as problem:
        return NoDevice(f"numba-cuda cannot be imported ({problem}): pip install 'cenote[gpu]'")
    if simulated:
        return Cuda(numba, "Numba's simulator", simulated=True)
    try:
        if not numba.is_available():
            return NoDevice("Numba finds no GPU that it can use")
        name = numba.get_current_device().name
        return Cuda(numba, name.decode() if isinstance(name, bytes) else str(name), simulated=False)
    except Exception as problem:  # the driver's own classes, which differ between versions
        return NoDevice(f"Numba cannot use the GPU: {problem}")


@dataclass(frozen=True)
class Buffers:
    """The columns of a kernel as flat arrays, here or on the GPU, and the lists that they come in."""

    arrays: tuple[Column, ...]
    """One for each input of the kernel."""
    in_lists: tuple[bool, ...]
    """Which of them have one value per element of a list, and not one per event."""
    offsets: Column | None
    """Where the lists of each event begin and end; None where there are none."""
    events: int

    @property
    def jagged(self) -> bool:
        """Whether any of them has lists."""
        return self.offsets is not None

    @property
    def values(self) -> int:
        """Elements of all lists; events where there are none."""
        return self.events if self.offsets is None else int(self.offsets[-1])


def buffers_of(kernel: Kernel, events: Events, computed: dict[str, Column]) -> Buffers:
    """The inputs of a kernel. Raises NoKernelError where a column is not made of plain numbers."""
    arrays: list[Column] = []
    lists: list[tuple[str, Column]] = []
    in_lists: list[bool] = []
    for name in kernel.inputs:
        column = computed[name] if name in computed else events[name]
        offsets, content = _taken_apart(name, column)
        arrays.append(content if kernel.as_stored else _as_python_has_it(content))
        in_lists.append(offsets is not None)
        if offsets is not None:
            lists.append((name, offsets))
    for name, offsets in lists[1:]:
        if not _equal(offsets, lists[0][1]):
            raise NoKernelError(f"'{lists[0][0]}' and '{name}' have different numbers of elements in the same event")
    return Buffers(tuple(arrays), tuple(in_lists), lists[0][1] if lists else None, events.size)


class _NotPlainError(NoKernelError):
    def __init__(self, name: str) -> None:
        super().__init__(f"column '{name}' is not one number per event, or a list of numbers of any length")


def _taken_apart(name: str, column: Column) -> tuple[Column | None, Column]:
    """Offsets, if it has lists, and values in a row."""
    if is_awkward(column):
        layout = ak.to_packed(column).layout
        offsets = layout.offsets.data if isinstance(layout, ak.contents.ListOffsetArray) else None
        inner = layout.content if offsets is not None else layout
        if not isinstance(inner, ak.contents.NumpyArray) or inner.data.ndim != 1:
            raise _NotPlainError(name)
        return offsets, _plain(name, inner.data)
    if not (isinstance(column, np.ndarray) or is_on_device(column)) or column.ndim != 1:
        raise _NotPlainError(name)
    return None, _plain(name, column)


def _as_python_has_it(values: Column) -> Column:
    kind = values.dtype.kind
    wanted = {"f": np.float64, "i": np.int64}.get(kind, np.int64 if values.dtype.itemsize < 8 else np.uint64)
    return values if kind == "b" else values.astype(wanted, copy=False)


def _plain(name: str, values: Column) -> Column:
    if values.dtype.kind not in _TYPES or values.dtype.itemsize > 8 or values.dtype == np.float16:
        raise NoKernelError(f"column '{name}' has values of type {values.dtype}")
    if isinstance(values, np.ndarray) and (not values.dtype.isnative or not values.flags.c_contiguous):
        return np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    return values


def _equal(one: Column, other: Column) -> bool:
    return len(one) == len(other) and bool((one == other).all())


def source_of(kernel: Kernel, in_lists: Sequence[bool]) -> str:
    """The text of a kernel over flat buffers, for columns with and without lists: each thread takes every n-th value.

    Elements of lists meet the values of their event; a kernel per event gets the elements of its lists as arrays.
    """
    jagged, per_event = any(in_lists), kernel.per == "event"
    taken: list[str] = []
    columns = iter(enumerate(in_lists))
    for name in kernel.parameters:
        if name in kernel.constants:
            taken.append(f"constant_{name}")
            continue
        number, listed = next(columns)
        if listed and per_event:
            taken.append(f"column_{number}[offsets[i] : offsets[i + 1]]")
        else:
            taken.append(f"column_{number}[{'events[i]' if jagged and not listed and not per_event else 'i'}]")
    arguments = [f"column_{number}" for number in range(len(in_lists))]
    arguments += [f"constant_{name}" for name in kernel.parameters if name in kernel.constants]
    place = ["offsets"] if jagged and per_event else ["events"] if jagged else []
    return (
        f"def kernel({', '.join(['results', *place, *arguments])}):\n"
        f"    for i in range(cuda.grid(1), results.shape[0], cuda.gridsize(1)):\n"
        f"        results[i] = function({', '.join(taken)})\n"
    )


_compiled: dict[tuple[Any, ...], Any] = {}
"""What is computed and for which shapes of columns → the kernel; Numba keeps one for each set of types in it."""


def _made(cuda: Cuda, kernel: Kernel, in_lists: tuple[bool, ...]) -> tuple[Any, bool]:
    """The kernel, and whether it is new."""
    key = (kernel.function, kernel.per, frozenset(kernel.constants), in_lists)
    if key in _compiled:
        return _compiled[key], False
    _compiled[key] = cuda.numba.jit(kernel_function(cuda.numba, kernel, in_lists))
    return _compiled[key], True


def kernel_function(numba: Any, kernel: Kernel, in_lists: Sequence[bool]) -> Any:  # Any: a function for Numba
    """What Numba compiles: it calls the function of the operation, which is compiled for the GPU too."""
    return _loaded(kernel, in_lists, cuda=numba, function=numba.jit(device=True)(kernel.function))


def _loaded(kernel: Kernel, in_lists: Sequence[bool], **names: Any) -> Any:
    text = compile(source_of(kernel, in_lists), f"<kernel of {kernel.function.__name__}>", "exec")
    exec(text, names)  # our own text
    return names["kernel"]


def launch(cuda: Cuda, kernel: Kernel, buffers: Buffers) -> tuple[Column, bool]:
    """The results, flat and on the GPU, and whether the kernel had to be compiled."""
    numba = cuda.numba
    count = buffers.events if kernel.per == "event" else buffers.values
    results = numba.device_array(count, dtype=np.dtype(kernel.dtype))
    if count == 0:
        return results, False
    made, new = _made(cuda, kernel, buffers.in_lists)
    given = [_there(numba, one) for one in arguments(kernel, buffers)]
    shape = _grid(count, simulated=cuda.simulated)
    with exact_arithmetic(), np.errstate(all="ignore"):
        made[shape](results, *given)
    numba.synchronize()
    return results, new


def interpreted(kernel: Kernel, buffers: Buffers) -> Column:
    """The results, computed by Python itself, one value after the other: slow, for tests."""
    one_thread = SimpleNamespace(grid=lambda _axes: 0, gridsize=lambda _axes: 1)
    results = np.zeros(buffers.events if kernel.per == "event" else buffers.values, dtype=kernel.dtype)
    with np.errstate(all="ignore"):
        _loaded(kernel, buffers.in_lists, cuda=one_thread, function=kernel.function)(
            results, *arguments(kernel, buffers)
        )
    return results


def arguments(kernel: Kernel, buffers: Buffers) -> list[Any]:
    """What a kernel takes after its results: where lists are, columns, constants."""
    place: list[Column] = []
    if buffers.jagged:
        place = [buffers.offsets if kernel.per == "event" else _events_of(buffers)]
    constants = [kernel.constants[name] for name in kernel.parameters if name in kernel.constants]
    return [*place, *buffers.arrays, *constants]


def _there(numba: Any, value: Any) -> Any:
    return numba.to_device(np.ascontiguousarray(value)) if isinstance(value, np.ndarray) else value


def _events_of(buffers: Buffers) -> Column:
    """For each element the number of its event."""
    offsets = buffers.offsets.get() if is_on_device(buffers.offsets) else np.asarray(buffers.offsets)  # type: ignore[union-attr]
    return np.repeat(np.arange(buffers.events), np.diff(offsets))


def _grid(count: int, *, simulated: bool) -> tuple[int, int]:
    if simulated:
        return 1, min(count, SIMULATED_THREADS)
    return min(-(-count // THREADS), MOST_BLOCKS), THREADS


def column_of(results: Column, kernel: Kernel, buffers: Buffers) -> Column:
    """Flat results as a column: in the lists that the values came in."""
    if kernel.per == "event" or buffers.offsets is None:
        return results
    offsets = ak.index.Index64(buffers.offsets)
    return ak.Array(ak.contents.ListOffsetArray(offsets, ak.contents.NumpyArray(results)))


@contextmanager
def exact_arithmetic() -> Iterator[None]:
    """Numba lets the compiler fuse `a * b + c` into one operation, which rounds once instead of twice; results would
    differ from the CPU's in the last bit. It has no setting for that (0.30): the option is added on its way to NVVM."""
    modules = [import_module(f"numba.cuda.{name}") for name in ("compiler", "dispatcher") if not _simulates()]
    originals = [getattr(module, "compile_cuda", None) for module in modules]

    def unfused(original: Any) -> Any:
        def compiled(*args: Any, **kwargs: Any) -> Any:
            kwargs["nvvm_options"] = {**(kwargs.get("nvvm_options") or {}), "fma": False}
            return original(*args, **kwargs)

        return compiled

    for module, original in zip(modules, originals, strict=True):
        if original is not None:
            module.compile_cuda = unfused(original)  # type: ignore[attr-defined]  # as above
    try:
        yield
    finally:
        for module, original in zip(modules, originals, strict=True):
            if original is not None:
                module.compile_cuda = original  # type: ignore[attr-defined]  # as above


def _simulates() -> bool:
    return os.environ.get(SIMULATOR) == "1"
