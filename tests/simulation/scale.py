"""Measure the engine alone: many tasks, a runtime that answers at once, nothing goes wrong."""

from __future__ import annotations

import time
import tracemalloc
from collections import deque
from dataclasses import dataclass

from builders.plans import a_plan, a_segment
from cenote.engine.machine import Engine
from cenote.engine.messages import AnyEvent, FinishRun, RunStarted, RunTask, TaskDone, TaskStarted, WorkerJoined
from cenote.planning.plan import Plan

POOLS = {"default": 1, "high_memory": 1, "gpu": 1}
SLOTS = 64


@dataclass(frozen=True)
class Measured:
    """What a run of this size costs."""

    status: str
    tasks: int
    events: int
    seconds: float
    """Of processor time."""
    peak_bytes: int
    """Of the engine, the plan left out; 0 where it was not measured (measuring makes it slow)."""


def three_pools(tasks: int) -> Plan:
    """Three segments on three pools, two of them with products, and their merge trees: about this many tasks."""
    segments = [
        a_segment("Index", pools=["high_memory"]),
        a_segment("Infer", needs=["Index"], pools=["gpu"], product=True),
        a_segment("Hist", needs=["Infer"], product=True),
    ]
    return a_plan(partitions=round(tasks / 3.065), segments=segments, pools=POOLS, fan_in=32)


def measure(plan: Plan, *, memory: bool) -> Measured:
    """Run the plan to its end, measuring time, or memory."""
    if memory:
        tracemalloc.start()
    begin = time.process_time()
    engine = Engine(plan)
    inbox: deque[AnyEvent] = deque([RunStarted(at=0.0, run="scale", tasks=len(plan.tasks))])
    inbox.extend(WorkerJoined(at=0.0, worker=pool, pool=pool, slots=SLOTS) for pool in POOLS)
    status, events = "never", 0
    while inbox:
        events += 1
        for command in engine.handle(inbox.popleft()):
            match command:
                case RunTask(task, pool, attempt):
                    inbox.append(TaskStarted(at=0.0, task=task, pool=pool, worker=pool, attempt=attempt))
                    inbox.append(TaskDone(at=0.0, task=task, pool=pool, worker=pool, seconds=1.0, attempt=attempt))
                case FinishRun(status):
                    pass
                case _:
                    pass
    seconds = time.process_time() - begin
    peak = tracemalloc.get_traced_memory()[1] if memory else 0
    if memory:
        tracemalloc.stop()
    return Measured(status, len(plan.tasks), events, seconds, peak)
