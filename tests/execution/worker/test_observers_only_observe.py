"""What an observer does to a product, or to anything that comes with the events, stays with the observer."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from cenote.analysis.modifiers.interface import Modifier, Run, StageCall
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.execution.worker.modified import run_modified
from cenote.testing.sample_events import sample_events


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


class _Scribbling(Modifier):
    """Changes in place whatever comes with the events, before and after the stage."""

    def around(self, run: Run, events: Events, call: StageCall) -> Result:  # noqa: ARG002
        _scribble(events)
        result = run(events)
        _scribble(result.events)
        return result


def _scribble(events: Events) -> None:
    known: list[Any] = [events.products, events.constants, events.dataset.metadata]
    for mapping in known:
        mapping["of a list"].append(0)
        with suppress(TypeError):
            mapping["of a list"] = None
    with suppress(ValueError):
        events.index[:] = 0  # type: ignore[index]  # the test gives one


def test_what_comes_with_the_events_goes_on_as_it_was() -> None:
    told = {"of a list": [1, 2]}
    events = replace(
        sample_events(),
        products=told,
        constants=told,
        dataset=DatasetInfo("one", metadata=told),
        index=np.arange(60),
    )
    stage = _Counting()
    result = run_modified([(_Scribbling(), StageCall("scribbling", "Stage", stage))], stage.run, events)
    assert told == {"of a list": [1, 2]}
    assert (result.events.index == np.arange(60)).all()
