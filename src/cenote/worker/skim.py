"""This file writes skims: the events of one partition to a file of their own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cenote import storage
from cenote.operations.events import Events
from cenote.plan.plan import WriteStep
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind
from cenote.sinks.interface import Sink
from cenote.worker.envelope import Piece
from cenote.worker.store import Part, pack, unpack

_CONTENT = "content"
"""Of a skim that is on its way to the driver."""


def skim_path(template: str, *, dataset: str, part: str, suffix: str) -> Path:
    """`skim.root` → `skim/<dataset>/00003.root`; a template with `{dataset}` and `{part}` is taken as written.

    Parts are counted in each dataset, so the dataset is always a part of the name.
    """
    if "{part}" in template or "{partition_id}" in template:
        named = Path(template.replace("{part}", part).replace("{partition_id}", part).replace("{dataset}", dataset))
        return named if "{dataset}" in template else named.parent / dataset / named.name
    base = Path(template.replace("{dataset}", dataset))
    folder = base.with_suffix("") if base.suffix else base
    inner = folder if "{dataset}" in template else folder / dataset
    return inner / f"{part}{base.suffix or suffix}"


def write_skim(write: WriteStep, events: Events, folder: str, piece: Piece) -> dict[str, Any]:
    """Write, and tell what was written; the file appears whole or not at all.

    A worker that does not see the run's folder hands the content over instead, and the driver writes it.
    """
    sink: Sink = registry.load(PluginKind.SINK, write.kind).model_validate(dict(write.settings))
    part = f"{piece.part:05}" if piece.rows is None else f"{piece.part:05}-{piece.rows[0]}"
    name = skim_path(write.path_template, dataset=piece.partition.dataset, part=part, suffix=sink.suffix)
    kept = events.keep(write.keep)
    told: dict[str, Any] = {"path": str(name), "dataset": piece.partition.dataset, "entries": events.size}
    if not Path(folder).is_dir():
        content = _in_memory(sink, kept, name)
        return {**told, "bytes": len(content), _CONTENT: content}
    target = Path(folder) / name
    with _whole(target) as temporary:
        sink.write(kept, temporary)
        size = temporary.stat().st_size
    return {**told, "bytes": size}


def bring_home(products: bytes, folder: str) -> Sequence[Part]:
    """The packed products of a task, once skims that came with them lie in the run's folder."""
    found: dict[str, Any] = unpack(products)
    lists = [written for name, written in found.items() if name.endswith(":files")]
    brought = [one for written in lists for one in written if _CONTENT in one]
    for one in brought:
        with _whole(Path(folder) / one["path"]) as temporary:
            temporary.write_bytes(one.pop(_CONTENT))
    return pack(found) if brought else [products]


def _in_memory(sink: Sink, events: Events, name: Path) -> bytes:
    with tempfile.TemporaryDirectory(prefix="cenote-skim-") as scratch:
        file = Path(scratch) / name.name
        sink.write(events, file)
        return file.read_bytes()


@contextmanager
def _whole(target: Path) -> Iterator[Path]:
    """A name to write under; the file gets its own when all of it is there."""
    temporary = target.with_name(f".{os.getpid()}-{target.name}")
    try:
        with storage.writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            temporary.replace(target)
    except BaseException:
        storage.remove(temporary)
        raise
