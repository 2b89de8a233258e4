"""The sink `csv`, whose files keep no types."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from cenote.analysis.operations.support.events import Column
from cenote.analysis.sinks.csv import CsvSink
from cenote.analysis.sources.csv import CsvSource
from cenote.testing.contracts import SinkContract


class TestCsvSink(SinkContract):
    plugin, source = CsvSink, CsvSource

    def columns(self) -> Mapping[str, Column]:
        number = np.arange(50)
        return {"number": number, "weight": np.sqrt(number) + 0.25, "passes": number % 2 == 0}

    @pytest.mark.parametrize("size", [50, 1])
    def test_what_is_written_is_read_back_equal(self, made: CsvSink, tmp_path: Path, size: int) -> None:
        super().test_what_is_written_is_read_back_equal(made, tmp_path, size)

    def test_a_file_without_events_has_the_names_of_its_columns(self, made: CsvSink, tmp_path: Path) -> None:
        made.write(self.events(0, 0), tmp_path / "skim")
        info = self.source().describe(str(tmp_path / "skim"))
        assert (info.entries, list(info.columns)) == (0, list(self.columns()))
