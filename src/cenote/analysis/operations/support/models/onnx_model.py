"""Evaluate an ONNX model row by row: the only file that knows onnxruntime.

Answers for a row must not depend on the rows beside it, on the machine or on the number of events. What was measured
with onnxruntime 1.31 on a CPU (MatMul and Gemm up to 2000 × 600 in both precisions, activations, reductions, softmax):

- Matrix products give the same bits in batches of any size.
- Functions that Eigen computes (Log, Sin, Atan, Elu, Selu, Celu, Softplus) treat four numbers at once and what is left
  one by one, with other last bits: in a batch of 999 rows, the last three may differ from those of 1000.
- Sums over a row depend on where the row begins in memory, modulo 16 bytes.
- Several threads cut a batch in pieces, each with its own remainder.

So every batch is an aligned array of a multiple of `MULTIPLE` rows, the last one filled up by repeating its last row,
and there is one thread unless somebody asks for more.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cenote.analysis.expressions.arrays import Column
from cenote.analysis.operations.support.events import Events
from cenote.analysis.operations.support.models.rows import Numbers, Rows, as_type, rows_in
from cenote.analysis.operations.support.models.tensors import (
    Inputs,
    Outputs,
    Tensor,
    Wiring,
    columns_in,
    described,
    wired,
)
from cenote.common import errors
from cenote.common.machine import visible_gpus
from cenote.common.units import parse_bytes

Device = Literal["auto", "cpu", "cuda"]

MULTIPLE = 64
"""Rows: more than any vector instruction treats at once."""
MOST_ROWS = 16_384
"""In one call: larger batches are no faster."""
MEMORY = "256MB"
"""What a batch may take, unless somebody says otherwise."""
_ALIGNED = 64
_CUDA, _CPU = "CUDAExecutionProvider", "CPUExecutionProvider"


def is_installed() -> bool:
    """Whether models can be evaluated by this Python."""
    return importlib.util.find_spec("onnxruntime") is not None


class OnnxModel:
    """An ONNX model, from a file or from bytes, that turns columns of events into others."""

    def __init__(
        self,
        model: Path | str | bytes,
        *,
        name: str = "",
        device: Device = "auto",
        threads: int = 1,
        batch: int | None = None,
        memory: int | str = MEMORY,
    ) -> None:
        content = model if isinstance(model, bytes) else Path(model).read_bytes()
        self.name = name or ("the model" if isinstance(model, bytes) else Path(model).name)
        """What errors call it."""
        self._session = _session(content, self.name, device, threads)
        self.inputs = tuple(_tensor(one) for one in self._session.get_inputs())
        self.outputs = tuple(_tensor(one) for one in self._session.get_outputs())
        self.rows = self._rows_of_a_batch(len(content), batch, parse_bytes(memory))
        """How many rows one call evaluates."""

    def wired(self, inputs: Inputs, outputs: Outputs) -> Wiring:
        """Which columns go where. Raises `bad-value` where these do not fit the model."""
        return wired((self.inputs, self.outputs), inputs, outputs, model=self.name)

    def columns(self, events: Events, *, inputs: Inputs, outputs: Outputs) -> dict[str, Column]:
        """The answers by the names that `outputs` gives them: one per event, or per element of columns of lists.

        `inputs` has the columns for the only input of the model, or a mapping of inputs to columns.
        """
        wiring = self.wired(inputs, outputs)
        rows = rows_in(events, columns_in(inputs))
        answers = {
            name: np.empty(rows.size, dtype=tensor.dtype)
            for tensor, names in wiring.outputs
            for name in names
            if name is not None
        }
        wanted = [tensor.name for tensor, _ in wiring.outputs]
        for start, stop, feeds in self._batches(rows, wiring):
            for (tensor, names), found in zip(wiring.outputs, self._session.run(wanted, feeds), strict=True):
                table = self._table(tensor, found, names, rows=len(next(iter(feeds.values()))))
                for position, name in enumerate(names):
                    if name is not None:
                        answers[name][start:stop] = table[: stop - start, position]
        return {name: rows.column(found) for name, found in answers.items()}

    def _rows_of_a_batch(self, size: int, batch: int | None, memory: int) -> int:
        """As many as the memory holds. It depends on the model and the settings alone, never on the machine.

        What lies between input and output is unknown to us; a dense layer has no more numbers per row than weights,
        so the size of the model is a limit for it.
        """
        fixed = {tensor.rows for tensor in self.inputs if tensor.rows is not None}
        if len(fixed) > 1:
            raise self._wrong("its inputs take different numbers of rows")
        if fixed:
            return max(1, fixed.pop())
        if batch is not None:
            return _up(batch)
        widths = [(tensor.width or 1) * (tensor.dtype.itemsize if tensor.dtype else 8) for tensor in self._tensors]
        return max(MULTIPLE, min(MOST_ROWS, memory // (sum(widths) + size)) // MULTIPLE * MULTIPLE)

    @property
    def _tensors(self) -> Sequence[Tensor]:
        return (*self.inputs, *self.outputs)

    def _batches(self, rows: Rows, wiring: Wiring) -> Iterator[tuple[int, int, dict[str, Numbers]]]:
        """First and last row of each batch, and what to feed; the arrays are used again by the next one."""
        for tensor, names in wiring.inputs:
            for name in names:
                as_type(name, rows.columns[name], _type(tensor))
        if not rows.size:
            return
        fixed = any(tensor.rows is not None for tensor in self.inputs)
        most = self.rows if fixed else min(self.rows, _up(rows.size))
        tables = {tensor.name: _aligned(most, len(names), _type(tensor)) for tensor, names in wiring.inputs}
        for start in range(0, rows.size, self.rows):
            stop = min(start + self.rows, rows.size)
            size = self.rows if fixed else _up(stop - start)
            feeds: dict[str, Numbers] = {}
            for tensor, names in wiring.inputs:
                table = tables[tensor.name][:size]
                for position, name in enumerate(names):
                    table[: stop - start, position] = rows.columns[name][start:stop]
                table[stop - start :] = table[stop - start - 1]
                feeds[tensor.name] = table.reshape(size, *_sizes_of_a_row(tensor, len(names)))
            yield start, stop, feeds

    def _table(self, tensor: Tensor, found: Numbers, names: Sequence[str | None], *, rows: int) -> Numbers:
        """An output as rows of answers."""
        if found.ndim == 0 or len(found) != rows:
            shape = tuple(found.shape)
            raise self._wrong(f"its output '{tensor.name}' has the shape {shape} for {rows} rows: not one for each row")
        table = found.reshape(rows, -1)
        if table.shape[1] != len(names):
            raise self._wrong(f"its output '{tensor.name}' gives {table.shape[1]} numbers per row, not {len(names)}")
        return table

    def _wrong(self, what: str) -> errors.CenoteError:
        details = described(self.inputs, self.outputs)
        return errors.error(errors.BAD_VALUE, f"{self.name}: {what}", details=details)


def _session(content: bytes, name: str, device: Device, threads: int) -> Any:  # Any: onnxruntime publishes no types
    if not is_installed():
        raise errors.error(
            errors.ENVIRONMENT,
            f"{name} needs onnxruntime to be evaluated, which is not installed",
            hint="pip install 'cenote[ml]'",
        )
    import onnxruntime

    offered = onnxruntime.get_available_providers()
    cuda = device != "cpu" and _CUDA in offered and bool(visible_gpus())
    if device == "cuda" and not cuda:
        raise _no_cuda(name, "this onnxruntime is built without CUDA" if _CUDA not in offered else "no GPU is here")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 3  # errors: what it says about speed helps nobody here
    try:
        session = onnxruntime.InferenceSession(content, options, providers=[_CUDA, _CPU] if cuda else [_CPU])
    except Exception as problem:  # it has a class for each of its codes, with RuntimeError above most of them
        said = str(problem).strip().splitlines()
        raise errors.error(
            errors.BAD_VALUE,
            f"{name} is not an ONNX model that onnxruntime {onnxruntime.__version__} can open",
            details=said,
        ) from None
    if device == "cuda" and _CUDA not in session.get_providers():
        raise _no_cuda(name, "onnxruntime could not start CUDA")
    return session


def _no_cuda(name: str, why: str) -> errors.CenoteError:
    return errors.error(
        errors.NO_DEVICE,
        f"{name} cannot be evaluated with `device: cuda`: {why}",
        hint="install onnxruntime-gpu on a worker with a GPU, or write `device: auto`",
    )


def _tensor(one: Any) -> Tensor:  # Any: onnxruntime publishes no types
    return Tensor(one.name, one.type, tuple(one.shape))


def _type(tensor: Tensor) -> np.dtype[np.generic]:
    assert tensor.dtype is not None, "the wiring has refused inputs without numbers"
    return tensor.dtype


def _sizes_of_a_row(tensor: Tensor, width: int) -> tuple[int, ...]:
    sizes = tensor.shape[1:]
    return (width,) if len(sizes) == 1 else tuple(size for size in sizes if isinstance(size, int))


def _up(rows: int) -> int:
    return -(-rows // MULTIPLE) * MULTIPLE


def _aligned(rows: int, width: int, dtype: np.dtype[np.generic]) -> Numbers:
    """An array that begins where vector instructions like it."""
    room = np.empty(rows * width * dtype.itemsize + _ALIGNED, dtype=np.uint8)
    first = -room.ctypes.data % _ALIGNED
    return room[first : first + rows * width * dtype.itemsize].view(dtype).reshape(rows, width)
