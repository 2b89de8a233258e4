"""What an observer does to a product stays with the observer."""

from __future__ import annotations

from typing import Any

from cenote.modifiers.interface import Modifier, Run, StageCall
from cenote.operations.interface import Operation, Result
from cenote.operations.support.events import Events
from cenote.testing.sample_events import sample_events
from cenote.worker.modified import run_modified


class _Counting(Operation):
    """Makes a product that can be changed in place."""

    def run(self, events: Events) -> Result:
        return Result(events, product={"events": [events.size]})


class _Meddling(Modifier):
    """Changes the product that it was shown."""

    def around(self, run: Run, events: Events, call: StageCall) -> Result:  # noqa: ARG002
        result = run(events)
        product: Any = result.product
        product["events"].append(0)
        assert result.product["events"] == [events.size, 0]  # type: ignore[index]  # what it sees is one thing
        return result


def test_a_product_goes_on_as_the_stage_made_it() -> None:
    stage = _Counting()
    call = StageCall("meddling", "Stage", stage)
    result = run_modified([(_Meddling(), call), (_Meddling(), call)], stage.run, sample_events())
    assert result.product == {"events": [60]}
