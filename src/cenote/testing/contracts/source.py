"""Check sources: what is in a file is described and read, in any range, and damage is explained."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import awkward as ak
import numpy as np
import pytest

from cenote.analysis.operations.support.events import Column
from cenote.analysis.sources.interface import Source
from cenote.common import errors
from cenote.testing.contracts.plugin import PluginContract
from cenote.testing.sample_events import same_column

EVENTS = 100


class SourceContract(PluginContract):
    """`plugin` is the source; `write` makes a file for it that holds `columns`."""

    plugin: ClassVar[type[Source]]
    unnoticed: ClassVar[tuple[str, ...]] = ()
    """Damage that files of this format do not show, such as `cut in half` for lines of text."""

    def columns(self) -> Mapping[str, Column]:
        """What the file holds: 100 events, also lists if the format has them."""
        number = np.arange(EVENTS)
        counts = number % 4
        return {
            "number": number.astype(np.int64),
            "weight": np.sqrt(number),
            "MET_pt": number.astype(np.float32) / 3,
            "trigger": number % 3 == 0,
            "Muon_pt": ak.unflatten(np.arange(counts.sum(), dtype=np.float32), counts),
            "Muon_charge": ak.unflatten(np.arange(counts.sum(), dtype=np.int32) % 2, counts),
        }

    def write(self, path: Path, columns: Mapping[str, Column]) -> None:
        """Write such a file."""
        raise NotImplementedError(f"say how a file for {self.plugin.__name__} is written: override `write`")

    def settings_in(self, example: Any) -> Mapping[str, Any]:
        """The settings of the only source."""
        (found,) = example["sources"].values()
        return {key: value for key, value in found.items() if key != "kind"}

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        """A file."""
        path = tmp_path / "events.file"
        self.write(path, self.columns())
        return str(path)

    @property
    def first(self) -> str:
        """One of the columns."""
        return next(iter(self.columns()))

    def test_the_description_has_entries_columns_and_sizes(self, made: Source, url: str) -> None:
        info = made.describe(url)
        assert info.url == url
        assert info.entries == EVENTS
        assert info.size == Path(url).stat().st_size
        assert set(self.columns()) <= set(info.columns)
        assert all(info.columns[name].bytes > 0 and info.columns[name].type for name in self.columns())
        assert made.describe(url) == info

    def test_reading_may_start_at_its_boundaries(self, made: Source, url: str) -> None:
        boundaries = list(made.describe(url).boundaries)
        assert boundaries == sorted(set(boundaries))
        assert not boundaries or (boundaries[0], boundaries[-1]) == (0, EVENTS)

    def test_it_reads_exactly_the_columns_asked_for(self, made: Source, url: str) -> None:
        asked = sorted(self.columns(), reverse=True)[:2]
        assert list(made.read(url, asked, 0, EVENTS)) == asked
        assert made.read(url, [], 0, EVENTS) == {}

    @pytest.mark.parametrize(
        ("start", "stop"), [(0, EVENTS), (0, 1), (0, 40), (7, 93), (39, 41), (80, 100), (99, 100), (0, 0)]
    )
    def test_any_range_gives_what_was_written_with_its_type(
        self, made: Source, url: str, start: int, stop: int
    ) -> None:
        found = made.read(url, list(self.columns()), start, stop)
        assert all(same_column(found[name], column[start:stop]) for name, column in self.columns().items())

    def test_dotted_names_read_the_flat_column(self, made: Source, url: str) -> None:
        name = next((name for name in self.columns() if "_" in name), None)
        if name is None:
            pytest.skip("no column of this file has a dotted name too")
        dotted = name.replace("_", ".", 1)
        assert same_column(made.read(url, [dotted], 0, EVENTS)[dotted], self.columns()[name])

    def test_a_column_that_is_not_there_is_named_with_the_file_and_the_nearest(self, made: Source, url: str) -> None:
        problem = _problem_of(lambda: made.read(url, [f"{self.first}x"], 0, EVENTS))
        assert problem.kind is errors.UNREADABLE_INPUT
        assert url in problem.message
        assert f"'{self.first}x'" in problem.message
        assert self.first in (problem.hint or "")

    @pytest.mark.parametrize("damage", ["missing", "empty", "cut in half", "cut early", "something else", "a folder"])
    def test_damage_is_explained_and_names_the_file(self, made: Source, url: str, damage: str) -> None:
        if damage in self.unnoticed:
            pytest.skip("files of this format do not show it")
        _DAMAGE[damage](Path(url))
        while_planning = _problem_of(lambda: made.describe(url))
        assert while_planning.kind is errors.BAD_INPUT
        assert url in while_planning.message
        while_running = _problem_of(lambda: made.read(url, [self.first], 0, 10))
        assert while_running.kind is errors.UNREADABLE_INPUT
        assert url in while_running.message

    def test_a_file_written_anew_is_noticed(self, made: Source, url: str, tmp_path: Path) -> None:
        before = made.describe(url)
        copy = tmp_path / "copy"
        copy.write_bytes(Path(url).read_bytes())
        os.utime(copy, ns=(1, 1))
        copy.replace(url)
        assert made.describe(url).stamp != before.stamp

    def test_the_stamp_of_a_file_is_found_without_describing_it(self, made: Source, url: str) -> None:
        assert made.current_stamp(url) == made.describe(url).stamp

    def test_a_file_is_what_is_in_it_wherever_it_is(self, made: Source, url: str, tmp_path: Path) -> None:
        before = made.describe(url).content
        copy, link, moved = tmp_path / "copy.file", tmp_path / "link.file", tmp_path / "moved.file"
        copy.write_bytes(Path(url).read_bytes())
        link.symlink_to(copy)
        os.utime(url, ns=(1, 1))
        assert {made.describe(str(path)).content for path in (url, copy, link)} == {before}
        copy.replace(moved)
        assert made.describe(str(moved)).content == before

    def test_a_file_with_another_value_has_another_content(self, made: Source, url: str, tmp_path: Path) -> None:
        before, columns = made.describe(url).content, dict(self.columns())
        columns[self.first] = np.where(np.arange(EVENTS) == EVENTS // 2, columns[self.first][0], columns[self.first])
        other = tmp_path / "other.file"
        self.write(other, columns)
        assert not before or made.describe(str(other)).content != before

    def test_it_travels_after_it_was_used(self, made: Source, url: str) -> None:
        made.read(url, [self.first], 0, 1)
        self.test_it_travels_to_other_processes(made)


def _problem_of(call: Callable[[], object]) -> errors.Problem:
    with pytest.raises(errors.CenoteError) as caught:
        call()
    (problem,) = caught.value.problems
    return problem


def _replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


_DAMAGE: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "cut in half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "cut early": lambda path: path.write_bytes(path.read_bytes()[:10]),
    "something else": lambda path: path.write_text("these are not events\n" * 100),
    "a folder": _replace_by_folder,
}
