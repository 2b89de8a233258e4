"""The `profile` modifier: what a stage costs in time, CPU and memory, and where in its code."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import NonNegativeInt, PrivateAttr, model_validator

from cenote.analysis.modifiers.interface import FinishedRun, Modifier, Run, StageCall
from cenote.analysis.modifiers.support.measures import Measure
from cenote.analysis.operations.interface import Result
from cenote.analysis.operations.support.events import Events

if TYPE_CHECKING:  # importing it takes 10 ms, and most runs need it not
    from cenote.analysis.modifiers.profile.functions import Tools

USUAL_FUNCTIONS = 20
"""Lines of a table of functions, where `functions: true` asks for one."""


class Profile(Modifier):
    """Measures every call of the stage: wall time, CPU, peak memory and how much memory it asks the system for. That
    costs next to nothing; what the settings add to it slows the stage down. Stages that are compiled into one loop are
    measured as one."""

    example: ClassVar[str] = """
    - id: Slow
      op: custom.slow
      execution: {modifiers: [{name: profile, params: {functions: 30}}]}
    """

    why_not_compiled: ClassVar[str] = ""
    measures: ClassVar[Mapping[str, Measure]] = {
        "seconds": Measure("Time", unit="seconds"),
        "cpu_seconds": Measure("CPU", unit="seconds"),
        "peak_memory": Measure("Peak memory", "most", unit="bytes"),
        "longest": Measure("Longest call", "most", unit="seconds"),
        "process_cpu_seconds": Measure("CPU of all threads", unit="seconds"),
        "page_faults": Measure("Page faults"),
        "blocks": Measure("Python blocks kept"),
        "allocated": Measure("Most allocated", "most", unit="bytes"),
    }

    functions: bool | NonNegativeInt = False
    """Whether to list the functions that take most time, or how many of them: a table of `cProfile` for each process,
    in `debug/modifiers/profile/<stage>`. Code that calls many small functions takes up to twice as long."""
    flame: bool = False
    """Whether to sample the stack of the stage every millisecond with pyinstrument, and to draw a flame graph of all
    processes together, `debug/modifiers/profile/<stage>.svg`. Needs `pip install 'cenote[profile]'`."""
    allocations: bool = False
    """Whether to trace every allocation with `tracemalloc`, and to list the lines of code whose memory is still in use
    when the stage ends. Code that makes many Python objects takes several times as long."""

    _tools: dict[tuple[str, ...], Tools] = PrivateAttr(default_factory=dict)
    """Stages of a call → what was found of them in this process."""

    @model_validator(mode="after")
    def _one_hook(self) -> Self:
        if self.functions and self.flame:
            raise ValueError("'functions' and 'flame' exclude each other: Python has room for one profiler at a time")
        if self.allocations and self.flame:
            raise ValueError("'allocations' and 'flame' exclude each other: the one would measure the other")
        return self

    @property
    def shares_process(self) -> bool:
        """Clocks do; what looks into Python slows down all that runs there."""
        return not (self.functions or self.flame or self.allocations)

    def around(self, run: Run, events: Events, call: StageCall) -> Result:
        """Call the stage, with clocks around it."""
        if self.shares_process:
            return _measured(run, events, call)
        from cenote.analysis.modifiers.profile.functions import Tools

        tools = self._tools.setdefault(call.stages, Tools())
        with ExitStack() as watching:
            if self.allocations:
                watching.enter_context(tools.allocations.around(call))
            if self.functions:
                watching.enter_context(tools.functions.around(call, most=_lines(self.functions)))
            if self.flame:
                watching.enter_context(tools.flames.around(call))
            return _measured(run, events, call)

    def conclude(self, run: FinishedRun) -> None:
        """Draw one flame graph per stage of what all processes sampled."""
        if self.flame:
            from cenote.analysis.modifiers.profile.flames import write_flames

            write_flames(run)


def _lines(functions: bool | int) -> int:
    return USUAL_FUNCTIONS if functions is True else int(functions)


def _measured(run: Run, events: Events, call: StageCall) -> Result:
    if call.memory is not None:
        call.memory.restart()
    faults = _page_faults()
    wall, cpu, process = time.perf_counter(), time.thread_time(), time.process_time()
    result = run(events)
    seconds = time.perf_counter() - wall
    peak = {} if call.memory is None else {"peak_memory": call.memory.read()}
    call.note(
        seconds=seconds,
        longest=seconds,
        cpu_seconds=time.thread_time() - cpu,
        process_cpu_seconds=time.process_time() - process,
        page_faults=_page_faults() - faults,
        **peak,
    )
    return result


def _page_faults() -> int:
    """Of this thread so far, where the system counts them by thread (Linux); each is a page of memory newly given."""
    who = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
    return resource.getrusage(who).ru_minflt
