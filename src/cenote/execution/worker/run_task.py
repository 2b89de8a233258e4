"""Run one task: the steps of a segment on a partition, or a merge of earlier results."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from cenote.analysis.modifiers.support.measures import Measured
from cenote.analysis.operations.interface import Result
from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.common.signals import Interrupted
from cenote.engine.messages import FailureInfo, GroupStats, StageStats
from cenote.execution.worker.compiled_group import CompiledGroup, Ran
from cenote.execution.worker.failure import TaskFailure, blamed, failure_of
from cenote.execution.worker.incoming import ForLater, IncomingEvents
from cenote.execution.worker.join import one_after_the_other, put_together, side_by_side
from cenote.execution.worker.modified import ModifierCalls, observed, run_modified
from cenote.execution.worker.process.memory import TaskMemory
from cenote.execution.worker.results.bundle import Collected, Exchange, packed
from cenote.execution.worker.results.skim import write_skim
from cenote.execution.worker.results.store import DamagedResultError, Store, is_worth_waiting
from cenote.execution.worker.results.written_files import WrittenFiles
from cenote.execution.worker.run_plugins import RunPlugins
from cenote.execution.worker.task_spec import VERSION, Outcome, Piece, RunSpec, TaskSpec, TimeLimit
from cenote.execution.worker.task_work import OnStep, TaskWork
from cenote.planning.plan import Segment, Step, end_of, maker_of, skims_of

ALL_DATASETS = DatasetInfo(name="all", eventtype="")
"""What a stage of scope run sees: its events come from every dataset."""


class TaskRunner:
    """Runs the tasks of one run in this process."""

    def __init__(self, run_spec: RunSpec) -> None:
        if run_spec.version != VERSION:
            raise RuntimeError(f"this worker uses protocol version {VERSION}, the run uses {run_spec.version}")
        self.run_spec = run_spec
        self.store = Store(Path(run_spec.store), run_spec.key or None)
        self.written = WrittenFiles(Path(run_spec.store))
        self.plugins = RunPlugins(run_spec)
        self._for_later = ForLater(self.store.path)
        self.incoming = IncomingEvents(run_spec, self.plugins, self._for_later)
        self._calls = ModifierCalls(self.plugins)

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
        segment = self.plugins.segment_of(spec)
        on_step = on_step or (lambda _stage, _limit: None)
        work = TaskWork(spec, segment, exchange or self.store, on_step, memory, began=wall)
        failure = None
        try:
            (self._merge if spec.kind == "merge" else self._run)(work)
            wait = is_worth_waiting(spec.kind, time.perf_counter() - wall)
            work.products = {name: work.products[name] for name in work.products if name in spec.wanted}
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
            kept=work.kept_for_later,
        )
        if failure is not None:
            gc.collect()  # the traceback's frames hold columns
        return outcome

    # one segment

    def _run(self, work: TaskWork) -> None:
        segment, spec = work.segment, work.spec
        given = self._given(work)
        if segment.scope == "partition":
            if spec.split > 1:
                self._run_in_pieces(work, given)
            else:
                self._steps(work, spec.pieces[0], self.incoming.of(work, spec.pieces[0]), given)
            return
        (step,) = segment.steps
        parts = []
        for piece in spec.pieces:
            incoming = self.incoming.of(work, piece)
            parts.append(side_by_side([incoming[name] for name in step.inputs or ("",)]).keep(step.reads))
        events = one_after_the_other(parts, step.reads)
        if segment.scope == "run":
            events = replace(events, dataset=ALL_DATASETS)
        result = self._call(work, spec.pieces[0], step, replace(events, products=given))
        dataset = spec.pieces[0].partition.dataset
        work.products[step.stage] = {dataset: result.product} if segment.scope == "dataset" else result.product
        work.products[end_of(step.stage)] = True

    def _given(self, work: TaskWork) -> dict[str, Any]:
        """Products of earlier stages; of one with a product per dataset, that of this dataset, or for a run all."""
        per_dataset = {
            s.stage for segment in self.run_spec.segments if segment.scope == "dataset" for s in segment.steps
        }
        given: dict[str, Any] = {}
        for stage, key in work.spec.products:
            bundle = work.exchange.read(key)
            if stage not in bundle:  # one task may have two: of this run, and of an earlier one
                continue
            product = bundle[stage]
            if stage not in per_dataset:
                given[stage] = product
            elif work.segment.scope == "run":
                given.setdefault(stage, {}).update(product)
            else:
                (given[stage],) = product.values()
        return given

    def _run_in_pieces(self, work: TaskWork, given: Mapping[str, Any]) -> None:
        """One piece of the partition after the other: slower, and with less memory."""
        whole = work.spec.pieces[0]
        cuts = [whole.partition.events * n // work.spec.split for n in range(work.spec.split + 1)]
        done: list[tuple[TaskWork, Collected]] = []
        for rows in pairwise(cuts):
            collected = Collected(work.exchange)
            part = work.for_piece(collected)
            piece = replace(whole, rows=rows)
            self._steps(part, piece, self.incoming.of(part, piece), given)
            done.append((part, collected))
        for name, (step, kind) in work.segment.makers.items():
            parts = [part.products[name] for part, _ in done if name in part.products]
            if parts:
                work.products[name] = self._merged(work.segment, step, kind, name, parts)
        work.products.update(
            {name: True for name in done[0][0].products if name in work.spec.wanted and name == end_of(maker_of(name))}
        )
        for name in done[0][1].written:
            together = put_together([collected.written[name].unpacked() for _, collected in done])
            work.bytes_out += work.exchange.write(name, packed(together))
        work.add(part for part, _ in done)

    def _steps(self, work: TaskWork, piece: Piece, values: dict[str, Events], given: Mapping[str, Any]) -> None:
        segment = work.segment
        inputs = segment.inputs_for(piece.partition.dataset)
        last_use = {name: stage for stage, names in inputs.items() for name in names}
        groups = {group.fused.steps[0].stage: group for group in self.plugins.groups(segment, piece.partition.dataset)}
        compiled: dict[str, Result] = {}
        for step in segment.steps:
            if step.stage not in inputs:
                continue
            names = inputs[step.stage]
            if step.stage in groups:
                compiled |= self._compiled(work, piece, groups[step.stage], values)
            ready = compiled.pop(step.stage, None)
            events = side_by_side([values[name] for name in names]) if ready is None and names else None
            for name in [name for name in names if last_use[name] == step.stage]:
                values.pop(name, None)  # what only compiled steps passed on is not there
            if step.given:
                ready = Result(self._for_later.given(work, piece, step, events, self.incoming.bare(piece)))
            if ready is None:
                assert events is not None, "what is not given takes events"
                seen = {stage: given[stage] for stage in step.needs_products if stage in given}
                events = replace(events, products=seen, live=frozenset(step.live))
                ready = self._call(work, piece, step, events)
                self._for_later.keep_columns(work, step, events, ready.events)
            self._finish(work, piece, step, ready)
            if step.stage in last_use:
                values[step.stage] = ready.events.keep(step.live)

    def _finish(self, work: TaskWork, piece: Piece, step: Step, result: Result) -> None:
        """Keep the product of a step, and write its events to where somebody waits for them."""
        exports, leaving = work.segment.exports, work.spec.leaving
        standing_in = bool(self.run_spec.datasets[piece.partition.dataset].stands_in)
        if step.product is not None and not (standing_in and step.fillings is None):
            self._keep(work, step, result.product)
        if end_of(step.stage) in work.spec.wanted:
            work.products[end_of(step.stage)] = True
        if step.stage in leaving:
            events = replace(result.events.keep(exports[step.stage]), products={}, live=None)
            work.bytes_out += work.exchange.write(leaving[step.stage], packed(events))
            self._for_later.keep_events(work, step, events)
        for number, write in enumerate(() if standing_in else step.writes):
            with blamed(step, piece.partition):
                note = partial(self.written.note, skims_of(step.stage))
                written = write_skim(write, result.events, self.run_spec.files, piece, note)
            work.products.setdefault(skims_of(step.stage), []).append(written)
            if number == 0:
                work.bytes_out += int(written["bytes"])

    def _keep(self, work: TaskWork, step: Step, product: Any) -> None:
        """Keep a product; that of a variation is added to the nominal one."""
        name = step.product_name
        if name in work.products:
            with blamed(step, None):
                parts = [work.products[name], product]
                product = self._merged(work.segment, step, str(step.product), name, parts)
        work.products[name] = product

    def _compiled(
        self, work: TaskWork, piece: Piece, group: CompiledGroup, values: Mapping[str, Events]
    ) -> dict[str, Result]:
        """What the steps of a group give, if this partition can be computed so: stage → its result, with events where
        somebody outside of the group needs them. Their time is shared out by the events that each saw."""
        work.on_step(group.stages[0], None)
        started = time.perf_counter()
        events = side_by_side([values[name] for name in group.fused.inputs])
        loop = group.loop(events)
        if loop is None:
            return {}
        calls = self._calls.around_group(work, piece, group, loop)
        with blamed(group.fused.steps[0], piece.partition):
            ran = observed(calls, loop, events)
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
        segment = self.plugins.segment_of(spec)
        if segment.scope != "partition" or not self.incoming.frees_lock(spec):
            return False
        compiled = [one.is_compiled for one in self.plugins.groups(segment, spec.pieces[0].partition.dataset)]
        if False in compiled:
            return False
        return None if None in compiled else True

    def _call(self, work: TaskWork, piece: Piece, step: Step, events: Events) -> Result:
        work.on_step(step.stage, None if step.timeout is None else TimeLimit(step.timeout))
        started = time.perf_counter()
        measured: dict[str, Measured] = {}
        whole = work.segment.scope == "partition"
        dataset = piece.partition.dataset if work.segment.scope != "run" else None
        with blamed(step, piece.partition if whole else None, dataset):
            operation = self.plugins.operation(work.segment, step, piece.partition.dataset)
            if step.modifiers:
                calls = self._calls.around(work, piece, step, operation)
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

    # merges

    def _merge(self, work: TaskWork) -> None:
        segment = work.segment
        bundles = [work.exchange.read(key) for key in work.spec.parts]
        for name in sorted(work.spec.wanted, key=list(segment.merged).index):
            step, kind = segment.makers[name]
            parts = [bundle[name] for bundle in bundles if name in bundle]
            if parts:
                with blamed(step, None):
                    work.products[name] = self._merged(segment, step, kind, name, parts)

    def _merged(self, segment: Segment, step: Step, kind: str, name: str, parts: Sequence[Any]) -> Any:
        if maker_of(name) != name:
            return [written for part in parts for written in part]
        if segment.scope == "dataset":
            return {dataset: value for part in parts for dataset, value in part.items()}
        own = self.plugins.operation(segment, step).merge(parts)
        if own is not None:
            return own
        return self.plugins.product(kind).merge(parts)
