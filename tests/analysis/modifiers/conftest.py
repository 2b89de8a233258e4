"""What modifiers are tried with: the call of a stage, as a worker makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest

from cenote.analysis.modifiers.interface import Modifier, StageCall
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import Events
from cenote.execution.worker.modified import run_modified
from cenote.testing.sample_events import sample_events


class Stage(Operation):
    """Runs a function."""

    does: ClassVar[Callable[[Events], Result]] = Result

    def run(self, events: Events) -> Result:
        """The function."""
        return type(self).does(events)


Around = Callable[..., StageCall]


@pytest.fixture
def around() -> Around:
    """Run a stage inside a modifier; the call then has what the modifier left."""

    def run(modifier: Modifier, does: Callable[[Events], Result] = Result, **known: object) -> StageCall:
        stage = type("Stage", (Stage,), {"does": staticmethod(does)})()
        call = StageCall(**{"modifier": "it", "stage": "Stage", "operation": stage, **known})  # type: ignore[arg-type]
        call.measures = modifier.measures
        run_modified([(modifier, call)], stage.run, sample_events())
        return call

    return run
