"""The events that a task begins with: read from a file, or handed over by earlier tasks."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace

import numpy as np

from cenote.errors import CHANGED_INPUT, CenoteError, error
from cenote.operations.support.events import Events
from cenote.plan.plan import UNREADABLE, Partition
from cenote.signals import Interrupted
from cenote.sources.interface import Source
from cenote.worker.failure import TaskFailure, failure_of
from cenote.worker.fill import filled
from cenote.worker.for_later import ForLater
from cenote.worker.join import side_by_side
from cenote.worker.run_plugins import RunPlugins
from cenote.worker.task_spec import Piece, RunSpec, TaskSpec
from cenote.worker.task_work import TaskWork


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
