"""Check modifiers: they change how a stage runs, not what it computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from cenote.modifiers.interface import Modifier
from cenote.operations.interface import Result
from cenote.operations.support.events import Events
from cenote.testing.contracts.plugin import PluginContract
from cenote.testing.sample_events import same_column, sample_events


class ModifierContract(PluginContract):
    """`plugin` is the modifier."""

    plugin: ClassVar[type[Modifier]]

    def settings_in(self, example: Any) -> dict[str, Any]:
        """The `params` of the only modifier."""
        (found,) = example[0]["execution"]["modifiers"]
        return dict(found.get("params", {})) if isinstance(found, dict) else {}

    def test_the_result_is_that_of_the_stage(self, made: Modifier, tmp_path: Path) -> None:
        found = made.around(_double, sample_events(), stage="Stage", folder=str(tmp_path))
        expected = _double(sample_events())
        assert found.product == expected.product
        assert found.events.names == expected.events.names
        assert all(same_column(found.events[name], expected.events[name]) for name in expected.events.names)

    def test_what_the_stage_raises_comes_through(self, made: Modifier, tmp_path: Path) -> None:
        def fails(events: Events) -> Result:
            raise LookupError(events.size)

        with pytest.raises(LookupError):
            made.around(fails, sample_events(), stage="Stage", folder=str(tmp_path))

    def test_it_writes_nowhere_but_in_its_folder(
        self, made: Modifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
        for _ in range(2):
            made.around(_double, sample_events(), stage="Stage", folder=str(tmp_path / "folder"))
        assert list((tmp_path / "here").iterdir()) == []
        assert {path.name for path in tmp_path.iterdir()} <= {"here", "folder"}


def _double(events: Events) -> Result:
    return Result(events.with_columns({"twice": 2 * events["MET_pt"]}), product=events.size)
