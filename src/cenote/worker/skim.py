"""This file writes skims: the events of one partition to a file of their own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from cenote.operations.events import Events
from cenote.plan.plan import WriteStep
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind
from cenote.sinks.interface import Sink
from cenote.worker.envelope import Piece


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
    """Write, and tell what was written; the file appears whole or not at all."""
    sink: Sink = registry.load(PluginKind.SINK, write.kind).model_validate(dict(write.settings))
    part = f"{piece.part:05}" if piece.rows is None else f"{piece.part:05}-{piece.rows[0]}"
    name = skim_path(write.path_template, dataset=piece.partition.dataset, part=part, suffix=sink.suffix)
    target = Path(folder) / name
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{os.getpid()}-{target.name}")
    sink.write(events.keep(write.keep), temporary)
    size = temporary.stat().st_size
    temporary.replace(target)
    return {"path": str(name), "dataset": piece.partition.dataset, "entries": events.size, "bytes": size}
