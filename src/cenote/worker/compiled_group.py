"""Keep the steps that are compiled together, and decide when compiling them is worth it."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from cenote.operations.interface import Operation
from cenote.operations.support.events import Events
from cenote.plan.plan import FusedSteps
from cenote.values import dataclass

if TYPE_CHECKING:
    from cenote.worker.compiled_programs import CompiledPrograms

WORTH_COMPILING = 200_000
"""Events that a process computes the ordinary way before it compiles: those are done before code is there."""
_CALL = 2_000
"""What each call costs the ordinary way beyond its events, in events."""


@dataclass(frozen=True)
class Ran:
    """What compiled steps did with a partition."""

    counts: Mapping[str, tuple[int, int]]
    """Stage → events that came in, events that went on."""
    products: Mapping[str, Any]
    events: Mapping[str, Events]
    """Of the stages whose events somebody outside needs."""


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
        """Whether the latest partition was computed so; None as long as that was not worth it."""
        self._lock = threading.Lock()

    def run(self, events: Events) -> Ran | None:
        """What the steps do; None where they have to run the ordinary way, one after the other: these columns have no
        compiled form, there is little to do, or something is wrong that the ordinary way explains."""
        with self._lock:  # workers with several slots run tasks in threads
            self._seen += events.size + _CALL
            if self._programs is None and self._seen >= self.worth:
                from cenote.worker.compiled_programs import CompiledPrograms  # takes 30 ms, and small runs need it not

                self._programs = CompiledPrograms(self._group)
        if self._programs is None or events.resident:
            return None
        ran = self._programs.run(events)
        self.is_compiled = ran is not None
        return ran
