"""Check operations: honest about columns, at ease without events, with settings that travel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import awkward as ak
import numpy as np
import pytest

from cenote.analysis.modifiers.support.cuda_kernels import buffers_of, column_of, interpreted
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import Events
from cenote.analysis.operations.support.kernels import NoKernelError
from cenote.analysis.products.interface import Product
from cenote.common.errors import CenoteError
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.plugins.quantities import NormalForm
from cenote.language.plugins.settings import Settings
from cenote.planning.fingerprint import digest_of
from cenote.testing.changed_settings import AS_WRITTEN, CARELESS, changes, turned_round, words_in, written
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
        return self.served(request.param)

    def served(self, settings: Mapping[str, Any]) -> Operation:
        """An operation with these settings, as a stage has it."""
        made = self.plugin.model_validate(settings).for_stage(self.stage)
        return made.resolve(list(self.events().columns))

    def _accepted(self, settings: Mapping[str, Any]) -> Operation | None:
        try:
            return self.served(settings)
        except (ValueError, CenoteError):
            return None

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

    def test_its_identity_is_what_is_meant_and_not_how_it_is_written(self, given: Settings) -> None:
        made, plain = self.served(written(given, AS_WRITTEN)), given.model_dump(exclude_defaults=True)
        expected = made.run(self.events())
        assert digest_of(made.identity()) == digest_of(self.served(plain).identity())
        for other in (written(given, CARELESS), turned_round(written(given, AS_WRITTEN))):
            same = self._accepted(other)
            if same is None or digest_of(same.identity()) != digest_of(made.identity()):
                assert not self.plugin.is_built_in() or other != written(given, CARELESS)
                continue
            assert same_results(made, same.run(self.events()), expected)

    def test_every_setting_counts_but_what_is_only_shown(self, given: Settings) -> None:
        made, events = self.served(written(given, AS_WRITTEN)), self.events()
        result, words = made.run(events), words_in(self.plugin.model_json_schema())
        for place, settings in changes(written(given, AS_WRITTEN), words):
            changed = self._accepted(settings)
            if changed is None:
                continue
            means_the_same = written(changed, NormalForm()) == written(made, NormalForm())
            assert (digest_of(changed.identity()) == digest_of(made.identity())) == means_the_same, place
            if means_the_same:
                assert same_results(changed, result, changed.run(events)), place

    def test_what_it_does_not_see_changes_nothing(self, made: Operation) -> None:
        events = self.events()
        seen, expected = _seen(made, events), made.run(events)
        for other in other_worlds(events):
            if _seen(made, other) == seen:
                assert same_results(made, made.run(other), expected)

    def test_each_of_its_parts_makes_what_it_makes(self, made: Operation) -> None:
        events, whole = self.events(), made.run(self.events()).events
        columns = tuple(made.adds())
        assert len({digest_of(made.identity_of(column)) for column in columns}) == len(columns)
        for column in (*columns, None):
            part = made.part_for(column)
            assert set(part.reads()) <= set(made.reads())
            found = part.run(events.keep({*part.reads(), *part.copies().values()})).events
            assert np.array_equal(_entries(found), _entries(whole))
            if column is not None:
                assert column in part.adds()
                assert same_bits(found[column], whole[column])

    def test_a_product_is_dressed_as_it_was_made(self, made: Operation) -> None:
        product, again = made.run(self.events()).product, made.run(self.events()).product
        assert made.dressed(product) == product == again


def same_results(operation: Operation, one: Result, other: Result) -> bool:
    """Whether two results are equal to the last bit, once the operation has put on their products what is shown."""
    if {*one.events.names} != {*other.events.names} or not np.array_equal(_entries(one.events), _entries(other.events)):
        return False
    if not all(same_bits(one.events[name], other.events[name]) for name in one.events.names):
        return False
    if one.product is None or other.product is None:
        return one.product is other.product
    return bool(operation.dressed(one.product) == operation.dressed(other.product))


def same_bits(one: Any, other: Any) -> bool:
    """Whether two columns have one type and the same bits."""
    (form, *_), (other_form, *_) = (ak.to_buffers(ak.to_packed(ak.Array(column))) for column in (one, other))
    return bool(form == other_form and ak.array_equal(one, other, equal_nan=True))


def other_worlds(events: Events) -> Iterator[Events]:
    """The same events where one thing is otherwise: a fact of their dataset, what datasets there are, a constant."""
    dataset = events.dataset
    renamed = tuple("another" if name == dataset.name else name for name in events.datasets)
    yield replace(events, dataset=replace(dataset, name="another"), datasets=renamed)
    for name in events.datasets:
        yield replace(events, dataset=replace(dataset, name=name))
    yield replace(events, datasets=(*events.datasets, "more"))
    yield replace(events, datasets=events.datasets[::-1])
    for change in ({"eventtype": "data"}, {"group": "others"}, {"nevents": 12}, {"stands_in": "own"}):
        yield replace(events, dataset=replace(dataset, **change))
    yield replace(events, dataset=replace(dataset, metadata={**dataset.metadata, "more": 1.0}))
    for name in dataset.metadata:
        yield replace(events, dataset=replace(dataset, metadata={**dataset.metadata, name: 0.25}))
    yield replace(events, constants={**events.constants, "MORE": 1.0})
    for name in events.constants:
        yield replace(events, constants={**events.constants, name: 0.25})


def _seen(operation: Operation, events: Events) -> str:
    return digest_of(operation.sees(events.dataset, events.datasets, events.constants))


def _entries(events: Events) -> Any:
    """Which of the events that came in are there."""
    return np.arange(events.size) if events.index is None else events.index
