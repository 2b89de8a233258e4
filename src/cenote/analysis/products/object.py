"""The product `object`: anything that people's own operations make, saved as openly as it allows."""

from __future__ import annotations

import json
import pickle
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cenote.analysis.products.interface import Product
from cenote.common import errors
from cenote.common.machine import this_machine
from cenote.common.storage import appearing, write_text
from cenote.common.units import format_bytes

_ONLY = "value"
"""The name of an array that is not part of a mapping."""
_ONNX, _BYTES = ".onnx", ".bin"
_AFTER_VERSION = frozenset(b"\x12\x1a\x22\x28\x32\x3a\x42")
"""How protobuf marks the fields 2 to 8 of ONNX's ModelProto, which are written in order."""


class ObjectProduct(Product):
    """JSON where the value is JSON, `.npz` for arrays, bytes as they are, else a pickle with a note.

    Bytes that are an ONNX model become a file `.onnx`, others `.bin`.
    """

    example: ClassVar[str] = """
    - id: Fit
      op: custom.fit
    """

    def merge(self, parts: Sequence[Any]) -> Any:
        """A single part is itself; the operation says how several merge."""
        if len(parts) == 1:
            return parts[0]
        raise errors.error(
            errors.BAD_PLUGIN,
            f"{len(parts)} products of type {type(parts[0]).__name__} cannot be merged: the operation has no merge",
            hint="declare merge=, a function of the list of products, in @operation",
        )

    def save(self, value: Any, folder: Path, name: str) -> list[Path]:
        """`<name>.json`, `<name>.npz`, `<name>.onnx`, `<name>.bin`, or `<name>.pkl` with `<name>.txt`."""
        if isinstance(value, bytes):
            return [_write_bytes(folder / f"{name}{_ONNX if _is_onnx(value) else _BYTES}", value)]
        text = _as_json(value)
        if text is not None:
            return [write_text(folder / f"{name}.json", text)]
        if isinstance(value, np.ndarray) and value.dtype != np.object_:
            return [_write_arrays(folder / f"{name}.npz", {_ONLY: value})]
        if _is_arrays(value):
            return [_write_arrays(folder / f"{name}.npz", value)]
        target = _write_bytes(folder / f"{name}.pkl", pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))
        note = f"{target.name} is a Python pickle of a {type(value).__module__}.{type(value).__qualname__}.\n"
        return [target, write_text(folder / f"{name}.txt", f"{note}Load it only if you trust where it came from.\n")]

    def load(self, folder: Path, name: str) -> Any:
        """Whichever of the forms is there. A pickle runs code when it is read: only load your own."""
        if (found := folder / f"{name}.json").is_file():
            return json.loads(found.read_text(encoding="utf-8"))
        if (found := folder / f"{name}.npz").is_file():
            loaded = _read_arrays(found)
            return loaded[_ONLY] if loaded.keys() == {_ONLY} else loaded
        for suffix in (_ONNX, _BYTES):
            if (found := folder / f"{name}{suffix}").is_file():
                return found.read_bytes()
        return pickle.loads((folder / f"{name}.pkl").read_bytes())

    def describe(self, value: Any) -> str:
        """`a dict of 3`, `an array of shape (10, 2)`, `an ONNX model of 3 kB`, `a Model`."""
        if isinstance(value, bytes):
            return f"{'ONNX model' if _is_onnx(value) else 'bytes'}, {format_bytes(len(value))}"
        if isinstance(value, np.ndarray):
            return f"array of shape {value.shape}"
        return f"{type(value).__name__} of {len(value)}" if isinstance(value, Mapping | list) else type(value).__name__


def _is_onnx(content: bytes) -> bool:
    """Whether this begins as ONNX models do: the version of the format, and then one of the fields that follow it."""
    return len(content) > 2 and content[0] == 0x08 and content[1] < 0x40 and content[2] in _AFTER_VERSION


def _write_bytes(target: Path, content: bytes) -> Path:
    with appearing(target, under_its_name=True) as temporary:
        temporary.write_bytes(content)
    return target


def _as_json(value: Any) -> str | None:
    """The text, if reading it back gives the same value (numpy's numbers count as numbers)."""
    try:
        text = json.dumps(value, indent=1, allow_nan=False, default=_plain_number)
        return text if json.loads(text) == value else None
    except (TypeError, ValueError, RecursionError):
        return None


def _plain_number(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(type(value).__name__)


def _is_arrays(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(isinstance(name, str) and name.isidentifier() for name in value)
        and all(isinstance(array, np.ndarray) and array.dtype != np.object_ for array in value.values())
    )


def _read_arrays(file: Path) -> dict[str, Any]:
    """The arrays of an archive, which whoever gave the folder may have written: it must not take all memory."""
    try:
        with zipfile.ZipFile(file) as archive:
            wanted = sum(member.file_size for member in archive.infolist())
        if wanted > (memory := this_machine().memory):
            raise errors.error(
                errors.DAMAGED_RUN,
                f"{file} would take {format_bytes(wanted)} of memory; this machine has {format_bytes(memory)}",
            )
        with np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except (ValueError, MemoryError, EOFError, zipfile.BadZipFile, zlib.error) as problem:
        raise errors.error(errors.DAMAGED_RUN, f"{file} cannot be read: {problem}") from problem


def _write_arrays(target: Path, arrays: Mapping[str, Any]) -> Path:
    with appearing(target, under_its_name=True) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
    return target
