"""Check operations: honest about columns, at ease without events, with settings that travel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import awkward as ak
import numpy as np
import pytest

from cenote.modifiers.support.cuda_kernels import buffers_of, column_of, interpreted
from cenote.operations.interface import Operation
from cenote.operations.support.events import Events
from cenote.operations.support.kernels import NoKernelError
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind
from cenote.products.interface import Product
from cenote.testing.contracts.plugin import PluginContract
from cenote.testing.sample_events import sample_events


class OperationContract(PluginContract):
    """`plugin` is the operation; `events` are those it is tried on."""

    plugin: ClassVar[type[Operation]]
    stage: ClassVar[str] = "MuonPt"
    """The id of the stage that it serves."""

    def events(self) -> Events:
        """The events that it is tried on, which must hold what it reads: equal ones at every call."""
        return sample_events()

    def settings_in(self, example: Any) -> Mapping[str, Any]:
        """The `params` of the stage."""
        stages = example if isinstance(example, list) else example["analysis"]["stages"]
        return dict(stages[0].get("params", {}))

    @pytest.fixture
    def made(self, request: pytest.FixtureRequest) -> Operation:
        """As a stage has it."""
        made = self.plugin.model_validate(request.param).for_stage(self.stage)
        return made.resolve(list(self.events().columns))

    @pytest.mark.parametrize("by_alias", [False, True])
    def test_settings_travel_to_workers_and_give_the_same_operation(self, made: Operation, by_alias: bool) -> None:
        sent = made.model_dump(mode="json", exclude_unset=True, by_alias=by_alias)
        received = type(made).model_validate(sent).for_stage(self.stage)
        assert received.model_dump() == made.model_dump()
        assert received.run(self.events()).product == made.run(self.events()).product

    def test_it_needs_no_column_but_those_it_declares(self, made: Operation) -> None:
        there = self.events().keep({*made.reads(), *made.copies().values(), *(made.keeps() or ())})
        result, everywhere = made.run(there), made.run(self.events())
        assert set(result.events.names) - set(there.names) == set(made.adds()) - set(there.names)
        for column in made.adds():
            assert ak.array_equal(result.events[column], everywhere.events[column], equal_nan=True)
        assert result.product == everywhere.product

    def test_what_it_declares_to_read_is_there_or_a_constant(self, made: Operation) -> None:
        events = self.events()
        assert set(made.reads()) <= {*events.names, *events.constants, *events.dataset.facts()}

    def test_no_events_give_a_product_of_the_right_shape(self, made: Operation) -> None:
        empty = made.run(self.events().where(np.zeros(self.events().size, dtype=np.bool_)))
        assert empty.events.size == 0
        assert all(len(column) == 0 for column in empty.events.columns.values())
        assert set(made.adds()) <= set(empty.events.names)
        if made.product is None:
            assert empty.product is None
            return
        kind: Product = registry.load(PluginKind.PRODUCT, made.product)()
        full = made.run(self.events()).product
        for parts in ([empty.product, full], [full, empty.product]):
            own = made.merge(parts)
            assert (kind.merge(parts) if own is None else own) == full

    def test_its_kernels_compute_what_it_computes(self, made: Operation) -> None:
        events, expected = self.events(), made.run(self.events()).events
        try:
            kernels = made.kernels(events)
        except NoKernelError:
            return
        columns: dict[str, Any] = {}
        for name, kernel in kernels.items():
            buffers = buffers_of(kernel, events, columns)
            columns[name] = column_of(interpreted(kernel, buffers), kernel, buffers)
        assembled = made.assembled(events, columns).events if kernels else expected
        assert assembled.names == expected.names
        for name in assembled.names:
            assert ak.array_equal(assembled[name], expected[name], equal_nan=True), name

    def test_columns_and_events_have_the_size_they_claim(self, made: Operation) -> None:
        result = made.run(self.events()).events
        assert all(len(column) == result.size for column in result.columns.values())

    def test_the_events_that_come_in_are_left_alone(self, made: Operation) -> None:
        events, untouched = self.events(), self.events()
        made.run(events)
        assert events.names == untouched.names
        assert all(ak.array_equal(events[column], untouched[column]) for column in events.names)
