"""The `profile` modifier: where a stage spends its time, function by function."""

from __future__ import annotations

import cProfile
import io
import os
import pstats
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import PositiveInt

from cenote.modifiers.interface import Modifier
from cenote.operations.interface import Result
from cenote.operations.support.events import Events


class Profile(Modifier):
    """Writes a profile of every call of the stage to `debug/profile/<stage>-<process>.txt` of the run."""

    example: ClassVar[str] = """
    - id: Slow
      op: custom.slow
      execution: {modifiers: [profile]}
    """

    top: PositiveInt = 20
    """How many functions to list."""
    sort: Literal["cumulative", "time", "calls"] = "cumulative"
    """By what to order them."""

    def around(self, run: Callable[[Events], Result], events: Events, *, stage: str, folder: str) -> Result:
        """Call the stage under the profiler."""
        profiler = cProfile.Profile()
        result = profiler.runcall(run, events)
        text = io.StringIO()
        pstats.Stats(profiler, stream=text).sort_stats(self.sort).print_stats(self.top)
        target = Path(folder) / "profile"
        target.mkdir(parents=True, exist_ok=True)
        with (target / f"{stage}-{os.getpid()}.txt").open("a", encoding="utf-8") as file:
            file.write(f"{events.dataset.name}: {events.size} events\n{text.getvalue()}\n")
        return result
