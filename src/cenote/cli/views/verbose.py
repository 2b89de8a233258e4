"""Word what `--verbose` adds, and what a dry run would do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import click
from rich.text import Text

from cenote.api import Analysis, Preview
from cenote.cli.console import output, print_lines
from cenote.cli.views.measured import call_lines
from cenote.cli.views.problems import show_warnings
from cenote.cli.views.tables.plan import show_plan, titled, written_stages
from cenote.common.text import clock_time, compiled_together, first_to_last, plural
from cenote.common.units import format_bytes, format_seconds
from cenote.engine import messages
from cenote.engine.tasks import tasks_in
from cenote.execution.runs.changed.code import causes_in_words
from cenote.execution.runs.view.pool_words import pool_word
from cenote.execution.runtime.demand import SparedStage
from cenote.planning.plan import MERGE, Plan
from cenote.planning.record import PlanRecord, as_json

EVERYTHING = 2
"""The level of `-vv`."""


def layer_lines(analysis: Analysis) -> Iterator[str]:
    """The files that the workflow was put together from."""
    for layer, file in analysis.layers:
        yield f"read {file}" + ("" if file.endswith(layer) else f" ({layer})")


def dataset_lines(plan: Plan, *, level: int) -> Iterator[str]:
    """The files of each dataset: the first and the last, or all of them."""
    files: dict[str, dict[str, None]] = {}
    for partition in plan.partitions:
        files.setdefault(partition.dataset, {})[partition.url] = None
    for dataset, urls in files.items():
        shown = list(urls) if level >= EVERYTHING else _ends(list(urls))
        yield f"dataset '{dataset}': {plural(len(urls), 'file')}, {', '.join(shown)}"


def _ends(names: list[str]) -> list[str]:
    return names if len(names) <= 2 else [first_to_last(names)]


class EventLines:
    """Words for the events of one run, with the time since it started."""

    def __init__(self, level: int) -> None:
        self._level = level
        self._started = 0.0

    def __call__(self, plan: Plan, event: messages.AnyEvent) -> Iterator[str]:
        """A line, or none where the event is not news at this level."""
        if isinstance(event, messages.RunStarted):
            self._started = event.at
        for words in self._words(plan, event):
            yield f"{format_seconds(max(0.0, event.at - self._started)):>8}  {words}"

    def _words(self, plan: Plan, event: messages.AnyEvent) -> Iterable[str]:
        everything = self._level >= EVERYTHING
        match event:
            case messages.TaskStarted():
                return [f"{_task(plan, event.task)} starts on {event.worker}: {task_in_words(plan, event.task)}"]
            case messages.TaskDone():
                return [_done(plan, event), *(_stages(plan, event) if everything else ())]
            case messages.TaskFailed():
                where = event.worker or f"pool '{event.pool}'"
                return [f"{_task(plan, event.task)} failed on {where}: {_first_line(event.failure.message)}"]
            case messages.TaskGivenUp():
                return [f"{_task(plan, event.task)} failed for good: {_first_line(event.failure.message)}"]
            case messages.TaskReused():
                words = f"{_task(plan, event.task)} is reused: {task_in_words(plan, event.task)}"
                return [words] if everything else []
            case messages.TasksNotNeeded():
                return [f"{_tasks(event)} not needed: what would read them is reused"] if everything else []
            case messages.TasksAbandoned():
                return [f"{_tasks(event)} abandoned: {event.reason}"]
            case messages.TaskSplit():
                return [f"{_task(plan, event.task)} is split into {event.pieces} pieces: {event.reason}"]
            case messages.ResultLost():
                return [f"the result of {_task(plan, event.task)} was lost with its worker and is recomputed"]
            case messages.ResultNotNeeded():
                return [f"the lost result of {_task(plan, event.task)} is no longer needed"]
            case messages.WorkerRequested():
                job = f" (job {event.job})" if event.job else ""
                return [f"worker {event.worker} of pool '{event.pool}' is requested{job}"]
            case messages.JobChanged():
                said = " ".join(filter(None, (event.native, event.reason and f"({event.reason})")))
                return [f"job {event.job} of worker {event.worker} is {event.state}: {said}"] if everything else []
            case messages.WorkerJoined():
                return [f"worker {event.worker} joins pool '{event.pool}' with {plural(event.slots, 'slot')}"]
            case messages.WorkerSilent():
                silent = format_seconds(event.seconds)
                return [f"worker {event.worker} of pool '{event.pool}' has not answered for {silent}"]
            case messages.WorkerAnswers():
                return [f"worker {event.worker} of pool '{event.pool}' answers again"]
            case messages.WorkerLeaving():
                return [f"worker {event.worker} of pool '{event.pool}' takes no more tasks: {event.reason}"]
            case messages.WorkerLost():
                return [f"worker {event.worker} of pool '{event.pool}' is gone: {event.reason}"]
            case messages.PoolChanged():
                reason = f": {event.reason}" if event.reason else ""
                return [f"pool '{event.pool}' is {event.state.value} ({pool_word(event.state.value).meaning}){reason}"]
            case messages.FellBack():
                tasks = plural(event.tasks, "task")
                return [f"{event.stage}: {tasks} moved from '{event.from_pool}' to '{event.to_pool}': {event.reason}"]
            case messages.CredentialRenewed():
                ends = "" if event.ends is None else f"; it ends {clock_time(event.ends, now=event.at)}"
                return [f"workers get a new credential '{event.credential}'{ends}"]
            case messages.PoolHeld():
                return [] if event.reason else [f"tasks of pool '{event.pool}' wait no longer"]
            case messages.CancelAsked():
                return [f"the run is ending: {event.reason}"]
            case messages.RunStarted():
                return [f"run {event.run} starts with {plural(event.tasks, 'task')}"]
            case _:
                return []  # the progress and the outcome tell


def _tasks(event: messages.TasksNotNeeded | messages.TasksAbandoned) -> str:
    count = sum(1 for _ in tasks_in(event.tasks))
    return f"{plural(count, 'task')} {'is' if count == 1 else 'are'}"


def _task(plan: Plan, task: int) -> str:
    return f"{'merge' if plan.tasks.kind[task] == MERGE else 'task'} {task}"


def task_in_words(plan: Plan, task: int) -> str:
    """`GoodMuons … DimuonPt on dy, data/dy_0.root, events 0 to 60,000`."""
    named = first_to_last(plan.stages_of(task))
    if plan.tasks.kind[task] == MERGE:
        return named
    segment, place = plan.segments[int(plan.tasks.segment[task])], int(plan.tasks.partition[task])
    if segment.scope == "run":
        return f"{named} on all data"
    if segment.scope == "dataset":
        return f"{named} on {plan.datasets[place].own_name}"
    partition = plan.partitions[place]
    return f"{named} on {partition.dataset}, {partition.url}, events {partition.start:,} to {partition.stop:,}"


def _done(plan: Plan, event: messages.TaskDone) -> str:
    parts = [f"{event.events:,} events"] if event.events else []
    parts += [f"read {format_bytes(event.bytes_read)}"] if event.bytes_read else []
    parts += [f"{format_bytes(event.peak_memory)} of memory"] if event.peak_memory else []
    told = f": {', '.join(parts)}" if parts else ""
    return f"{_task(plan, event.task)} done on {event.worker} in {format_seconds(event.seconds)}{told}"


def _stages(plan: Plan, event: messages.TaskDone) -> Iterator[str]:
    planned = {stage.stage: stage for stage in plan.stages} if event.stages else {}
    for stage, stats in event.stages.items():
        yield f"    {stage}: {format_seconds(stats.seconds)}, {stats.events_in:,} events in, {stats.events_out:,} out"
        if stats.modifiers and stage in planned:
            yield from (f"        {line}" for line in call_lines(planned[stage], stats.modifiers))
    for group in event.groups:
        if group.stages[0] in planned:
            yield f"    {compiled_together(group.stages)}:"
            yield from (f"        {line}" for line in call_lines(planned[group.stages[0]], group.modifiers))


def _first_line(message: str) -> str:
    return message.partition("\n")[0]


# Tell what a run would do: the plan, and which of its tasks would run or be reused.


def tell_preview(preview: Preview, *, verbose: int, as_json: bool) -> None:
    """On stdout; warnings on stderr."""
    if as_json:
        click.echo(json.dumps(preview_as_json(preview), indent=2, ensure_ascii=False))
        return
    console = output()
    show_plan(preview.plan, console)
    print_lines(console, dataset_lines(preview.plan, level=verbose) if verbose else ())
    print_lines(console, preview_lines(preview))
    show_warnings(preview.plan.warnings)


def preview_lines(preview: Preview) -> Iterator[Text]:
    """How many tasks would run, stage by stage where some would be reused, and why."""
    tasks, reused = len(preview.plan.tasks), len(preview.reused)
    kept = f", {reused:,} would be reused" if reused else ""
    yield titled("dry run", f"{plural(tasks - reused, 'task')} would run{kept}; the run would go to {preview.folder}")
    stages = preview.stages() if reused or preview.why else {}
    written = {one.stage for one in written_stages(preview.plan)}
    causes = causes_in_words([row for row in preview.why if row.stage in written])
    for stage in (one for one in stages if one in written):
        all_of_it, kept_of_it = stages[stage]
        why = f": {causes[stage]}" if stage in causes else ""
        yield titled("", f"{stage}: {all_of_it - kept_of_it:,} of {plural(all_of_it, 'task')} would run{why}")
    for position, row in enumerate(one for one in preview.spared if one.stage in written):
        yield titled("" if position else "kept", spared_in_words(row))


def spared_in_words(row: SparedStage) -> str:
    """`Slow: its columns are kept, 3.2 MB instead of 12 s`."""
    costs = f", {format_bytes(row.bytes)} instead of {format_seconds(row.seconds)}" if row.bytes else ""
    kept = "its columns are kept" if row.what == "columns" else "the events that leave it are kept"
    return f"{row.stage}: {kept} for {plural(row.tasks, 'task')}{costs}"


def preview_as_json(preview: Preview) -> dict[str, Any]:
    """What `--dry-run --json` prints."""
    stages = [{"id": stage, "tasks": tasks, "reused": reused} for stage, (tasks, reused) in preview.stages().items()]
    return {
        "out": str(preview.folder),
        "tasks": len(preview.plan.tasks),
        "reused": len(preview.reused),
        "stages": stages,
        "why": [as_json(row) for row in preview.why],
        "spared": [vars(row) for row in preview.spared],
        "plan": as_json(PlanRecord.of(preview.plan)),
    }
