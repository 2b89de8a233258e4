"""Get the events that a task begins with: read, filled, handed over by earlier tasks, or kept by earlier runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cenote.analysis.operations.support.events import Column, Events, flat
from cenote.analysis.sources.interface import Source
from cenote.common import errors
from cenote.common.arrays import ak
from cenote.common.errors import CHANGED_INPUT, CenoteError, error
from cenote.common.signals import Interrupted
from cenote.engine.messages import KeptStats
from cenote.execution.worker.failure import TaskFailure, failure_of
from cenote.execution.worker.join import side_by_side
from cenote.execution.worker.results.bundle import PackedEvents
from cenote.execution.worker.results.kept_events import (
    NotKeptError,
    data_in,
    done_again,
    from_kept,
    is_too_cheap,
    kept_data,
    size_of,
    what_it_did,
    within,
)
from cenote.execution.worker.results.store import DamagedResultError
from cenote.execution.worker.run_plugins import RunPlugins
from cenote.execution.worker.task_spec import Piece, RunSpec, TaskSpec
from cenote.execution.worker.task_work import TaskWork
from cenote.planning.plan import UNREADABLE, Fill, Partition, Step, columns_of, events_of

# Make columns that a file lacks: of the type that another file has, with a default in every event.


DEFAULTS: dict[str, Any] = {"b": False, "i": 0, "u": 0, "f": np.nan, "c": np.nan}
"""Kind of a numpy type → what stands in for a value: NaN shows up in results, where 0 might go unnoticed."""


def filled(source: Source, fill: Fill, name: str, found: Callable[[str], str], size: int) -> Column:
    """A column of this many events; `found` says where the file is that has it."""
    like = flat(source.read(found(fill.like), [name], 0, 0)[name])
    if isinstance(like, np.ndarray) and like.dtype.kind in DEFAULTS:
        value = DEFAULTS[like.dtype.kind] if fill.value is None else fill.value
        if _fits(value, like.dtype):
            return np.full((size, *like.shape[1:]), value, dtype=like.dtype)
    layout = ak.to_layout(like)
    if isinstance(layout, ak.contents.ListArray):
        layout = layout.to_ListOffsetArray64()
    if isinstance(fill.value, str) and layout.parameter("__array__") == "string":
        return ak.Array([fill.value])[np.zeros(size, dtype=np.int64)]
    if fill.value is None and isinstance(layout, ak.contents.ListOffsetArray):
        empty = ak.index.Index64(np.zeros(size + 1, dtype=np.int64))
        return ak.Array(ak.contents.ListOffsetArray(empty, layout.content, parameters=layout.parameters))
    wanted = f"{fill.value!r}" if fill.value is not None else "a default"
    raise errors.error(
        errors.UNREADABLE_INPUT,
        f"column '{name}' of type {fill.type} cannot be filled with {wanted}",
        hint="numbers and conditions can be filled with a value of their type; lists are left empty",
    )


def _fits(value: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a value stays what it is in a column of this type: 2.5 is not a whole number."""
    if isinstance(value, str):
        return False
    with np.errstate(all="ignore"):
        stored = np.asarray(value).astype(dtype)
    return bool(dtype.kind in "fc" or stored == value)


# Keep what dear stages do to events for later runs, and give it to tasks instead of running them.


class ForLater:
    """Writes and reads what tasks keep beside their results."""

    def __init__(self, path: Callable[[str], Path]) -> None:
        self._path = path
        """Where a result of this name lies, for those who look after it."""

    def keep_columns(self, work: TaskWork, step: Step, before: Events, after: Events) -> None:
        """A step has run; what it did is kept if that was dear."""
        product, seconds = columns_of(step.stage), work.stats[step.stage].seconds
        if product not in work.spec.for_later or step.for_later is None:
            return
        always = _always(step)
        if always or not is_too_cheap(seconds):
            did = what_it_did(before, after, step.for_later)
            if did is not None:
                self._keep(work, product, did, seconds, always=always)

    def keep_events(self, work: TaskWork, step: Step, events: Events) -> None:
        """Events leave the task; they are kept if what led to them was dear."""
        product = events_of(step.stage)
        seconds = work.spared + sum(stats.seconds for stats in work.stats.values())
        if product in work.spec.for_later:
            self._keep(work, product, events, seconds, always=_always(step))

    def _keep(self, work: TaskWork, product: str, events: Events, seconds: float, *, always: bool) -> None:
        data = kept_data(events, seconds, always=always)
        if data is not None:
            work.bytes_out += work.exchange.write(work.spec.for_later[product], {product: data})
            work.kept_for_later[product] = KeptStats(size_of(data), seconds)

    def given(self, work: TaskWork, piece: Piece, step: Step, before: Events | None, like: Events) -> Events:
        """What a step that does not run gives, for the events that come in, if any do. Those are `like` these, as far
        as it is about where they come from."""
        product = columns_of(step.stage)
        name = work.spec.given[step.stage]
        kept = self._unpacked(work, piece, name, work.exchange.read(name), product, like)
        missing = [name for name in step.for_later or () if name not in kept.columns]
        try:
            if missing:
                raise NotKeptError(f"column '{missing[0]}' was not kept")
            found = kept.keep(step.for_later or ())
            return found if before is None else done_again(found, before)
        except NotKeptError as problem:
            raise self._damaged(name) from problem

    def imported(self, work: TaskWork, piece: Piece, name: str, like: Events) -> Events:
        """Events that an earlier segment handed over, in this run or in an earlier one: what is known beside columns is
        what this run says, as `like` has it."""
        found = work.exchange.read(name)
        if isinstance(found, PackedEvents):
            events = replace(found.unpacked(), dataset=like.dataset, datasets=like.datasets, constants=like.constants)
            return within(events, piece.rows)
        return self._unpacked(work, piece, name, found, next(iter(found), ""), like)

    def _unpacked(
        self, work: TaskWork, piece: Piece, name: str, bundle: Mapping[str, Any], product: str, like: Events
    ) -> Events:
        try:
            data = data_in(bundle, product)
            kept = from_kept(data, like)
        except NotKeptError as problem:
            raise self._damaged(name) from problem
        work.spared += kept.seconds
        work.kept_for_later[product] = KeptStats(size_of(data), kept.seconds, read=True)
        return within(kept.events, piece.rows)

    def _damaged(self, name: str) -> DamagedResultError:
        return DamagedResultError(name, self._path(name))


def _always(step: Step) -> bool:
    return any(modifier.keeps_output for modifier in step.modifiers)


class IncomingEvents:
    """Finds the events of each piece of a task."""

    def __init__(self, run_spec: RunSpec, plugins: RunPlugins, for_later: ForLater) -> None:
        self._run_spec = run_spec
        self._plugins = plugins
        self._for_later = for_later

    def of(self, work: TaskWork, piece: Piece) -> dict[str, Events]:
        """Events by the name that steps know them by; `""` is the source."""
        incoming: dict[str, Events] = {}
        for stage, names in piece.imports:
            incoming[stage] = side_by_side([self._imported(work, piece, name, incoming) for name in names])
        source = work.segment.source
        if source is not None and piece.partition.dataset in source.columns:
            self._read(work, piece, incoming)
        return incoming

    def bare(self, piece: Piece) -> Events:
        """Events with no columns yet."""
        return Events(
            columns={},
            size=0,
            dataset=self._run_spec.datasets[piece.partition.dataset],
            datasets=tuple(name for name, info in self._run_spec.datasets.items() if not info.stands_in),
            constants=self._run_spec.constants,
        )

    def _imported(self, work: TaskWork, piece: Piece, name: str, incoming: dict[str, Events]) -> Events:
        if not name:
            return self._read(work, piece, incoming)
        return self._for_later.imported(work, piece, name, self.bare(piece))

    def _read(self, work: TaskWork, piece: Piece, incoming: dict[str, Events]) -> Events:
        if "" in incoming:
            return incoming[""]
        step, partition = work.segment.source, piece.partition
        assert step is not None, "the plan lets only segments with a source read"
        source = self._plugins.source(work.segment)
        first, last = piece.rows or (0, partition.events)
        names = step.columns[partition.dataset]
        in_file = [step.renames.get(name, name) for name in names]
        lacking = [name for name in partition.lacks if name in in_file]
        url = self._found(partition.url)
        try:
            _demand_unchanged(source, url, partition)
            there = list(dict.fromkeys(name for name in in_file if name not in lacking))
            asked = (url, there, partition.start + first, partition.start + last)
            try:
                columns = source.read_placed(*asked, piece.places) if piece.places else source.read(*asked)
            except Exception:  # which may be no wonder
                _demand_unchanged(source, url, partition)
                raise
            _demand_unchanged(source, url, partition)
            for name in lacking:
                columns[name] = filled(source, step.fills[name], name, self._found, last - first)
        except Interrupted:
            raise
        except BaseException as problem:
            reader = work.segment.steps[0].stage
            raise TaskFailure(failure_of(problem, stage=reader, partition=partition, reading=True)) from problem
        work.events += last - first
        work.bytes_read += sum(int(column.nbytes) for column in columns.values())
        incoming[""] = replace(
            self.bare(piece),
            columns={name: columns[there] for name, there in zip(names, in_file, strict=True)},
            size=last - first,
            index=None if piece.rows is None else np.arange(first, last),
        )
        return incoming[""]

    def fetch_ahead(self, spec: TaskSpec) -> None:
        """Begin to fetch what a task will read: the next one here, as far as is known. Returns at once."""
        segment, piece = self._plugins.segment_of(spec), spec.pieces[0] if spec.pieces else None
        if piece is None or not piece.places or segment.scope != "partition" or spec.split > 1:
            return
        partition = piece.partition
        with suppress(Exception):  # if it matters, the reading will say so
            source = self._plugins.source(segment)
            source.fetch_placed(self._found(partition.url), partition.start, partition.stop, piece.places)

    def frees_lock(self, spec: TaskSpec) -> bool:
        """Whether a task like this one, which was run, read its columns without Python's lock."""
        segment, piece = self._plugins.segment_of(spec), spec.pieces[0]
        source, step = self._plugins.opened_source(segment), segment.source
        if source is None or step is None or piece.partition.dataset not in step.columns:
            return False
        names = [step.renames.get(name, name) for name in step.columns[piece.partition.dataset]]
        return source.frees_lock(self._found(piece.partition.url), names, piece.places)

    def _found(self, url: str) -> str:
        """A file's name as it is from here: jobs may begin in another folder than the driver, or go to one."""
        if "://" in url or self._run_spec.folder in ("", _working_directory()):
            return url
        return os.path.join(self._run_spec.folder, url)  # noqa: PTH118  # half the time of Path, and it runs for every chunk


def _demand_unchanged(source: Source, url: str, partition: Partition) -> None:
    """Raises `changed-input` for a file that is not the one that the plan, and so the task's key, was made from."""
    now = source.current_stamp(url)
    if not now or now == partition.stamp or not partition.stamp:
        return
    try:
        now = source.describe(url).stamp  # of whoever finds it in another way than stamps are made
    except CenoteError:
        now = UNREADABLE
    if now != partition.stamp:
        raise error(
            CHANGED_INPUT,
            f"{partition.url} changed while the run was going on",
            details=(f"its stamp was {partition.stamp}, and is {now}",),
            hint="run again when its writer is done: nothing that was read from it is kept",
        )


def _working_directory() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109  # as above; somebody's code may change it between two chunks
    except OSError:
        return None
