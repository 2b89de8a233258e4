"""The store keeps results whole, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import awkward as ak
import numpy as np
import pytest

from cenote.execution.worker.results import store as run_key
from cenote.execution.worker.results.store import DamagedResultError, ResultName, Store


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


@pytest.mark.parametrize("name", ["0123456789abcdef" * 2, "0123456789abcdef" * 2 + "-1", "f" * 32 + "-27"])
def test_a_name_says_whose_result_it_is_and_which(name: str) -> None:
    read = ResultName.read(name)
    assert read is not None
    assert (read.key, str(read)) == (name[:32], name)


@pytest.mark.parametrize("name", ["key", "written", "0123456789abcdef", "f" * 32 + "-", "f" * 32 + "-x", "F" * 32])
def test_other_files_are_no_results(name: str) -> None:
    assert ResultName.read(name) is None


def test_names_lists_everything_that_is_there(store: Store) -> None:
    assert store.names() == set()
    for name in ("aa11", "aa22", "bb33-0"):
        store.write(name, name)
    assert store.names() == {"aa11", "aa22", "bb33-0"}
    store.remove("aa22")
    store.remove("aa22")
    assert store.names() == {"aa11", "bb33-0"}


def damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    match how:
        case "cut":
            path.write_bytes(content[:-1])
        case "empty":
            path.write_bytes(b"")
        case "longer":
            path.write_bytes(content + b"x")
        case "two bits":
            content[-3] ^= 0b101
            path.write_bytes(content)
        case "a bit of its seal":
            content[40] ^= 1
            path.write_bytes(content)
        case "something else":
            path.write_bytes(b"not ours at all")
        case "gone":
            path.unlink()


@pytest.mark.parametrize("size", [10, 1_000_000])
@pytest.mark.parametrize("how", ["cut", "empty", "longer", "two bits", "a bit of its seal", "something else", "gone"])
def test_what_is_not_what_was_written_is_not_read(store: Store, how: str, size: int) -> None:
    store.write("aa11", {"x": np.arange(size, dtype=np.float64)})
    damage(store.path("aa11"), how)
    with pytest.raises(DamagedResultError, match="aa11 is damaged"):
        store.read("aa11")
    with pytest.raises(DamagedResultError, match="aa11 is damaged"):
        store.read_packed("aa11")


@pytest.mark.parametrize("how", ["cut", "empty", "longer", "something else", "gone"])
def test_a_wrong_length_shows_at_a_quick_look(store: Store, how: str) -> None:
    store.write("aa11", [1, 2])
    assert store.is_whole("aa11")
    damage(store.path("aa11"), how)
    assert not store.is_whole("aa11")


def test_a_result_under_the_name_of_another_is_not_read(store: Store) -> None:
    store.write("aa11", 1)
    store.path("aa11").rename(store.path("aa22"))
    with pytest.raises(DamagedResultError):
        store.read("aa22")


class Planted:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.trace,)


def test_a_planted_result_is_not_executed(store: Store, tmp_path: Path) -> None:
    store.write("aa11", 1)
    elsewhere = Store(tmp_path / "elsewhere")
    elsewhere.write("aa11", Planted(tmp_path / "executed"))
    store.path("aa11").write_bytes(elsewhere.path("aa11").read_bytes())
    with pytest.raises(DamagedResultError):
        store.read("aa11")
    assert not (tmp_path / "executed").exists()


def test_the_key_is_for_its_owner_alone(store: Store) -> None:
    store.write("aa11", 1)
    assert (store.folder / "key").stat().st_mode & 0o777 == 0o600
    assert Store(store.folder).read("aa11") == 1


def widen(key: Path) -> None:
    key.chmod(0o640)


def link(key: Path) -> None:
    key.rename(key.with_name("elsewhere"))
    key.symlink_to("elsewhere")


def hard_link(key: Path) -> None:
    key.with_name("elsewhere").hardlink_to(key)


def shorten(key: Path) -> None:
    key.write_bytes(b"guess")


@pytest.mark.parametrize("change", [widen, link, hard_link, shorten, Path.unlink])
def test_results_beside_a_key_that_others_may_know_are_not_trusted(
    store: Store, change: Callable[[Path], None]
) -> None:
    store.write("aa11", 1)
    change(store.folder / "key")
    forget_what_was_made()
    later = Store(store.folder)
    assert not later.is_whole("aa11")
    with pytest.raises(DamagedResultError):
        later.read("aa11")
    later.write("aa11", 2)
    assert Store(store.folder).read("aa11") == 2


def forget_what_was_made() -> None:
    """As another process."""
    run_key._made.clear()  # what only a process knows


def test_clearing_leaves_what_others_put_there(store: Store) -> None:
    name = "ab" * 16
    store.write(name, 1)
    store.write(f"{name}-0", 2)
    store.path(name).with_name(f".{name}.4711").write_bytes(b"half")
    mine = store.path(name).with_name("notes.txt")
    mine.write_text("mine")
    (store.folder / "thesis.tex").write_text("mine")
    store.clear()
    assert sorted(path.name for path in store.folder.rglob("*") if path.is_file()) == ["notes.txt", "thesis.tex"]
