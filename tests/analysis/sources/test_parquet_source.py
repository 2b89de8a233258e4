"""Check what is particular to reading Parquet files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cenote.analysis.sources.parquet import ParquetSource


def write(path: Path, columns: dict[str, Any], **options: Any) -> str:
    pq.write_table(pa.table(columns), path, **options)
    return str(path)


def test_a_column_with_gaps_is_optional_and_others_are_not(tmp_path: Path) -> None:
    url = write(tmp_path / "a", {"gaps": [1, None, 3], "full": [1, 2, 3], "lists": [[1.0], [], [2.0, 3.0]]})
    found = ParquetSource().read(url, ["gaps", "full", "lists"], 0, 3)
    assert str(found["gaps"].type) == "3 * ?int64"
    assert isinstance(found["full"], np.ndarray)
    assert str(found["lists"].type) == "3 * var * float64"


def test_gaps_elsewhere_do_not_make_a_range_optional(tmp_path: Path) -> None:
    url = write(tmp_path / "a", {"gaps": [1, 2, None]})
    assert ParquetSource().read(url, ["gaps"], 0, 2)["gaps"].tolist() == [1, 2]


def test_words_and_categories_come_as_strings(tmp_path: Path) -> None:
    words = pa.array(["x", "y", "x"])
    url = write(tmp_path / "a", {"word": words, "category": words.dictionary_encode()})
    found = ParquetSource().read(url, ["word", "category"], 0, 3)
    assert found["word"].tolist() == found["category"].tolist() == ["x", "y", "x"]


def test_dates_come_as_numpy_dates(tmp_path: Path) -> None:
    url = write(tmp_path / "a", {"when": pa.array(np.array(["2024-01-01", "2024-06-01"], "datetime64[us]"))})
    assert ParquetSource().read(url, ["when"], 1, 2)["when"][0] == np.datetime64("2024-06-01")


def test_fields_of_records_are_columns_with_flat_names_and_sizes(tmp_path: Path) -> None:
    muons = pa.array([[{"pt": 1.0, "charge": 1}], [], [{"pt": 2.0, "charge": -1}]])
    url = write(tmp_path / "a", {"Muon": muons, "MET": pa.array([{"pt": 1.0}, {"pt": 2.0}, {"pt": 3.0}])})
    info = ParquetSource().describe(url)
    assert set(info.columns) == {"Muon_pt", "Muon_charge", "MET_pt"}
    assert all(column.bytes > 0 for column in info.columns.values())
    found = ParquetSource().read(url, ["Muon.pt", "MET_pt"], 0, 3)
    assert found["Muon.pt"].tolist() == [[1.0], [], [2.0]]
    assert found["MET_pt"].tolist() == [1.0, 2.0, 3.0]


def test_lists_of_a_fixed_length_come_as_lists(tmp_path: Path) -> None:
    url = write(tmp_path / "a", {"pair": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float64(), 2))})
    assert str(ParquetSource().read(url, ["pair"], 0, 2)["pair"].type) == "2 * var * float64"


def test_a_file_without_rows_is_described(tmp_path: Path) -> None:
    url = write(tmp_path / "a", {"x": pa.array([], pa.float32())})
    info = ParquetSource().describe(url)
    assert (info.entries, list(info.boundaries)) == (0, [0])
    assert ParquetSource().read(url, ["x"], 0, 0)["x"].dtype == np.float32


def test_reading_does_not_import_pandas(tmp_path: Path) -> None:
    url = write(tmp_path / "a", {"x": [1, None], "lists": [[1.0], []]})
    code = (
        "import sys; from cenote.analysis.sources.parquet import ParquetSource;"
        f"ParquetSource().read({url!r}, ['x', 'lists'], 0, 2); sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_missing_values_stay_where_they_are_in_every_range(tmp_path: Path) -> None:
    rows = 100
    table = pa.table(
        {
            "late": [None] * 90 + [2.5] * 10,
            "lists": [None if row % 3 == 0 else [row] for row in range(rows)],
            "texts": [None if row % 5 else f"row {row}" for row in range(rows)],
            "records": [{"a": None if row % 7 else row} for row in range(rows)],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    source = ParquetSource()
    whole = source.read(str(tmp_path / "a.parquet"), ["late", "lists", "texts", "records_a"], 0, rows)
    for start, stop in ((0, 100), (84, 91), (3, 90), (89, 100)):
        part = source.read(str(tmp_path / "a.parquet"), list(whole), start, stop)
        for name, values in table.slice(start, stop - start).flatten().to_pydict().items():
            assert ak.to_list(part[name.replace(".", "_")]) == values, (name, start, stop)
