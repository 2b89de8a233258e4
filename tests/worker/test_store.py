"""The store keeps results whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import awkward as ak
import numpy as np
import pytest

from cenote.worker.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "work")


def test_what_was_written_is_read_back(store: Store) -> None:
    value = {"n": 3, "flat": np.arange(5.0), "jagged": ak.Array([[1, 2], [], [3]])}
    size = store.write("ab12", value)
    back = store.read("ab12")
    assert back["n"] == 3
    assert back["flat"].tolist() == [0, 1, 2, 3, 4]
    assert back["jagged"].to_list() == [[1, 2], [], [3]]
    assert size == store.path("ab12").stat().st_size


def test_large_columns_are_mapped_and_equal(store: Store) -> None:
    column = np.arange(1_000_000, dtype=np.float64)
    store.write("cd34", {"x": column, "y": column[::-1].copy()})
    back = store.read("cd34")
    assert np.array_equal(back["x"], column)
    assert np.array_equal(back["y"], column[::-1])
    assert not back["x"].flags.writeable


def test_a_result_is_there_only_when_it_is_whole(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        store.write("ef56", [1])
    monkeypatch.undo()
    assert "ef56" not in store
    assert store.names() == set()


def test_names_lists_everything_that_is_there(store: Store) -> None:
    assert store.names() == set()
    for name in ("aa11", "aa22", "bb33-0"):
        store.write(name, name)
    assert store.names() == {"aa11", "aa22", "bb33-0"}
    store.remove("aa22")
    store.remove("aa22")
    assert store.names() == {"aa11", "bb33-0"}


def test_a_file_of_something_else_is_refused(store: Store) -> None:
    path = store.path("aa11")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not ours at all")
    with pytest.raises(ValueError, match="not a stored result"):
        store.read("aa11")
