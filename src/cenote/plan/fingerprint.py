"""This file makes content hashes: equal hashes mean equal results, so that finished work is found again."""

from __future__ import annotations

import hashlib
import json
import os.path
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import Any

from cenote import __version__
from cenote.operations.events import DatasetInfo
from cenote.plan.plan import Partition, SourceStep, Step


def digest_of(value: Any) -> str:
    """Of plain data; mappings are compared without regard to order."""
    text = json.dumps(value, sort_keys=True, default=_plain, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return list(value)
    return repr(value)


def segment_digest(
    steps: Iterable[tuple[Step, str]],
    source: SourceStep | None,
    exports: Mapping[str, Sequence[str]],
    *,
    constants: Mapping[str, Any],
    datasets: Sequence[str],
) -> str:
    """Of everything that decides a segment's results, except the data. Pools and limits are not part of it."""
    return digest_of(
        {
            "version": __version__,
            "steps": [
                [s.stage, s.op, _settings(s), fingerprint, s.inputs, s.product, s.datasets, s.needs_products]
                for s, fingerprint in steps
            ],
            "source": None if source is None else [source.kind, source.settings, source.renames, _fills(source)],
            "exports": exports,
            "constants": constants,
            "datasets": datasets,
        }
    )


def _fills(source: SourceStep) -> dict[str, list[Any]]:
    return {name: [fill.type, fill.value] for name, fill in source.fills.items()}


def _settings(step: Step) -> list[Any]:
    return [step.params, step.own_params, [[*astuple(w)] for w in step.writes]]


def partition_digest(partition: Partition, dataset: bytes) -> bytes:
    """Of the data of a partition: where it is, which version of it, and the digest of its dataset.

    A file is the same by whatever path it was named, so that a run can be resumed from another folder.
    """
    url = partition.url if "://" in partition.url else os.path.abspath(partition.url)  # noqa: PTH100  # ten times faster
    where = f"{url}\0{partition.stamp}\0{partition.start}\0{partition.stop}\0{partition.source}\0"
    return hashlib.blake2b(where.encode() + dataset, digest_size=16).digest()


def dataset_digest(dataset: DatasetInfo) -> bytes:
    """Of what operations may know of a dataset."""
    said = [dataset.name, dataset.eventtype, dataset.group, dataset.nevents, dict(dataset.metadata)]
    return bytes.fromhex(digest_of(said))


def task_key(segment: str, data: bytes, needs: Iterable[bytes], *, kind: str) -> bytes:
    """16 bytes that name a task's result."""
    hashed = hashlib.blake2b(f"{kind}\0{segment}\0".encode() + data, digest_size=16)
    for need in needs:
        hashed.update(need)
    return hashed.digest()
