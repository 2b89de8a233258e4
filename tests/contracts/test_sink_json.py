"""The sink `json`, whose files keep no types."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import awkward as ak
import numpy as np
import pytest

from cenote.analysis.operations.support.events import Column
from cenote.analysis.sinks.json import JsonSink
from cenote.analysis.sources.json import JsonSource
from cenote.testing.contracts import SinkContract


class TestJsonSink(SinkContract):
    plugin, source = JsonSink, JsonSource

    def columns(self) -> Mapping[str, Column]:
        number = np.arange(50)
        lists = ak.unflatten(np.arange(100.0), 2 + 0 * number)
        return {"number": number, "weight": np.sqrt(number), "passes": number % 2 == 0, "Jet_pt": lists}

    @pytest.mark.parametrize("size", [50, 1])
    def test_what_is_written_is_read_back_equal(self, made: JsonSink, tmp_path: Path, size: int) -> None:
        super().test_what_is_written_is_read_back_equal(made, tmp_path, size)

    def test_a_file_without_events_has_the_names_of_its_columns(self, made: JsonSink, tmp_path: Path) -> None:
        made.write(self.events(0, 0), tmp_path / "skim")
        info = self.source().describe(str(tmp_path / "skim"))
        assert (info.entries, list(info.columns)) == (0, list(self.columns()))
