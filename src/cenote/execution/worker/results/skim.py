"""Write skims: the events of one partition to a file of their own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cenote.analysis.operations.support.events import Events
from cenote.analysis.products.files import SHOWN, TEMPLATE
from cenote.analysis.sinks.interface import Sink
from cenote.common import errors, storage
from cenote.execution.worker.results.bundle import ByteBuffer, pack, unpack
from cenote.execution.worker.results.written_files import WrittenFiles
from cenote.execution.worker.task_spec import Piece
from cenote.language.plugins import registry
from cenote.language.plugins.imports import digest_of_content, digest_of_file
from cenote.language.plugins.kinds import PluginKind
from cenote.planning.outputs.names import PARTS, parts_folder, skim_path, whole_path
from cenote.planning.plan import WriteStep, maker_of

_CONTENT = "content"
"""Of a skim that is on its way to the driver."""
_SUM = "sum"
"""Of a file, by which a later run knows that nothing has changed it."""


def write_skim(
    write: WriteStep, events: Events, folder: str, piece: Piece, note: Callable[..., None]
) -> dict[str, Any]:
    """Write, and tell what was written; the file appears whole or not at all, and is noted first.

    A worker that does not see the run's folder hands the content over instead, and the driver writes it.
    """
    sink = _sink(write)
    part = f"{piece.part:05}" if piece.rows is None else f"{piece.part:05}-{piece.rows[0]}"
    dataset = piece.partition.dataset
    if write.per_dataset or write.per_run:
        whole = whole_path(write.path_template, dataset=None if write.per_run else dataset, suffix=sink.suffix)
        name = parts_folder(whole) / f"{dataset + '-' if write.per_run else ''}{part}{whole.suffix}"
    else:
        name = skim_path(write.path_template, dataset=dataset, part=part, suffix=sink.suffix)
    kept = events.keep(write.keep)
    told: dict[str, Any] = {"path": str(name), "dataset": dataset, "entries": events.size}
    told[TEMPLATE] = write.path_template
    if not Path(folder).is_dir():
        content = _in_memory(sink, kept, name)
        return {**told, "bytes": len(content), _SUM: digest_of_content(content), _CONTENT: content}
    target = Path(folder) / name
    note(target)
    with storage.appearing(target, under_its_name=True) as temporary:
        sink.write(kept, temporary)
        size, digest = temporary.stat().st_size, digest_of_file(temporary)
        note(target, digest=digest)
    return {**told, "bytes": size, _SUM: digest}


def is_as_written(skim: Mapping[str, Any], folder: Path, stored: int) -> bool:
    """Whether a file is what a task wrote; `stored` is when its result was, in nanoseconds.

    A file that nothing has touched since then is not read again, unless it is a part, which is about to be read.
    """
    file = folder / skim["path"]
    try:
        facts = file.stat()
        if facts.st_size != skim["bytes"]:
            return False
        untouched = facts.st_ctime_ns < stored and PARTS not in Path(skim["path"]).parents
        return untouched or digest_of_file(file) == skim.get(_SUM)
    except OSError:
        return False


def is_written_again(file: Path, digest: str | None) -> bool:
    """Whether a file that is not as a task wrote it is what a run wrote there later: its digest was noted then."""
    try:
        return digest is not None and digest_of_file(file) == digest
    except OSError:
        return False


def _sink(write: WriteStep) -> Sink:
    sink: Sink = registry.make(PluginKind.SINK, write.kind, write.settings)
    return sink


def bring_home(
    products: bytes, folder: str, written: WrittenFiles, planned: Sequence[WriteStep]
) -> Sequence[ByteBuffer]:
    """The packed products of a task, once skims that came with them lie in the run's folder.

    Their names come from another machine: those that no planned skim can have are refused.
    """
    found: dict[str, Any] = {**unpack(products)}
    lists = [(name, files) for name, files in found.items() if maker_of(name) != name]
    brought = [(name, one) for name, files in lists for one in files if _CONTENT in one]
    for name, one in brought:
        _demand_planned(one["path"], planned)
        written.note(name, Path(folder) / one["path"], digest=one[_SUM])
        with storage.appearing(Path(folder) / one["path"], under_its_name=True) as temporary:
            temporary.write_bytes(one.pop(_CONTENT))
    return pack(found) if brought else [products]


def _demand_planned(path: str, planned: Sequence[WriteStep]) -> None:
    absolute = [write.path_template.partition("{")[0] for write in planned if write.path_template.startswith("/")]
    outside = path.startswith("/") and not path.startswith(tuple(absolute))
    if outside or ".." in Path(path).parts:
        raise errors.error(errors.BAD_PATH, f"a worker sent a file for {path!r}, where no stage writes")


def merge_parts(written: Sequence[dict[str, Any]], writes: Sequence[WriteStep], folder: Path) -> list[dict[str, Any]]:
    """What a stage wrote, once the parts of files that hold a whole dataset are one: in the order of the events."""
    together: dict[Path, list[dict[str, Any]]] = {}
    for one in written:
        together.setdefault(Path(one["path"]).parent, []).append(one)
    merged = []
    for write in writes if together else ():
        sink = _sink(write)
        datasets = dict.fromkeys(one["dataset"] for one in written if write.per_dataset)
        for dataset in [None] if write.per_run else datasets:
            name = whole_path(write.path_template, dataset=dataset, suffix=sink.suffix)
            parts = together.pop(parts_folder(name), [])
            if parts:
                with storage.appearing(folder / name, under_its_name=True) as temporary:
                    sink.merge([folder / part["path"] for part in parts], temporary)
                entries, size = sum(part["entries"] for part in parts), (folder / name).stat().st_size
                told = {"path": str(name), "dataset": dataset or "all", "entries": entries, "bytes": size}
                told[TEMPLATE] = write.path_template
                merged.append({**told, SHOWN: True} if sink.shown else told)
    alone = [{key: one[key] for key in one if key != _SUM} for some in together.values() for one in some]
    return [*alone, *merged]


def _in_memory(sink: Sink, events: Events, name: Path) -> bytes:
    with tempfile.TemporaryDirectory(prefix="cenote-skim-") as scratch:
        file = Path(scratch) / name.name
        sink.write(events, file)
        return file.read_bytes()
