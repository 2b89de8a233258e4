"""This file runs one task: the steps of a segment on a partition, or a merge of earlier results."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cenote.engine.messages import StageStats
from cenote.modifiers.interface import Modifier
from cenote.operations.events import Events
from cenote.operations.interface import Operation, Result
from cenote.plan.plan import Partition, Segment, Step
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind
from cenote.products.interface import Product
from cenote.sources.interface import Source
from cenote.worker.envelope import VERSION, Outcome, Piece, Program, TaskEnvelope
from cenote.worker.failure import TaskFailure, failure_of
from cenote.worker.join import one_after_the_other, side_by_side
from cenote.worker.memory import peak_memory, reset_peak_memory
from cenote.worker.skim import write_skim
from cenote.worker.store import Store


@dataclass
class _Work:
    """What one task has found so far."""

    envelope: TaskEnvelope
    segment: Segment
    stats: dict[str, StageStats] = field(default_factory=dict)
    products: dict[str, Any] = field(default_factory=dict)
    events: int = 0
    bytes_out: int = 0


class TaskRunner:
    """Runs the tasks of one program in this process; operations are built and prepared once."""

    def __init__(self, program: Program, *, on_step: Callable[[str, int | None], None] | None = None) -> None:
        if program.version != VERSION:
            raise RuntimeError(f"this worker speaks version {VERSION}, the run speaks {program.version}")
        self.program = program
        self.store = Store(Path(program.store))
        self._on_step = on_step or (lambda _stage, _timeout: None)
        self._operations: dict[tuple[int, str], Operation] = {}
        self._sources: dict[int, Source] = {}
        self._modifiers: dict[tuple[int, str], list[Modifier]] = {}
        for target, kind, name in program.plugins:
            if target.endswith(".py"):
                registry.add_file(Path(target))
            else:
                registry.add_import(target, kind=PluginKind(kind) if kind else None, name=name)

    def run(self, envelope: TaskEnvelope) -> Outcome:
        """Do it and store the result. Never raises: what goes wrong is told in the outcome."""
        reset_peak_memory()
        wall, cpu = time.perf_counter(), time.process_time()
        work = _Work(envelope, self.program.segments[envelope.segment])
        failure = None
        try:
            (self._merge if envelope.kind == "merge" else self._run)(work)
            work.bytes_out += self.store.write(envelope.key, work.products)
        except TaskFailure as problem:
            failure = problem.info
        except Exception as problem:
            failure = failure_of(problem)
        finally:
            self._on_step("", None)
        outcome = Outcome(
            task=envelope.task,
            failure=failure,
            seconds=time.perf_counter() - wall,
            cpu_seconds=time.process_time() - cpu,
            peak_memory=peak_memory(),
            events=work.events,
            bytes_out=work.bytes_out,
            stages=work.stats,
        )
        if failure is not None:
            gc.collect()  # the traceback's frames hold columns
        return outcome

    # one segment

    def _run(self, work: _Work) -> None:
        segment, envelope = work.segment, work.envelope
        given = {stage: self.store.read(key).get(stage) for stage, key in envelope.products}
        if segment.scope == "partition":
            piece = envelope.pieces[0]
            self._steps(work, piece, self._incoming(work, piece), given)
            return
        (step,) = segment.steps
        parts = []
        for piece in envelope.pieces:
            incoming = self._incoming(work, piece)
            parts.append(side_by_side([incoming[name] for name in step.inputs or ("",)]).keep(step.reads))
        events = one_after_the_other(parts, step.reads)
        result = self._call(work, envelope.pieces[0], step, replace(events, products=given))
        dataset = envelope.pieces[0].partition.dataset
        self._keep_product(work, step, {dataset: result.product} if segment.scope == "dataset" else result.product)

    def _incoming(self, work: _Work, piece: Piece) -> dict[str, Events]:
        """Events by the name that steps know them by; `""` is the source."""
        incoming: dict[str, Events] = {}
        for stage, names in piece.imports:
            branches = [self.store.read(name) if name else self._read(work, piece, incoming) for name in names]
            incoming[stage] = side_by_side(branches)
        source = work.segment.source
        if source is not None and piece.partition.dataset in source.columns:
            self._read(work, piece, incoming)
        return incoming

    def _read(self, work: _Work, piece: Piece, incoming: dict[str, Events]) -> Events:
        if "" in incoming:
            return incoming[""]
        step, partition = work.segment.source, piece.partition
        assert step is not None, "the plan lets only segments with a source read"
        if work.segment.index not in self._sources:
            factory = registry.load(PluginKind.SOURCE, step.kind)
            self._sources[work.segment.index] = factory.model_validate(dict(step.settings))
        names = step.columns[partition.dataset]
        in_file = [step.renames.get(name, name) for name in names]
        try:
            columns = self._sources[work.segment.index].read(
                partition.url, list(dict.fromkeys(in_file)), partition.start, partition.stop
            )
        except Exception as problem:
            first = work.segment.steps[0].stage
            raise TaskFailure(failure_of(problem, stage=first, partition=partition, reading=True)) from problem
        work.events += partition.events
        incoming[""] = Events(
            columns={name: columns[there] for name, there in zip(names, in_file, strict=True)},
            size=partition.events,
            dataset=self.program.datasets[partition.dataset],
            datasets=tuple(self.program.datasets),
            constants=self.program.constants,
        )
        return incoming[""]

    def _steps(self, work: _Work, piece: Piece, values: dict[str, Events], given: Mapping[str, Any]) -> None:
        segment = work.segment
        last_use = {name: number for number, step in enumerate(segment.steps) for name in step.inputs or ("",)}
        for number, step in enumerate(segment.steps):
            names = step.inputs or ("",)
            events = side_by_side([values[name] for name in names])
            for name in [name for name in names if last_use[name] == number]:
                del values[name]
            if step.datasets is None or piece.partition.dataset in step.datasets:
                events = self._step(work, piece, step, replace(events, products=given, live=frozenset(step.live)))
            if step.stage in segment.exports:
                leaving = replace(events.keep(segment.exports[step.stage]), products={}, live=None)
                position = list(segment.exports).index(step.stage)
                work.bytes_out += self.store.write(f"{work.envelope.key}-{position}", leaving)
            if step.stage in last_use:
                values[step.stage] = events.keep(step.live)

    def _step(self, work: _Work, piece: Piece, step: Step, events: Events) -> Events:
        result = self._call(work, piece, step, events)
        if step.product is not None:
            self._keep_product(work, step, result.product)
        for number, write in enumerate(step.writes):
            with _blamed(step, piece.partition):
                written = write_skim(write, result.events, self.program.files, piece)
            work.products.setdefault(f"{step.stage}:files", []).append(written)
            if number == 0:
                work.bytes_out += int(written["bytes"])
        return result.events

    def _call(self, work: _Work, piece: Piece, step: Step, events: Events) -> Result:
        self._on_step(step.stage, step.timeout)
        started = time.perf_counter()
        with _blamed(step, piece.partition):
            result = self._run_operation(work.segment, step, events)
        work.stats[step.stage] = StageStats(
            seconds=time.perf_counter() - started, events_in=events.size, events_out=result.events.size
        )
        return result

    def _run_operation(self, segment: Segment, step: Step, events: Events) -> Result:
        run: Callable[[Events], Result] = self._operation(segment, step).run
        for modifier in self._modifiers_of(segment, step):
            run = _around(modifier, run, step.stage, self.program.debug)
        return run(events)

    def _operation(self, segment: Segment, step: Step) -> Operation:
        key = (segment.index, step.stage)
        if key not in self._operations:
            factory = registry.load(PluginKind.OPERATION, step.op)
            operation: Operation = factory.model_validate(dict(step.params)).for_stage(step.stage)
            operation.prepare()
            self._operations[key] = operation
        return self._operations[key]

    def _modifiers_of(self, segment: Segment, step: Step) -> list[Modifier]:
        key = (segment.index, step.stage)
        if key not in self._modifiers:
            self._modifiers[key] = [
                registry.load(PluginKind.MODIFIER, name).model_validate(dict(settings))
                for name, settings in step.modifiers
                if not registry.is_planned(PluginKind.MODIFIER, name)
            ]
        return self._modifiers[key]

    def _keep_product(self, work: _Work, step: Step, product: Any) -> None:
        work.products[step.stage] = product

    # merges

    def _merge(self, work: _Work) -> None:
        segment = work.segment
        bundles = [self.store.read(key) for key in work.envelope.parts]
        steps = {step.stage: step for step in segment.steps}
        for name, kind in segment.products.items():
            parts = [bundle[name] for bundle in bundles if name in bundle]
            if not parts:
                continue
            stage = name.removesuffix(":files")
            with _blamed(steps[stage], None):
                work.products[name] = self._merged(segment, steps[stage], kind, name, parts)

    def _merged(self, segment: Segment, step: Step, kind: str, name: str, parts: Sequence[Any]) -> Any:
        if name.endswith(":files"):
            return [written for part in parts for written in part]
        if segment.scope == "dataset":
            return {dataset: value for part in parts for dataset, value in part.items()}
        own = self._operation(segment, step).merge(parts)
        if own is not None:
            return own
        product: Product = registry.load(PluginKind.PRODUCT, kind)()
        return product.merge(parts)


def _around(modifier: Modifier, run: Callable[[Events], Result], stage: str, folder: str) -> Callable[[Events], Result]:
    return lambda events: modifier.around(run, events, stage=stage, folder=folder)


class _blamed:  # noqa: N801  # reads as a word in a with statement
    """Turns what a step raises into a failure that names the stage and the partition."""

    def __init__(self, step: Step, partition: Partition | None) -> None:
        self.step, self.partition = step, partition

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, Exception) and not isinstance(problem, TaskFailure):
            raise TaskFailure(failure_of(problem, stage=self.step.stage, partition=self.partition)) from problem
