"""Describe what goes into a model and what comes out, and connect both with columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import numpy as np

from cenote.common import errors
from cenote.common.text import did_you_mean
from cenote.common.values import dataclass

Inputs = Sequence[str] | Mapping[str, str | Sequence[str]]
"""Columns for the only input of a model; or input → its column, or columns."""
Outputs = str | Sequence[str | None] | Mapping[str, str | Sequence[str | None]]
"""Names for the answers of the only output of a model; or output → names. None leaves an answer out."""

_TYPES = {
    "float16": np.float16,
    "float": np.float32,
    "double": np.float64,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "bool": np.bool_,
}
"""onnxruntime's words for types that numpy has, too."""


@dataclass(frozen=True)
class Tensor:
    """An input or an output of a model; the first number of its shape counts rows."""

    name: str
    type: str
    """As onnxruntime has it: `tensor(float)`, `seq(map(int64,tensor(float)))`."""
    shape: tuple[int | str | None, ...]
    """A size is a number if it is fixed, else a word or None."""

    def __str__(self) -> str:
        if not self.is_tensor:
            return f"{self.name}: {self.type}"
        sizes = ["?" if size is None else str(size) for size in self.shape]
        return f"{self.name}: {self.type[7:-1]} ({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"

    @property
    def is_tensor(self) -> bool:
        """Whether it is one array; lists and mappings are others."""
        return self.type.startswith("tensor(")

    @property
    def dtype(self) -> np.dtype[np.generic] | None:
        """numpy's type of its numbers; None where it holds something else, such as text."""
        found = _TYPES.get(self.type[7:-1]) if self.is_tensor else None
        return None if found is None else np.dtype(found)

    @property
    def rows(self) -> int | None:
        """How many rows one call takes; None for any number."""
        return self.shape[0] if self.shape and isinstance(self.shape[0], int) else None

    @property
    def width(self) -> int | None:
        """Numbers in one row; None where only a call tells."""
        sizes = [size for size in self.shape[1:] if isinstance(size, int)]
        return prod(sizes) if len(sizes) == len(self.shape) - 1 else None


@dataclass(frozen=True)
class Wiring:
    """Which columns fill which input of a model, and what its answers are called."""

    inputs: tuple[tuple[Tensor, tuple[str, ...]], ...]
    outputs: tuple[tuple[Tensor, tuple[str | None, ...]], ...]


def columns_in(inputs: Inputs) -> tuple[str, ...]:
    """The columns that fill the inputs, each once."""
    lists = inputs.values() if isinstance(inputs, Mapping) else [inputs]
    return tuple(dict.fromkeys(name for names in lists for name in _several(names) if name is not None))


def names_in(outputs: Outputs) -> tuple[str, ...]:
    """The columns that the answers become, in order; a name that stands twice is there twice."""
    lists = outputs.values() if isinstance(outputs, Mapping) else [outputs]
    return tuple(name for names in lists for name in _several(names) if name is not None)


def wired(  # the model's own tensors, then what the settings say
    there: tuple[Sequence[Tensor], Sequence[Tensor]], inputs: Inputs, outputs: Outputs, *, model: str
) -> Wiring:
    """Connect both. Raises `bad-value`, with everything that the model has, where they do not fit."""
    return _Connecting(*there, model).wired(inputs, outputs)


@dataclass(frozen=True)
class _Connecting:
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    model: str

    def wired(self, inputs: Inputs, outputs: Outputs) -> Wiring:
        columns = self._by_name("input", self.inputs, inputs)
        if missing := [tensor for tensor in self.inputs if tensor.name not in columns]:
            raise self._wrong(f"its input '{missing[0].name}' gets no column")
        names = self._by_name("output", self.outputs, outputs)
        return Wiring(
            tuple((tensor, self._columns(tensor, columns[tensor.name])) for tensor in self.inputs),
            tuple((tensor, self._names(tensor, names[tensor.name])) for tensor in self.outputs if tensor.name in names),
        )

    def _by_name(
        self, kind: str, tensors: Sequence[Tensor], given: Inputs | Outputs
    ) -> Mapping[str, tuple[str | None, ...]]:
        """Name of a tensor → names of columns."""
        known = [tensor.name for tensor in tensors]
        if isinstance(given, Mapping):
            if unknown := next((name for name in given if name not in known), None):
                raise self._wrong(f"it has no {kind} '{unknown}'", did_you_mean(unknown, known))
            return {name: _several(names) for name, names in given.items()}
        if len(tensors) != 1:
            raise self._wrong(
                f"it has {len(tensors)} {kind}s, and `{kind}s` does not say which",
                f"write `{kind}s: {{{known[0] if known else 'NAME'}: …}}`",
            )
        return {known[0]: _several(given)}

    def _columns(self, tensor: Tensor, columns: tuple[str | None, ...]) -> tuple[str, ...]:
        if tensor.dtype is None:
            raise self._wrong(f"its input '{tensor.name}' takes no numbers")
        if not tensor.shape or (len(tensor.shape) > 2 and tensor.width is None):
            raise self._wrong(f"columns cannot fill its input '{tensor.name}', whose rows have no fixed size")
        found = tuple(name for name in columns if name is not None)
        if tensor.width not in (None, len(found)):
            raise self._wrong(
                f"its input '{tensor.name}' takes {tensor.width} {_columns(tensor.width)}, not {len(found)}"
            )
        return found

    def _names(self, tensor: Tensor, names: tuple[str | None, ...]) -> tuple[str | None, ...]:
        if not tensor.is_tensor:
            hint = "with skl2onnx, convert with options={'zipmap': False}: probabilities then are a tensor"
            raise self._wrong(f"its output '{tensor.name}' is not a tensor, so it cannot become columns", hint)
        if tensor.dtype is None:
            raise self._wrong(f"its output '{tensor.name}' holds no numbers")
        if not tensor.shape:
            raise self._wrong(f"its output '{tensor.name}' is one number for all rows")
        if tensor.width not in (None, len(names)):
            raise self._wrong(
                f"its output '{tensor.name}' needs {tensor.width} {_names(tensor.width)}, not {len(names)}",
                "`null` in place of a name leaves that answer out" if len(names) < (tensor.width or 0) else None,
            )
        return names

    def _wrong(self, what: str, hint: str | None = None) -> errors.CenoteError:
        return errors.error(
            errors.BAD_VALUE, f"{self.model}: {what}", details=described(self.inputs, self.outputs), hint=hint
        )


def described(inputs: Iterable[Tensor], outputs: Iterable[Tensor]) -> tuple[str, ...]:
    """What a model has, for errors."""
    return (
        f"inputs: {'; '.join(map(str, inputs)) or 'none'}",
        f"outputs: {'; '.join(map(str, outputs)) or 'none'}",
    )


def _several(names: str | Sequence[str | None]) -> tuple[str | None, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _columns(count: int | None) -> str:
    return "column" if count == 1 else "columns"


def _names(count: int | None) -> str:
    return "name" if count == 1 else "names"
