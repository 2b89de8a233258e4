"""Run stages the ordinary way and compiled, and compare what comes out to the last bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import awkward as ak
import numpy as np

from cenote.analysis.expressions.arrays import leaf_type, lists_of
from cenote.analysis.operations.interface import Operation
from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.analysis.products.support.fill_sums import sums_of
from cenote.execution.worker.compiled_group import CompiledGroup, Group, Ran
from cenote.execution.worker.join import side_by_side
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.planning.plan import FusedSteps, Step


@dataclass(frozen=True)
class Stage:
    """A stage of a test."""

    id: str
    op: str
    params: Mapping[str, Any]
    inputs: tuple[str, ...] = ("",)

    def operation(self, columns: Sequence[str]) -> Operation:
        """Its operation, for columns."""
        made: Operation = registry.make(PluginKind.OPERATION, self.op, dict(self.params)).for_stage(self.id)
        return made.resolve(columns)


class _AtOnce(CompiledGroup):
    worth = 0


def events_of(columns: Mapping[str, Any], **more: Any) -> Events:
    """Events of a dataset `mc`, one of two."""
    size = len(next(iter(columns.values())))
    dataset = DatasetInfo("mc", "mc", metadata={"xsec": 2.5})
    return Events(columns, size, dataset, datasets=("data", "mc"), constants={"k": 3, "h": 0.1}, **more)


def ordinary(stages: Sequence[Stage], events: Events) -> Ran:
    """What stages do one after the other."""
    known, products, counts = {"": events}, {}, {}
    for stage in stages:
        came = side_by_side([known[name] for name in stage.inputs])
        result = stage.operation(came.names).run(came)
        known[stage.id] = result.events
        counts[stage.id] = came.size, result.events.size
        if result.product is not None:
            products[stage.id] = result.product
    return Ran(events, None, counts, products, {stage.id: known[stage.id] for stage in stages})


def compiled(stages: Sequence[Stage], events: Events, *, leaving: Sequence[str] | None = None) -> Ran | None:
    """The same in compiled form; None where these columns have none. The events of `leaving` (all) are needed."""
    names: dict[str, list[str]] = {"": list(events.names)}
    steps, operations = [], {}
    for stage in stages:
        there = list(dict.fromkeys(name for one in stage.inputs for name in names[one]))
        operations[stage.id] = stage.operation(there)
        kept = operations[stage.id].keeps()
        names[stage.id] = [name for name in [*there, *operations[stage.id].adds()] if kept is None or name in kept]
        steps.append(Step(stage.id, stage.op, {}, stage.inputs, tuple(names[stage.id]), not_compiled=""))
    wanted = [stage.id for stage in stages] if leaving is None else leaving
    inputs = {stage.id: stage.inputs for stage in stages}
    group = Group(FusedSteps(("",), tuple(steps)), operations, inputs, wanted)
    loop = _AtOnce(group).loop(events)
    ran = None if loop is None else loop.run(events)
    return ran if ran is not None and ran.counts else None


def assert_same(found: Ran, expected: Ran) -> None:
    """Counts, products and columns are equal to the last bit."""
    assert found.counts == expected.counts
    assert found.products.keys() == expected.products.keys()
    for stage, product in expected.products.items():
        assert_same_product(found.products[stage], product)
    for stage, events in found.left.items():
        assert_same_events(events, expected.left[stage])


def assert_same_product(found: Any, expected: Any) -> None:
    """A histogram or a cutflow."""
    if not hasattr(expected, "axes"):
        assert found == expected
        return
    assert found.axes == expected.axes
    assert found.storage_type == expected.storage_type
    assert found.view(flow=True).tobytes() == expected.view(flow=True).tobytes()
    sums, wanted = sums_of(found), sums_of(expected)
    assert (sums is None) == (wanted is None)
    if sums is not None and wanted is not None:
        assert sums.view(np.int64).tolist() == wanted.view(np.int64).tolist()


def assert_same_events(found: Events, expected: Events) -> None:
    """The same events, with the same columns."""
    assert found.names == expected.names
    assert found.size == expected.size
    rows, wanted = (np.arange(one.size) if one.index is None else one.index for one in (found, expected))
    np.testing.assert_array_equal(rows, wanted)
    for name in expected.names:
        assert_same_column(found.columns[name], expected.columns[name])


def assert_same_column(found: Any, expected: Any) -> None:
    """Lengths, types and bits; NaN has many patterns, which mean the same."""
    assert leaf_type(found) == leaf_type(expected)
    if isinstance(expected, ak.Array) and expected.ndim > 1:
        one, other = lists_of(found), lists_of(expected)
        np.testing.assert_array_equal(one.counts, other.counts)
        found, expected = one.content, other.content
    if isinstance(expected, ak.Array):
        assert found.tolist() == expected.tolist()
        return
    np.testing.assert_array_equal(found, expected)
    if np.asarray(expected).dtype.kind == "f":
        numbers = expected == expected
        np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))
