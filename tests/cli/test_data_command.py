"""`cenote data` shows what is in files, and opens all of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot

from cenote.cli.main import exit_code_of
from cenote.testing.muons import write_muons

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Typed:
    def type_in(*words: str) -> tuple[int, str, str]:
        with chdir(tmp_path):
            code = exit_code_of(words)
        return code, *capsys.readouterr()

    return type_in


def test_a_file_is_shown_with_all_its_trees(typed: Typed, tmp_path: Path) -> None:
    write_muons(tmp_path / "a.root", events=20, seed=1)
    with uproot.update(tmp_path / "a.root") as file:
        file.mktree("runs", {"run": "int64"}).extend({"run": [1, 2]})
    code, out, _ = typed("data", "inspect", "a.root")
    assert code == 0
    assert "runs: 2 events, 1 column" in out
    assert any(line.split()[:2] == ["Muon_pt", "float[]"] for line in out.splitlines())
    code, out, _ = typed("data", "inspect", "a.root", "--tree", "runs", "--json")
    (tree,) = json.loads(out)["trees"]
    assert (tree["name"], tree["entries"], [column["name"] for column in tree["columns"]]) == ("runs", 2, ["run"])
    code, _, err = typed("data", "inspect", "a.root", "--tree", "rums")
    assert (code, "did you mean 'runs'?" in err) == (11, True)
    code, out, _ = typed("data", "inspect", "a.root", "a.root", "--json")
    assert [one["file"] for one in json.loads(out)] == ["a.root", "a.root"]
    (tmp_path / "folder").mkdir()
    write_muons(tmp_path / "folder" / "b.root", events=1, seed=1)
    code, _, err = typed("data", "inspect", "folder")
    assert (code, "hint: did you mean 'folder/b.root'?" in err) == (2, True)
    code, _, err = typed("data", "inspect", "a.xyz")
    assert (code, "say so with --kind" in err) == (2, True)


def test_every_file_of_a_workflow_is_opened(typed: Typed, tmp_path: Path) -> None:
    for name in ("a.root", "b.root"):
        write_muons(tmp_path / name, events=30, seed=2)
    (tmp_path / "cut.root").write_bytes((tmp_path / "b.root").read_bytes()[:700])
    (tmp_path / "fileset.json").write_text(json.dumps({"dy": {"files": {"a.root": "events"}, "metadata": {"xs": 2}}}))
    (tmp_path / "flow.yaml").write_text("data: {catalogue: fileset.json, datasets: {top: ['b.root', 'cut.root']}}\n")
    code, out, err = typed("data", "check", "flow.yaml")
    assert code == 11
    assert [line.split() for line in out.splitlines()[1:3]] == [
        ["top", "events", "mc", "2", "1", "30", *out.splitlines()[1].split()[6:]],
        ["dy", "events", "mc", "1", "0", "30", *out.splitlines()[2].split()[6:]],
    ]
    assert "  cut.root is cut short" in out
    assert err == ""
    code, out, _ = typed("data", "check", "flow.yaml", "--json")
    told = json.loads(out)
    assert (code, told["ok"]) == (11, False)
    assert [file["entries"] for file in told["datasets"][0]["files"]] == [30, None]
    (tmp_path / "cut.root").write_bytes((tmp_path / "b.root").read_bytes())
    code, out, _ = typed("run", "flow.yaml", "--out", "out", "--no-report")
    assert code == 0
    assert "3 files, 90 events, all can be read" in out


def test_columns_of_collections_are_shown_as_lists(typed: Typed, tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "r.root") as file:
        muons = ak.zip({"pt": ak.Array([[1.0, 2.0], []])})
        file.mkrntuple("Events", {"x": np.arange(2.0), "Muon": muons})
    _, out, _ = typed("data", "inspect", "r.root")
    assert [line.split()[:2] for line in out.splitlines()[4:]] == [["Muon_pt", "double[]"], ["x", "double"]]


def test_a_long_list_of_bad_files_is_cut(typed: Typed, tmp_path: Path) -> None:
    for number in range(25):
        (tmp_path / f"bad{number:02}.root").write_text("nothing")
    (tmp_path / "flow.yaml").write_text("data: {datasets: {top: 'bad*.root'}}\n")
    code, out, _ = typed("data", "check", "flow.yaml")
    lines = out.splitlines()
    assert (code, lines[2]) == (11, "25 files, 0 events, 25 bad")
    assert lines[3] == "  bad00.root is not a ROOT file"
    assert lines[-1] == "  … and 5 more bad files of top, which --json lists"
