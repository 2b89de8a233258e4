"""Check what is particular to reading ROOT files."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from uproot.writing import _cascadentuple

from cenote.analysis.sources.root_tree import plain_file
from cenote.analysis.sources.root_tree.source import RootTreeSource
from cenote.common import errors


def write(path: Path, **trees: dict[str, Any]) -> str:
    with uproot.recreate(path) as file:
        for name, columns in trees.items():
            tree = file.mktree(name, {column: _type(values) for column, values in columns.items()})
            tree.extend(columns)
    return str(path)


def _type(values: Any) -> Any:
    return values.type.content if isinstance(values, ak.Array) else np.dtype((values.dtype, values.shape[1:]))


def problem_of(source: RootTreeSource, url: str, *columns: str) -> errors.Problem:
    with pytest.raises(errors.CenoteError) as caught:
        source.read(url, columns, 0, 1) if columns else source.describe(url)
    (problem,) = caught.value.problems
    return problem


X = {"x": np.arange(3.0)}
Y = {"y": np.arange(5)}


def test_the_only_tree_needs_no_name(tmp_path: Path) -> None:
    assert list(RootTreeSource().describe(write(tmp_path / "a.root", whatever=X)).columns) == ["x"]


@pytest.mark.parametrize("name", ["Events", "events"])
def test_of_several_trees_the_events_are_read(tmp_path: Path, name: str) -> None:
    url = write(tmp_path / "a.root", Runs=Y, **{name: X})
    assert list(RootTreeSource().describe(url).columns) == ["x"]


def test_several_other_trees_are_listed_and_one_is_to_be_named(tmp_path: Path) -> None:
    url = write(tmp_path / "a.root", signal=X, background=Y)
    problem = problem_of(RootTreeSource(), url)
    assert problem.details == ("trees there: background, signal",)
    assert "tree: background" in (problem.hint or "")
    assert RootTreeSource(tree="background").describe(url).entries == 5


def test_a_missing_tree_is_named_with_those_there_and_the_nearest(tmp_path: Path) -> None:
    problem = problem_of(RootTreeSource(tree="Event"), write(tmp_path / "a.root", Events=X, Runs=Y))
    assert problem.kind is errors.BAD_INPUT
    assert "holds no tree 'Event'" in problem.message
    assert problem.hint == "did you mean 'Events'?"


def test_a_file_without_trees_says_so(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "a.root") as file:
        file["h"] = np.histogram([1.0, 2.0])
    assert "holds no tree" in problem_of(RootTreeSource(), str(tmp_path / "a.root")).message


def test_a_tree_in_a_folder_is_found(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "a.root") as file:
        file.mktree("ntuples/muons", {"x": np.float64}).extend(X)
    url = str(tmp_path / "a.root")
    assert RootTreeSource().describe(url).entries == 3
    assert RootTreeSource(tree="ntuples/muons").read(url, ["x"], 1, 3)["x"].tolist() == [1.0, 2.0]


def test_lists_of_a_fixed_length_come_as_lists(tmp_path: Path) -> None:
    url = write(tmp_path / "a.root", Events={"pair": np.arange(6.0).reshape(3, 2)})
    found = RootTreeSource().read(url, ["pair"], 0, 3)["pair"]
    assert str(found.type) == "3 * var * float64"
    assert found.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_records_of_an_rntuple_are_columns_with_flat_names(tmp_path: Path) -> None:
    muons = ak.Array([[{"pt": 1.0, "charge": 1}], [], [{"pt": 2.0, "charge": -1}, {"pt": 3.0, "charge": 1}]])
    with uproot.recreate(tmp_path / "a.root") as file:
        file.mkrntuple("Events", {"Muon": muons, "MET": ak.Array([{"pt": 5.0}] * 3), "name": ak.Array(["a", "b", "c"])})
    url = str(tmp_path / "a.root")
    assert set(RootTreeSource().describe(url).columns) == {"Muon_pt", "Muon_charge", "MET_pt", "name"}
    found = RootTreeSource().read(url, ["Muon.pt", "Muon_charge", "MET/pt", "name"], 0, 3)
    assert found["Muon.pt"].tolist() == [[1.0], [], [2.0, 3.0]]
    assert found["Muon_charge"].tolist() == [[1], [], [-1, 1]]
    assert isinstance(found["MET/pt"], np.ndarray)
    assert found["name"].tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("entries", [0, 1, 3])
def test_fractions_of_an_rntuple_have_the_type_of_their_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: int
) -> None:
    """ROOT stores a `Double32_t` as a field of type `double` with 32 bits; uproot writes no such field by itself."""
    monkeypatch.setitem(_cascadentuple._ak_primitive_to_typename_dict, "float32", "double")
    single = np.array([0.1, 0.2, 0.3], np.float32)
    lists = ak.unflatten(single, [2, 0, 1])
    with uproot.recreate(tmp_path / "a.root") as file:
        file.mkrntuple("Events", {"x": single, "Muon": ak.zip({"pt": lists}), "l": lists, "y": np.arange(3)})
    found = RootTreeSource().read(str(tmp_path / "a.root"), ["x", "Muon_pt", "l", "y"], 0, entries)
    assert found["x"].dtype == np.float64
    assert found["x"].tolist() == single[:entries].tolist()
    assert str(found["Muon_pt"].type) == str(found["l"].type) == f"{entries} * var * float64"
    assert found["y"].dtype == np.int64


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[object]:
    """One item for every call of a function."""
    calls: list[object] = []
    original = getattr(module, name)

    def counting(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return original(*arguments, **options)

    monkeypatch.setattr(module, name, counting)
    return calls


def in_three_chunks(url: str, column: str) -> None:
    source = RootTreeSource()
    source.describe(url)
    for start in range(3):
        source.read(url, [column], start, start + 1)
        RootTreeSource().read(url, [column], start, start + 1)


def test_a_file_of_numbers_is_looked_at_once_and_never_by_uproot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = write(tmp_path / "a.root", Events=X)
    looked, opened = counted(monkeypatch, plain_file, "find_tree"), counted(monkeypatch, uproot, "open")
    in_three_chunks(url, "x")
    assert (len(looked), len(opened)) == (1, 0)


def test_another_file_is_opened_once_for_all_its_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with uproot.recreate(tmp_path / "a.root") as file:
        file.mkrntuple("Events", X)
    opened = counted(monkeypatch, uproot, "open")
    in_three_chunks(str(tmp_path / "a.root"), "x")
    assert len(opened) == 1


def test_damage_inside_a_file_names_the_branch(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    columns = {"good": np.arange(10_000), "bad": np.arange(10_000) % 7}
    write(path, Events=columns)
    branch = uproot.open(path)["Events"]["bad"]
    start = int(branch.member("fBasketSeek")[0])
    content = bytearray(path.read_bytes())
    content[start + 90 : start + 400] = b"\x00" * 310
    path.write_bytes(content)
    assert RootTreeSource().read(str(path), ["good"], 0, 5)["good"].tolist() == [0, 1, 2, 3, 4]
    problem = problem_of(RootTreeSource(), str(path), "good", "bad")
    assert problem.kind is errors.UNREADABLE_INPUT
    assert "'bad'" in problem.message
    assert str(path) in problem.message


class RangeHandler(SimpleHTTPRequestHandler):
    """Serves byte ranges, as the servers of experiments do and the one of Python does not."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        content = path.read_bytes()
        first, last = 0, len(content) - 1
        if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            first, last = int(asked[1]), min(last, int(asked[2] or last))
        self.send_response(206 if asked else 200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(last - first + 1))
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.end_headers()
        self.wfile.write(content[first : last + 1])

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    handler = functools.partial(RangeHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_files_are_read_over_the_web(tmp_path: Path, web: str) -> None:
    jets = ak.Array([[1.0, 2.0], [], [3.0]])
    write(tmp_path / "a.root", Events={"x": np.arange(3.0), "Jet_pt": jets})
    info = RootTreeSource().describe(f"{web}/a.root")
    assert info.entries == 3
    assert info.stamp
    found = RootTreeSource().read(f"{web}/a.root", ["Jet_pt", "x"], 0, 3)
    assert list(found) == ["Jet_pt", "x"]
    assert found["Jet_pt"].tolist() == jets.tolist()
    assert isinstance(found["x"], np.ndarray)


def test_a_file_missing_on_the_web_is_named(web: str) -> None:
    problem = problem_of(RootTreeSource(), f"{web}/nothing.root")
    assert problem.kind is errors.BAD_INPUT
    assert f"{web}/nothing.root" in problem.message


def test_without_the_xrootd_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    original = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "XRootD" else original(name))
    problem = problem_of(RootTreeSource(), "root://host.invalid//store/a.root")
    assert problem.kind is errors.ENVIRONMENT
    assert "cenote[xrootd]" in (problem.hint or "")


def test_files_of_one_name_time_and_size_in_two_folders_are_two_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        monkeypatch.chdir(folder)
        write(Path("a.root"), events={"x": np.full(10, float(seed))})
        os.utime("a.root", (1, 1))
        found.append(RootTreeSource(tree="events").read("a.root", ["x"], 0, 10)["x"].tolist())
    assert found == [[1.0] * 10, [2.0] * 10]
