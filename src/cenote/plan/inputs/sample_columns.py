"""Make up one event of a column from what the metadata of a file says of its type."""

from __future__ import annotations

import re

import numpy as np

from cenote.operations.support.events import Column

_NUMBERS = {
    "bool": "b1", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4",
    "int64": "i8", "uint64": "u8", "float": "f4", "float32": "f4", "double": "f8", "float64": "f8",
    "char": "i1", "short": "i2", "int": "i4", "long": "i8", "string": "U1", "large_string": "U1",
}  # fmt: skip
"""How C++, Arrow, numpy and awkward call types → numpy's name."""
_LISTS = (
    re.compile(r"(.+)\[\d*\]"),
    re.compile(r"(?:std::)?vector<(.+)>"),
    re.compile(r"(?:large_|fixed_size_)?list<\w+: (.+?)(?: not null)?>(?:\[\d+\])?"),
    re.compile(r"(?:var|\d+) \* (.+)"),
)
"""How they write a list of what is within."""


def sample_column(type_name: str) -> Column | None:
    """One event of a column of this type, with lists of one element; None where the type is not known for sure."""
    depth, inner = 1, type_name
    while found := next(filter(None, (pattern.fullmatch(inner) for pattern in _LISTS)), None):
        depth, inner = depth + 1, found[1].strip()
    number = _NUMBERS.get(inner.removeprefix("?").removeprefix("std::").removesuffix("_t"))
    return None if number is None else np.ones((1,) * depth, number)
