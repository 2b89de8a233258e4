"""Make content hashes: equal hashes mean equal results, so that finished work is found again."""

from __future__ import annotations

import hashlib
import json
import os.path
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from datetime import date
from typing import Any

from cenote import __version__
from cenote.operations.support.events import DatasetInfo
from cenote.plan.plan import Partition, SourceStep, Step


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


def segment_digest(
    steps: Iterable[tuple[Step, Sequence[Sequence[str]]]],
    source: SourceStep | None,
    exports: Mapping[str, Sequence[str]],
    *,
    code: str,
    constants: Mapping[str, Any],
    datasets: Sequence[str],
) -> str:
    """Of everything that decides a segment's results, except the data. Pools and limits are not part of it, nor which
    stages are compiled: both ways give the same bits.

    With each step goes what is known of its code; `code` is that of the source.
    """
    fills = {} if source is None else {name: [fill.type, fill.value] for name, fill in source.fills.items()}
    return digest_of(
        {
            "version": __version__,
            "steps": [
                [s.stage, s.op, _settings(s), does, s.inputs, s.product, s.datasets, s.needs_products]
                for s, does in steps
            ],
            "source": None if source is None else [source.kind, source.settings, source.renames, fills, code],
            "exports": exports,
            "constants": constants,
            "datasets": datasets,
        }
    )


def _settings(step: Step) -> list[Any]:
    varied = [[*astuple(one)] for one in (step.varied, step.fillings) if one is not None]
    return [step.params, step.own_params, [[*astuple(w)] for w in step.writes], *varied]


def partition_digest(partition: Partition, dataset: bytes) -> bytes:
    """Of the data of a partition: where it is, which version of it, and the digest of its dataset.

    A file is the same by whatever path it was named, so that a run can be resumed from another folder.
    """
    url = partition.url if "://" in partition.url else os.path.abspath(partition.url)  # noqa: PTH100  # ten times faster
    where = f"{url}\0{partition.stamp}\0{partition.start}\0{partition.stop}\0{partition.source}\0"
    return hashlib.blake2b(where.encode() + dataset, digest_size=16).digest()


def dataset_digest(dataset: DatasetInfo) -> bytes:
    """Of what operations may know of a dataset."""
    known = [dataset.name, dataset.eventtype, dataset.group, dataset.nevents, dict(dataset.metadata)]
    known += [dataset.stands_in] if dataset.stands_in else []
    return bytes.fromhex(digest_of(known))


def task_key(segment: str, data: bytes, needs: Iterable[bytes], *, kind: str) -> bytes:
    """16 bytes that name a task's result."""
    hashed = hashlib.blake2b(f"{kind}\0{segment}\0".encode() + data, digest_size=16)
    for need in needs:
        hashed.update(need)
    return hashed.digest()
