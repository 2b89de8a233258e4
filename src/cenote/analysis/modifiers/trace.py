"""The `trace` modifier: one file that shows when every task and stage ran, for Perfetto and Chrome."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any, ClassVar

from cenote.analysis.modifiers.interface import FinishedRun, Modifier, RanTask, Run, StageCall
from cenote.analysis.modifiers.support.measures import Measure, Value
from cenote.analysis.operations.interface import Result
from cenote.analysis.operations.support.events import Events
from cenote.common.text import compiled_together

FILE = "trace.json"

_Entry = dict[str, Any]  # an event of the format, plain data for JSON


class Trace(Modifier):
    """Writes `debug/modifiers/trace/trace.json` when the run is over: every task as a span on the slot of its worker,
    grouped by pool, with the traced stages inside it. Stages that are compiled into one loop are one span, which names
    them. Open it at ui.perfetto.dev or chrome://tracing. What is before the first stage of a task is reading."""

    example: ClassVar[str] = """
    - id: Slow
      op: custom.slow
      execution: {modifiers: [trace]}
    """

    why_not_compiled: ClassVar[str] = ""
    measures: ClassVar[Mapping[str, Measure]] = {
        "seconds": Measure("Time", unit="seconds"),
        "events": Measure("Events"),
        "start": Measure("Earliest start in a task", "least", unit="seconds"),
    }

    @property
    def shares_process(self) -> bool:
        """It only looks at the clock."""
        return True

    def around(self, run: Run, events: Events, call: StageCall) -> Result:
        """Call the stage, and note when."""
        start = call.seconds()
        result = run(events)
        call.note(start=start, seconds=call.seconds() - start, events=events.size)
        return result

    def conclude(self, run: FinishedRun) -> None:
        """Write the file."""
        entries = list(chrome_trace(run.tasks()))
        whole = {"displayTimeUnit": "ms", "otherData": {"run": run.name}, "traceEvents": entries}
        run.write(FILE, json.dumps(whole, separators=(",", ":")))


def chrome_trace(tasks: Iterable[RanTask]) -> Iterator[_Entry]:
    """Entries of Chrome's trace format: pools are its processes, slots of workers its threads, times microseconds.
    Within a slot nothing overlaps, and stages lie within their task, however coarse the clocks were."""
    pools: dict[str, int] = {}
    lanes: dict[tuple[str, str, int], int] = {}
    free: dict[tuple[str, str, int], float] = {}
    numbers = count(1)
    for task in tasks:
        if task.pool not in pools:
            pools[task.pool] = len(pools) + 1
            yield _named("process_name", f"pool {task.pool}", pools[task.pool], 0)
        lane = task.pool, task.worker, task.slot
        if lane not in lanes:
            lanes[lane] = next(numbers)
            words = task.worker + (f", slot {task.slot + 1}" if task.slot else "")
            yield _named("thread_name", words, pools[task.pool], lanes[lane])
        begin = max(task.start, free.get(lane, 0.0), 0.0)
        end = max(task.end, begin)
        free[lane] = end
        place = {"pid": pools[task.pool], "tid": lanes[lane]}
        yield _task(task, begin, end) | place
        for entry in _stages(task, begin, end):
            yield entry | place


def _named(what: str, name: str, pool: int, lane: int) -> _Entry:
    return {"ph": "M", "name": what, "pid": pool, "tid": lane, "args": {"name": name}}


def _span(name: str, kind: str, begin: float, end: float, about: Mapping[str, Value]) -> _Entry:
    start, stop = round(begin * 1e6), round(end * 1e6)
    return {"ph": "X", "name": name, "cat": kind, "ts": start, "dur": stop - start, "args": dict(about)}


def _task(task: RanTask, begin: float, end: float) -> _Entry:
    about: dict[str, Value] = {"partition": task.partition} if task.partition else {}
    if task.failure is None:
        return _span(task.name, "task", begin, end, about | {"events": task.events, "bytes read": task.bytes_read})
    failed = _span(f"failed: {task.name}", "failed", begin, end, about | {"failure": task.failure})
    return failed | {"cname": "terrible"}


def _stages(task: RanTask, begin: float, end: float) -> Iterator[_Entry]:
    """Side by side; of a partition that was taken in pieces, those of one stage as one span."""
    here = begin
    calls = [((stage,), noted) for stage, noted in task.stages.items()] + list(task.groups.items())
    for stages, noted in sorted(calls, key=lambda one: _number(one[1], "start")):
        start = min(max(here, task.start + _number(noted, "start")), end)
        here = min(start + _number(noted, "seconds"), end)
        about: dict[str, Value] = {"events": noted.get("events", 0)}
        if len(stages) == 1:
            yield _span(stages[0], "stage", start, here, about)
        else:
            yield _span(compiled_together(stages), "stage", start, here, about | {"stages": ", ".join(stages)})


def _number(noted: Mapping[str, Value], name: str) -> float:
    value = noted.get(name, 0)
    return 0.0 if isinstance(value, str) else float(value)
