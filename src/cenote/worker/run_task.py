"""Run one task: the steps of a segment on a partition, or a merge of earlier results."""

from __future__ import annotations

import gc
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from cenote.engine.messages import FailureInfo, GroupStats, StageStats
from cenote.modifiers.interface import Following, Modifier, StageCall
from cenote.modifiers.support.measures import Measured, joined
from cenote.modifiers.support.warnings_kept import KeptWarnings
from cenote.operations.interface import Operation, Result
from cenote.operations.support.events import DatasetInfo, Events
from cenote.operations.support.varied import as_varied
from cenote.plan.plan import FusedSteps, Partition, PlannedModifier, Segment, SourceStep, Step, maker_of, skims_of
from cenote.plugins import registry, resources
from cenote.plugins.kinds import PluginKind
from cenote.plugins.shipped import bring_along, extend_path
from cenote.products.interface import Product
from cenote.signals import Interrupted
from cenote.sources.interface import Source
from cenote.text import compiled_together, first_to_last
from cenote.worker.compiled_group import CompiledGroup, Group, Ran
from cenote.worker.failure import ModifierFailure, TaskFailure, failure_of
from cenote.worker.fill import filled
from cenote.worker.join import one_after_the_other, put_together, rows_of, side_by_side
from cenote.worker.modified import run_modified
from cenote.worker.process.memory import TaskMemory
from cenote.worker.process.warm_processes import used_plugins
from cenote.worker.results.exchange import Collected, Exchange
from cenote.worker.results.packed_events import PackedEvents, packed
from cenote.worker.results.skim import write_skim
from cenote.worker.results.store import DamagedResultError, Store, is_worth_waiting
from cenote.worker.results.written_files import WrittenFiles
from cenote.worker.task_spec import VERSION, Outcome, Piece, RunSpec, TaskSpec, TimeLimit

OnStep = Callable[[str, TimeLimit | None], None]
"""Told of the stage that begins, and of how long it may take; an empty stage says that the task is over."""


ALL_DATASETS = DatasetInfo(name="all", eventtype="")
"""What a stage of scope run sees: its events come from every dataset."""


@dataclass
class _Work:
    """What one task has found so far."""

    spec: TaskSpec
    segment: Segment
    exchange: Exchange
    on_step: OnStep
    memory: TaskMemory
    began: float
    stats: dict[str, StageStats] = field(default_factory=dict)
    groups: list[GroupStats] = field(default_factory=list)
    products: dict[str, Any] = field(default_factory=dict)
    events: int = 0
    bytes_read: int = 0
    bytes_out: int = 0
    warnings: KeptWarnings = field(default_factory=KeptWarnings)
    files: dict[str, bytes] = field(default_factory=dict)
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Modifier → what it keeps for later stages."""


def _added(step: Step, one: StageStats, other: StageStats) -> StageStats:
    """Of two pieces of a partition."""
    return StageStats(
        seconds=one.seconds + other.seconds,
        events_in=one.events_in + other.events_in,
        events_out=one.events_out + other.events_out,
        modifiers=_joined(step, one.modifiers, other.modifiers),
    )


def _joined(step: Step, one: Mapping[str, Measured], other: Mapping[str, Measured]) -> dict[str, Measured]:
    nothing = Measured()
    return {
        m.name: joined(m.measures, one.get(m.name, nothing), other.get(m.name, nothing))
        for m in step.modifiers
        if m.name in one or m.name in other
    }


def _groups_added(steps: Mapping[str, Step], groups: Iterable[GroupStats]) -> Iterator[GroupStats]:
    """Of all pieces of a partition, each group once."""
    found: dict[tuple[str, ...], Mapping[str, Measured]] = {}
    for group in groups:
        before = found.get(group.stages)
        found[group.stages] = (
            group.modifiers if before is None else _joined(steps[group.stages[0]], before, group.modifiers)
        )
    yield from (GroupStats(stages, dict(measured)) for stages, measured in found.items())


class TaskRunner:
    """Runs the tasks of one run in this process; operations are built and prepared once."""

    def __init__(self, run_spec: RunSpec) -> None:
        if run_spec.version != VERSION:
            raise RuntimeError(f"this worker uses protocol version {VERSION}, the run uses {run_spec.version}")
        self.run_spec = run_spec
        self.store = Store(Path(run_spec.store), run_spec.key or None)
        self.written = WrittenFiles(Path(run_spec.store))
        self._preparing = threading.Lock()
        self._loading = threading.Lock()
        self._operations: dict[tuple[int, str, str], Operation] = {}
        self._sources: dict[int, Source] = {}
        self._modifiers: dict[tuple[int, str], dict[str, Modifier]] = {}
        self._grouping = threading.Lock()
        self._compiled_groups: dict[tuple[int, str], list[CompiledGroup]] = {}
        self._followers: dict[tuple[int, str, str], Following | None] = {}
        resources.serve(run_spec.resources, run_spec.workflow, run_spec.folder)
        extend_path(run_spec.path)
        bring_along(run_spec.sources, complete=True)
        for target, kind, name in run_spec.plugins:
            registry.add_travelled(target, kind, name, run_spec.sources)
        self._load_all()

    def run(
        self,
        spec: TaskSpec,
        *,
        exchange: Exchange | None = None,
        on_step: OnStep | None = None,
        shares_process: bool = False,
    ) -> Outcome:
        """Do it and hand over the result. What goes wrong is told in the outcome; only a signal raises.

        Of a task that shares the process with others, the CPU time is that of its thread, and nobody knows its memory.
        """
        memory = TaskMemory()
        process = os.getpid()
        cpu_time = time.thread_time if shares_process else time.process_time
        wall, cpu = time.perf_counter(), cpu_time()
        segment = self.run_spec.segments[spec.segment]
        on_step = on_step or (lambda _stage, _limit: None)
        work = _Work(spec, segment, exchange or self.store, on_step, memory, began=wall)
        failure = None
        try:
            (self._merge if spec.kind == "merge" else self._run)(work)
            wait = is_worth_waiting(spec.kind, time.perf_counter() - wall)
            work.bytes_out += work.exchange.write(spec.key, work.products, wait=wait)
        except TaskFailure as problem:
            failure = problem.info
        except Interrupted:
            raise
        except DamagedResultError as problem:
            failure = FailureInfo(cause="damaged", message=str(problem), file=str(problem.path))
        except BaseException as problem:  # somebody's code may raise anything, SystemExit included
            failure = failure_of(problem)
        finally:
            if os.getpid() != process:  # a child that somebody's code forked and let go: the task is its parent's
                os._exit(1)
            work.on_step("", None)
        outcome = Outcome(
            task=spec.task,
            failure=failure,
            seconds=time.perf_counter() - wall,
            cpu_seconds=cpu_time() - cpu,
            peak_memory=0 if shares_process else memory.of_task(),
            events=work.events,
            bytes_read=work.bytes_read,
            bytes_out=work.bytes_out,
            stages=work.stats,
            groups=tuple(work.groups),
            warnings=work.warnings.messages,
            more_warnings=work.warnings.more,
            files=work.files,
        )
        if failure is not None:
            gc.collect()  # the traceback's frames hold columns
        return outcome

    # one segment

    def _run(self, work: _Work) -> None:
        segment, spec = work.segment, work.spec
        given = self._given(work)
        if segment.scope == "partition":
            if spec.split > 1:
                self._run_in_pieces(work, given)
            else:
                self._steps(work, spec.pieces[0], self._incoming(work, spec.pieces[0]), given)
            return
        (step,) = segment.steps
        parts = []
        for piece in spec.pieces:
            incoming = self._incoming(work, piece)
            parts.append(side_by_side([incoming[name] for name in step.inputs or ("",)]).keep(step.reads))
        events = one_after_the_other(parts, step.reads)
        if segment.scope == "run":
            events = replace(events, dataset=ALL_DATASETS)
        result = self._call(work, spec.pieces[0], step, replace(events, products=given))
        dataset = spec.pieces[0].partition.dataset
        work.products[step.stage] = {dataset: result.product} if segment.scope == "dataset" else result.product

    def _given(self, work: _Work) -> dict[str, Any]:
        """Products of earlier stages; of one with a product per dataset, that of this dataset, or for a run all."""
        per_dataset = {
            s.stage for segment in self.run_spec.segments if segment.scope == "dataset" for s in segment.steps
        }
        given: dict[str, Any] = {}
        for stage, key in work.spec.products:
            product = work.exchange.read(key).get(stage)
            if stage not in per_dataset:
                given[stage] = product
            elif work.segment.scope == "run":
                given.setdefault(stage, {}).update(product)
            else:
                (given[stage],) = product.values()
        return given

    def _run_in_pieces(self, work: _Work, given: Mapping[str, Any]) -> None:
        """One piece of the partition after the other: slower, and with less memory."""
        whole = work.spec.pieces[0]
        cuts = [whole.partition.events * n // work.spec.split for n in range(work.spec.split + 1)]
        done: list[tuple[_Work, Collected]] = []
        for rows in pairwise(cuts):
            collected = Collected(work.exchange)
            part = replace(work, exchange=collected, products={}, stats={}, groups=[], events=0, bytes_read=0, kept={})
            piece = replace(whole, rows=rows)
            self._steps(part, piece, self._incoming(part, piece), given)
            done.append((part, collected))
        steps = {step.stage: step for step in work.segment.steps}
        for name, kind in work.segment.products.items():
            parts = [part.products[name] for part, _ in done if name in part.products]
            if parts:
                step = steps[maker_of(name)]
                work.products[name] = self._merged(work.segment, step, kind, name, parts)
        for name in done[0][1].written:
            together = put_together([collected.written[name].unpacked() for _, collected in done])
            work.bytes_out += work.exchange.write(name, packed(together))
        for part, _ in done:
            work.events += part.events
            work.bytes_read += part.bytes_read
            for stage, stats in part.stats.items():
                before = work.stats.get(stage)
                work.stats[stage] = stats if before is None else _added(steps[stage], before, stats)
        work.groups += _groups_added(steps, [group for part, _ in done for group in part.groups])

    def _incoming(self, work: _Work, piece: Piece) -> dict[str, Events]:
        """Events by the name that steps know them by; `""` is the source."""
        incoming: dict[str, Events] = {}
        for stage, names in piece.imports:
            branches = [
                self._imported(work, name, piece) if name else self._read(work, piece, incoming) for name in names
            ]
            incoming[stage] = side_by_side(branches)
        source = work.segment.source
        if source is not None and piece.partition.dataset in source.columns:
            self._read(work, piece, incoming)
        return incoming

    def _imported(self, work: _Work, name: str, piece: Piece) -> Events:
        found: PackedEvents = work.exchange.read(name)
        events = found.unpacked()
        return events if piece.rows is None else rows_of(events, *piece.rows)

    def _read(self, work: _Work, piece: Piece, incoming: dict[str, Events]) -> Events:
        if "" in incoming:
            return incoming[""]
        step, partition = work.segment.source, piece.partition
        assert step is not None, "the plan lets only segments with a source read"
        source = self._source(work.segment.index, step)
        first, last = piece.rows or (0, partition.events)
        names = step.columns[partition.dataset]
        in_file = [step.renames.get(name, name) for name in names]
        lacking = [name for name in partition.lacks if name in in_file]
        try:
            there = list(dict.fromkeys(name for name in in_file if name not in lacking))
            asked = (self._found(partition.url), there, partition.start + first, partition.start + last)
            columns = source.read_placed(*asked, piece.places) if piece.places else source.read(*asked)
            for name in lacking:
                columns[name] = filled(source, step.fills[name], name, self._found, last - first)
        except Interrupted:
            raise
        except BaseException as problem:
            reader = work.segment.steps[0].stage
            raise TaskFailure(failure_of(problem, stage=reader, partition=partition, reading=True)) from problem
        work.events += last - first
        work.bytes_read += sum(int(column.nbytes) for column in columns.values())
        incoming[""] = Events(
            columns={name: columns[there] for name, there in zip(names, in_file, strict=True)},
            size=last - first,
            index=None if piece.rows is None else np.arange(first, last),
            dataset=self.run_spec.datasets[partition.dataset],
            datasets=tuple(name for name, info in self.run_spec.datasets.items() if not info.stands_in),
            constants=self.run_spec.constants,
        )
        return incoming[""]

    def fetch_ahead(self, spec: TaskSpec) -> None:
        """Begin to fetch what a task will read: the next one here, as far as is known. Returns at once."""
        segment, piece = self.run_spec.segments[spec.segment], spec.pieces[0] if spec.pieces else None
        step = segment.source
        if piece is None or step is None or segment.scope != "partition" or spec.split > 1 or not piece.places:
            return
        partition = piece.partition
        with suppress(Exception):  # if it matters, the reading will say so
            source = self._source(segment.index, step)
            source.fetch_placed(self._found(partition.url), partition.start, partition.stop, piece.places)

    def _source(self, segment: int, step: SourceStep) -> Source:
        if segment not in self._sources:
            self._sources[segment] = self._make(PluginKind.SOURCE, step.kind, step.settings)
        return self._sources[segment]

    def _found(self, url: str) -> str:
        """A file's name as it is from here: jobs may begin in another folder than the driver, or go to one."""
        if "://" in url or self.run_spec.folder in ("", _working_directory()):
            return url
        return os.path.join(self.run_spec.folder, url)  # noqa: PTH118  # half the time of Path, and it runs for every chunk

    def _steps(self, work: _Work, piece: Piece, values: dict[str, Events], given: Mapping[str, Any]) -> None:
        segment = work.segment
        inputs = segment.inputs_for(piece.partition.dataset)
        last_use = {name: stage for stage, names in inputs.items() for name in names}
        groups = {group.fused.steps[0].stage: group for group in self._groups(segment, piece.partition.dataset)}
        compiled: dict[str, Result] = {}
        for step in segment.steps:
            if step.stage not in inputs:
                continue
            names = inputs[step.stage]
            if step.stage in groups:
                compiled |= self._compiled(work, piece, groups[step.stage], values)
            ready = compiled.pop(step.stage, None)
            events = side_by_side([values[name] for name in names]) if ready is None else ready.events
            for name in [name for name in names if last_use[name] == step.stage]:
                values.pop(name, None)  # what only compiled steps passed on is not there
            seen = {stage: given[stage] for stage in step.needs_products if stage in given}
            events = replace(events, products=seen, live=frozenset(step.live))
            result = self._call(work, piece, step, events) if ready is None else ready
            self._finish(work, piece, step, result)
            if step.stage in last_use:
                values[step.stage] = result.events.keep(step.live)

    def _finish(self, work: _Work, piece: Piece, step: Step, result: Result) -> None:
        """Keep the product of a step, and write its events to where somebody waits for them."""
        exports = work.segment.exports
        standing_in = bool(self.run_spec.datasets[piece.partition.dataset].stands_in)
        if step.product is not None and not (standing_in and step.fillings is None):
            self._keep(work, step, result.product)
        if step.stage in exports:
            leaving = replace(result.events.keep(exports[step.stage]), products={}, live=None)
            position = list(exports).index(step.stage)
            work.bytes_out += work.exchange.write(f"{work.spec.key}-{position}", packed(leaving))
        for number, write in enumerate(() if standing_in else step.writes):
            with _blamed(step, piece.partition):
                note = partial(self.written.note, skims_of(step.stage))
                written = write_skim(write, result.events, self.run_spec.files, piece, note)
            work.products.setdefault(skims_of(step.stage), []).append(written)
            if number == 0:
                work.bytes_out += int(written["bytes"])

    def _keep(self, work: _Work, step: Step, product: Any) -> None:
        """Keep a product; that of a variation is added to the nominal one."""
        name = step.product_name
        if name in work.products:
            with _blamed(step, None):
                parts = [work.products[name], product]
                product = self._merged(work.segment, step, str(step.product), name, parts)
        work.products[name] = product

    def _compiled(
        self, work: _Work, piece: Piece, group: CompiledGroup, values: Mapping[str, Events]
    ) -> dict[str, Result]:
        """What the steps of a group give, if this partition can be computed so: stage → its result, with events where
        somebody outside of the group needs them. Their time is shared out by the events that each saw."""
        work.on_step(group.stages[0], None)
        started = time.perf_counter()
        events = side_by_side([values[name] for name in group.fused.inputs])
        loop = group.loop(events)
        if loop is None:
            return {}
        calls = self._calls_of_group(work, piece, group, loop)
        with _blamed(group.fused.steps[0], piece.partition):
            ran = _observed(calls, loop, events)
        assert isinstance(ran, Ran), "observers hand on what the loop returned"
        if not ran.counts:
            return {}
        seconds, total = time.perf_counter() - started, sum(came for came, _ in ran.counts.values()) or 1
        measured = {call.modifier: call.measured for _, call in calls}
        alone = measured if len(ran.counts) == 1 else {}
        for stage, (came, went) in ran.counts.items():
            work.stats[stage] = StageStats(
                seconds=seconds * came / total, events_in=came, events_out=went, modifiers=alone
            )
        if measured and not alone:
            work.groups.append(GroupStats(group.stages, measured))
        return {stage: Result(ran.left.get(stage, ran.events), ran.products.get(stage)) for stage in ran.counts}

    def frees_lock(self, spec: TaskSpec) -> bool | None:
        """Whether a task like this one, which was run, computes without Python's lock: its columns are read where they
        are known to be, and its steps are compiled. None where that was not worth it so far."""
        segment, piece = self.run_spec.segments[spec.segment], spec.pieces[0]
        source, step = self._sources.get(segment.index), segment.source
        if source is None or step is None or segment.scope != "partition":
            return False
        dataset = piece.partition.dataset
        names = [step.renames.get(name, name) for name in step.columns[dataset]]
        compiled = [one.is_compiled for one in self._groups(segment, dataset)]
        if False in compiled or not source.frees_lock(self._found(piece.partition.url), names, piece.places):
            return False
        return None if None in compiled else True

    def _groups(self, segment: Segment, dataset: str) -> list[CompiledGroup]:
        """The steps that are compiled together for a dataset."""
        key = (segment.index, dataset)
        with self._grouping:
            if key not in self._compiled_groups:
                self._compiled_groups[key] = [self._group(segment, one, dataset) for one in segment.fused_for(dataset)]
            return self._compiled_groups[key]

    def _group(self, segment: Segment, fused: FusedSteps, dataset: str) -> CompiledGroup:
        inputs, inside = segment.inputs_for(dataset), {step.stage for step in fused.steps}
        outside = {name for stage, names in inputs.items() if stage not in inside for name in names}
        written = {step.stage for step in fused.steps if step.writes}
        operations = {step.stage: self._operation(segment, step, dataset) for step in fused.steps}
        return CompiledGroup(Group(fused, operations, inputs, outside | written | segment.exports.keys()))

    def _call(self, work: _Work, piece: Piece, step: Step, events: Events) -> Result:
        work.on_step(step.stage, None if step.timeout is None else TimeLimit(step.timeout))
        started = time.perf_counter()
        measured: dict[str, Measured] = {}
        whole = work.segment.scope == "partition"
        dataset = piece.partition.dataset if work.segment.scope != "run" else None
        with _blamed(step, piece.partition if whole else None, dataset):
            operation = self._operation(work.segment, step, piece.partition.dataset)
            if step.modifiers:
                calls = self._calls(work, piece, step, operation)
                result = run_modified(calls, operation.run, events)
                measured = {call.modifier: call.measured for _, call in calls}
            else:
                result = operation.run(events)
        work.stats[step.stage] = StageStats(
            seconds=time.perf_counter() - started,
            events_in=events.size,
            events_out=result.events.size,
            modifiers=measured,
        )
        return result

    def _calls(self, work: _Work, piece: Piece, step: Step, operation: Operation) -> list[tuple[Modifier, StageCall]]:
        """The modifiers around a stage, each with what it may know of this call."""
        whole = work.segment.scope == "partition"
        following = self._following(work.segment, step, piece.partition.dataset) if whole else None
        known = {"stage": step.stage, "operation": operation, "reads": step.reads, "adds": step.adds}
        return self._calls_with(work, piece, step, known | {"following": following})

    def _calls_of_group(
        self, work: _Work, piece: Piece, group: CompiledGroup, loop: Operation
    ) -> list[tuple[Modifier, StageCall]]:
        """Those around compiled stages, which are the same for all of them."""
        if not group.fused.modifiers:
            return []
        known = {"stage": first_to_last(group.stages), "stages": group.stages, "operation": loop}
        return self._calls_with(work, piece, group.fused.steps[0], known | {"reads": group.reads, "adds": group.adds})

    def _calls_with(
        self, work: _Work, piece: Piece, step: Step, known: Mapping[str, Any]
    ) -> list[tuple[Modifier, StageCall]]:
        partition, whole = piece.partition, work.segment.scope == "partition"
        made = self._modifiers_of(work.segment, step)
        return [
            (
                made[planned.name],
                StageCall(
                    modifier=planned.name,
                    dataset=partition.dataset if work.segment.scope != "run" else "",
                    file=partition.url if whole else "",
                    entries=(partition.start, partition.stop) if whole else (0, 0),
                    kept=work.kept.setdefault(planned.name, {}),
                    seconds=lambda: time.perf_counter() - work.began,
                    memory=work.memory,
                    limit=partial(_limit, work, step.stage, planned),
                    measures=planned.measures,
                    warnings=work.warnings,
                    files=work.files,
                    **known,
                ),
            )
            for planned in step.modifiers
        ]

    def _following(self, segment: Segment, step: Step, dataset: str) -> Following | None:
        """The stage that takes the events of this one, where it alone does and takes no others."""
        key = (segment.index, step.stage, dataset)
        if key not in self._followers:
            self._followers[key] = self._found_following(segment, step, dataset)
        return self._followers[key]

    def _found_following(self, segment: Segment, step: Step, dataset: str) -> Following | None:
        inputs = segment.inputs_for(dataset)
        takers = [one for one in segment.steps if step.stage in inputs.get(one.stage, ())]
        if len(takers) != 1 or inputs[takers[0].stage] != (step.stage,) or step.stage in segment.exports or step.writes:
            return None
        taker = takers[0]
        if taker.writes:
            return None
        operation = self._operation(segment, taker, dataset)
        return Following(operation, taker.reads, taker.live, self._modifiers_of(segment, taker))

    def _operation(self, segment: Segment, step: Step, dataset: str = "") -> Operation:
        params = step.own_params.get(dataset, step.params)
        key = (segment.index, step.stage, dataset if dataset in step.own_params else "")
        with self._preparing:  # workers with several slots run tasks in threads
            if key not in self._operations:
                known_as = step.varied.stage if step.varied else step.stage
                made: Operation = self._make(PluginKind.OPERATION, step.op, params).for_stage(known_as)
                operation = as_varied(made, step.varied, step.fillings)
                operation.prepare()
                self._operations[key] = operation
            return self._operations[key]

    def _modifiers_of(self, segment: Segment, step: Step) -> dict[str, Modifier]:
        key = (segment.index, step.stage)
        if key not in self._modifiers:
            self._modifiers[key] = {
                planned.name: self._make(PluginKind.MODIFIER, planned.name, planned.params)
                for planned in step.modifiers
            }
        return self._modifiers[key]

    # plugins

    def _load_all(self) -> None:
        """Import what the tasks will use, before there are any: later, tasks run in several threads, and imports that
        meet there can fail. What cannot be imported here may be for another pool; if not, the task that needs it says
        so."""
        for kind, name in sorted(used_plugins(self.run_spec.segments), key=str):
            with suppress(Exception):
                self._load(kind, name).warm_up()

    def _make(self, kind: PluginKind, name: str, settings: Mapping[str, Any]) -> Any:  # Any: one of the kind's own type
        with self._loading:
            return registry.make(kind, name, settings)

    def _load(self, kind: PluginKind, name: str) -> registry.Factory:
        with self._loading:
            return registry.load(kind, name)

    # merges

    def _merge(self, work: _Work) -> None:
        segment = work.segment
        bundles = [work.exchange.read(key) for key in work.spec.parts]
        steps = {step.stage: step for step in segment.steps}
        for name, kind in segment.products.items():
            parts = [bundle[name] for bundle in bundles if name in bundle]
            if not parts:
                continue
            stage = maker_of(name)
            with _blamed(steps[stage], None):
                work.products[name] = self._merged(segment, steps[stage], kind, name, parts)

    def _merged(self, segment: Segment, step: Step, kind: str, name: str, parts: Sequence[Any]) -> Any:
        if maker_of(name) != name:
            return [written for part in parts for written in part]
        if segment.scope == "dataset":
            return {dataset: value for part in parts for dataset, value in part.items()}
        own = self._operation(segment, step).merge(parts)
        if own is not None:
            return own
        product: Product = self._load(PluginKind.PRODUCT, kind)()
        return product.merge(parts)


def _observed(calls: Sequence[tuple[Modifier, StageCall]], loop: Operation, events: Events) -> Result:
    """What a loop returns; a modifier that fails says which stages it is around."""
    try:
        return run_modified(calls, loop.run, events)
    except ModifierFailure as failure:
        if len(calls[0][1].stages) > 1:
            failure.around = compiled_together(calls[0][1].stages)
        raise


def _limit(work: _Work, stage: str, modifier: PlannedModifier, seconds: float) -> None:
    if not modifier.limits_time:
        raise ValueError(
            "a modifier that calls `limit` declares `limits_time=True`: a process is then used that can end"
        )
    if not 0 < seconds < math.inf:
        raise ValueError(f"a limit is a number of seconds above zero, not {seconds}")
    work.on_step(stage, TimeLimit(math.ceil(seconds), modifier.name))


def _working_directory() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109  # as above; somebody's code may change it between two chunks
    except OSError:
        return None


class _blamed:  # noqa: N801  # reads as a word in a with statement
    """Turns what a step raises into a failure that names the stage and the partition, or the dataset of several."""

    def __init__(self, step: Step, partition: Partition | None, dataset: str | None = None) -> None:
        self.step, self.partition, self.dataset = step, partition, dataset

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if problem is not None and not isinstance(problem, TaskFailure | Interrupted):
            info = failure_of(problem, stage=self.step.stage, partition=self.partition)
            raise TaskFailure(msgspec.structs.replace(info, dataset=info.dataset or self.dataset)) from problem
