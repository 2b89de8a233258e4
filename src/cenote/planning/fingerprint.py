"""Make content hashes: equal hashes mean equal results, so that finished work is found again."""

from __future__ import annotations

import hashlib
import json
import os.path
from collections.abc import Mapping
from datetime import date
from typing import Any

from cenote.planning.plan import Fill, Partition


def digest_of(value: Any) -> str:
    """Of plain data; mappings and sets are compared without regard to order. Anything else is a TypeError."""
    return hashlib.blake2b(_text(value).encode(), digest_size=16).hexdigest()


def _text(value: Any) -> str:
    return json.dumps(_plain(value), separators=(",", ":"))


def _plain(value: Any) -> Any:
    """As JSON has it, with what JSON cannot tell apart kept apart: keys that are no text, and sets."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _plain(value[key]) for key in sorted(value)}
        return {"mapping": sorted([_text(key), _text(inner)] for key, inner in value.items())}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, set | frozenset):
        return {"set": sorted(_text(inner) for inner in value)}
    if isinstance(value, date):
        return {"date": value.isoformat()}
    raise TypeError(f"a value of type {type(value).__name__} has no content hash: {value!r}")


def partition_digest(partition: Partition, fills: Mapping[str, Fill]) -> bytes:
    """Of the data of a partition: its file, its events there, and what fills the columns that the file lacks.

    A file is what is in it, as far as that is known; else it is where it is, by whatever path it was named, so that a
    run can be resumed from another folder, and which version of it.
    """
    lacks = [[name, fills[name].type, fills[name].value] for name in partition.lacks if name in fills]
    events = f"{_file_of(partition)}\0{partition.start}\0{partition.stop}\0{_text(lacks)}"
    return hashlib.blake2b(events.encode(), digest_size=16).digest()


def _file_of(partition: Partition) -> str:
    if partition.content:
        return f"content\0{partition.content}"
    url = partition.url if "://" in partition.url else os.path.abspath(partition.url)  # noqa: PTH100  # ten times faster
    return f"file\0{url}\0{partition.stamp}"
