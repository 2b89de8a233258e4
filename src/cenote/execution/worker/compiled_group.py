"""Keep the steps that are compiled together, and decide when compiling them is worth it."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import Events
from cenote.common.values import dataclass
from cenote.planning.plan import FusedSteps

if TYPE_CHECKING:
    from cenote.execution.worker.compiled_programs import CompiledLoop, CompiledPrograms

WORTH_COMPILING = 200_000
"""Events that a process computes the ordinary way before it compiles: those are done before code is there."""
_CALL = 2_000
"""What each call costs the ordinary way beyond its events, in events."""


@dataclass(frozen=True)
class Ran(Result):
    """What compiled steps did with a partition. Observers see no more of it than of any result, and that is empty."""

    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Stage → events that came in, events that went on. Empty where the steps have to run the ordinary way after all,
    which explains what is wrong with these events."""
    products: Mapping[str, Any] = field(default_factory=dict)
    left: Mapping[str, Events] = field(default_factory=dict)
    """The events of stages that somebody outside needs."""


@dataclass(frozen=True)
class Group:
    """Steps that are compiled together, for one dataset."""

    fused: FusedSteps
    operations: Mapping[str, Operation]
    inputs: Mapping[str, tuple[str, ...]]
    """Stage → where its events come from."""
    leaving: Collection[str]
    """Stages whose events are needed outside of the group."""


class CompiledGroup:
    """Runs a group in compiled form, once that is worth it."""

    worth = WORTH_COMPILING

    def __init__(self, group: Group) -> None:
        self.fused = group.fused
        self._group = group
        self._seen = 0
        self._programs: CompiledPrograms | None = None
        self.is_compiled: bool | None = None
        """Whether the latest partition had a compiled form; None as long as that was not worth it."""
        self._lock = threading.Lock()

    @property
    def stages(self) -> tuple[str, ...]:
        """Those of its steps."""
        return tuple(step.stage for step in self.fused.steps)

    @cached_property
    def adds(self) -> tuple[str, ...]:
        """Columns that its steps add."""
        return tuple(dict.fromkeys(name for step in self.fused.steps for name in step.adds))

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Columns that its steps read and none of them adds."""
        read = dict.fromkeys(name for step in self.fused.steps for name in step.reads)
        return tuple(name for name in read if name not in self.adds)

    def loop(self, events: Events) -> CompiledLoop | None:
        """What runs the steps on events like these; None where they have to run the ordinary way, one after the other:
        these columns have no compiled form, or there is little to do."""
        with self._lock:  # workers with several slots run tasks in threads
            self._seen += events.size + _CALL
            if self._programs is None and self._seen >= self.worth:
                from cenote.execution.worker.compiled_programs import (
                    CompiledPrograms,  # takes 30 ms, and small runs need it not
                )

                self._programs = CompiledPrograms(self._group)
        if self._programs is None or events.resident:
            return None
        loop = self._programs.loop(events)
        self.is_compiled = loop is not None
        return loop
