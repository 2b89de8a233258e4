"""Check sinks: what is written is read back equal, also from parts that became one file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import awkward as ak
import numpy as np
import pytest

from cenote.analysis.operations.support.events import Column, DatasetInfo, Events
from cenote.analysis.sinks.interface import Sink
from cenote.analysis.sources.interface import Source
from cenote.testing.contracts.plugin import PluginContract
from cenote.testing.sample_events import same_column

EVENTS = 50
_LANGUAGE = {"kind", "path", "keep", "when"}
"""Keys of a `write` entry that are not the sink's."""


class SinkContract(PluginContract):
    """`plugin` is the sink; `source` reads its files."""

    plugin: ClassVar[type[Sink]]
    source: ClassVar[type[Source]]

    def columns(self) -> Mapping[str, Column]:
        """What is written, of 50 events."""
        number = np.arange(EVENTS)
        counts = number % 3
        return {
            "number": number.astype(np.uint64),
            "small": number.astype(np.int8),
            "weight": np.sqrt(number),
            "MET_pt": number.astype(np.float32) / 3,
            "passes": number % 2 == 0,
            "nMuon": counts.astype(np.int32),
            "Muon_pt": ak.unflatten(np.arange(counts.sum(), dtype=np.float32), counts),
            "Muon_tight": ak.unflatten(np.arange(counts.sum()) % 2 == 0, counts),
            "Jet_pt": ak.unflatten(np.arange(100.0), 2 + 0 * counts),
            "Jet_extra": ak.unflatten(np.arange(counts.sum(), dtype=np.int32), counts),
        }

    def settings_in(self, example: Any) -> Mapping[str, Any]:
        """The settings of the only `write` entry."""
        return {key: value for key, value in example[0]["write"].items() if key not in _LANGUAGE}

    def events(self, start: int = 0, stop: int = EVENTS) -> Events:
        """Some of the events."""
        columns = {name: column[start:stop] for name, column in self.columns().items()}
        return Events(columns, stop - start, DatasetInfo("mc"))

    def read_back(self, path: Path, events: Events) -> dict[str, Column]:
        """The columns of a file that must hold these events."""
        source = self.source()
        info = source.describe(str(path))
        assert info.entries == len(events)
        assert set(events.names) <= set(info.columns)
        return source.read(str(path), events.names, 0, info.entries)

    @pytest.mark.parametrize("size", [EVENTS, 1, 0])
    def test_what_is_written_is_read_back_equal(self, made: Sink, tmp_path: Path, size: int) -> None:
        events, target = self.events(0, size), tmp_path / f"skim{made.suffix}"
        made.write(events, target)
        found = self.read_back(target, events)
        assert [name for name in events.names if not same_column(found[name], events[name])] == []

    def test_columns_that_were_sliced_are_written_whole(self, made: Sink, tmp_path: Path) -> None:
        events = self.events().where(np.arange(EVENTS) % 7 == 1)
        made.write(events, tmp_path / "skim")
        found = self.read_back(tmp_path / "skim", events)
        assert [name for name in events.names if not same_column(found[name], events[name])] == []

    def test_columns_with_dots_are_found_again_by_their_name(self, made: Sink, tmp_path: Path) -> None:
        made.write(Events({"cuts.two_muons": np.array([True, False])}, 2, DatasetInfo("mc")), tmp_path / "skim")
        found = self.source().read(str(tmp_path / "skim"), ["cuts.two_muons"], 0, 2)
        assert ak.to_list(found["cuts.two_muons"]) == [True, False]

    def test_it_says_its_suffix(self, made: Sink) -> None:
        assert made.suffix.startswith(".")

    def test_parts_become_one_file_in_their_order(self, made: Sink, tmp_path: Path) -> None:
        merged = self._merged(made, tmp_path, [(0, 0), (0, 20), (20, 20), (20, EVENTS)])
        made.write(self.events(), tmp_path / f"once{made.suffix}")
        found, once = (self.read_back(path, self.events()) for path in (merged, tmp_path / f"once{made.suffix}"))
        assert found.keys() == once.keys()
        for name, column in once.items():
            assert ak.to_list(found[name]) == ak.to_list(column)
            assert str(ak.type(found[name])) == str(ak.type(column))

    def test_parts_without_events_become_a_file_with_every_column(self, made: Sink, tmp_path: Path) -> None:
        self.read_back(self._merged(made, tmp_path, [(0, 0), (0, 0)]), self.events(0, 0))

    def _merged(self, made: Sink, folder: Path, ranges: list[tuple[int, int]]) -> Path:
        if not made.can_merge():
            pytest.skip("it does not merge files")
        parts = [folder / f"{number}{made.suffix}" for number in range(len(ranges))]
        for part, (start, stop) in zip(parts, ranges, strict=True):
            made.write(self.events(start, stop), part)
        made.merge(parts, folder / f"all{made.suffix}")
        return folder / f"all{made.suffix}"
