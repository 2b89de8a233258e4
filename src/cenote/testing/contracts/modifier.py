"""Check modifiers: they change how a stage runs, not what it computes, unless they say so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from cenote.analysis.modifiers.interface import Effect, Modifier, StageCall
from cenote.analysis.modifiers.support.measures import Measured, Tally
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import Events
from cenote.execution.worker.failure import ModifierFailure
from cenote.execution.worker.modified import run_modified
from cenote.testing.contracts.plugin import PluginContract
from cenote.testing.sample_events import same_column, sample_events


class Doubling(Operation):
    """What the modifiers of the contract are put around: it adds a column, and makes a product."""

    def reads(self) -> tuple[str, ...]:
        """One column."""
        return ("MET_pt",)

    def adds(self) -> tuple[str, ...]:
        """Another."""
        return ("twice",)

    def run(self, events: Events) -> Result:
        """Double it."""
        return Result(events.with_columns({"twice": 2 * events["MET_pt"]}), product=events.size)


class ModifierContract(PluginContract):
    """`plugin` is the modifier."""

    plugin: ClassVar[type[Modifier]]

    def settings_in(self, example: Any) -> dict[str, Any]:
        """The `params` of the only modifier."""
        (found,) = example[0]["execution"]["modifiers"]
        return dict(found.get("params", {})) if isinstance(found, dict) else {}

    def call(self) -> StageCall:
        """What the modifier knows of the stage that it is around."""
        stage = Doubling()
        return StageCall(
            modifier="contract",
            stage="Stage",
            operation=stage,
            reads=stage.reads(),
            adds=stage.adds(),
            dataset="sample",
            file="sample.root",
            entries=(0, sample_events().size),
            measures=self.plugin.measures,
        )

    def test_the_result_is_that_of_the_stage(self, made: Modifier) -> None:
        if made.effect is Effect.CHANGES:
            pytest.skip("it declares that it changes results")
        found = run_modified([(made, self.call())], Doubling().run, sample_events())
        expected = Doubling().run(sample_events())
        assert found.product == expected.product
        assert found.events.names == expected.events.names
        assert all(same_column(found.events[name], expected.events[name]) for name in expected.events.names)

    def test_what_observes_compiled_stages_needs_no_columns(self, made: Modifier) -> None:
        if made.obstacle():
            pytest.skip("its stages are not compiled")
        events, call = sample_events(), replace(self.call(), stage="One … Two", stages=("One", "Two"))
        loop = Result(replace(events, columns={}, size=0))
        assert run_modified([(made, call)], lambda _events: loop, events) is loop

    def test_what_the_stage_raises_comes_through(self, made: Modifier) -> None:
        problem = LookupError("no such thing")

        def fails(_events: Events) -> Result:
            raise problem

        with pytest.raises((LookupError, ModifierFailure)) as caught:
            run_modified([(made, self.call())], fails, sample_events())
        assert problem in (caught.value, caught.value.__cause__)

    def test_what_it_measures_can_be_written_down_and_added_up(self, made: Modifier) -> None:
        tally = Tally(made.measures)
        for _ in range(2):
            call = self.call()
            run_modified([(made, call)], Doubling().run, sample_events())
            assert msgspec.json.decode(msgspec.json.encode(call.measured), type=Measured) == call.measured
            tally.add(call.measured)
        record = tally.record("contract")
        assert record.calls == 2
        assert set(record.values) == set(call.measured.values)

    def test_it_writes_nowhere_by_itself(self, made: Modifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        for _ in range(2):
            run_modified([(made, self.call())], Doubling().run, sample_events())
        assert list(tmp_path.iterdir()) == []
