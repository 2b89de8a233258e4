"""Check what is particular to writing ROOT files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.analysis.sinks.root_tree import RootTreeSink
from cenote.common import errors


def some_events(**columns: Any) -> Events:
    return Events(columns, len(next(iter(columns.values()))), DatasetInfo("mc"))


JAGGED = ak.Array([[1.0], [], [2.0, 3.0]])


def test_a_collection_of_a_ttree_has_one_counter_as_in_nanoaod(tmp_path: Path) -> None:
    RootTreeSink(format="ttree", tree="Events").write(
        some_events(Muon_pt=JAGGED, Muon_eta=-JAGGED, MET_pt=np.arange(3.0)), tmp_path / "a.root"
    )
    with uproot.open(tmp_path / "a.root") as file:
        assert set(file["Events"].keys()) == {"MET_pt", "nMuon", "Muon_pt", "Muon_eta"}


def test_a_counter_that_counts_something_else_stays_as_it_is(tmp_path: Path) -> None:
    RootTreeSink(format="ttree").write(some_events(nMuon=np.array([7, 8, 9]), Muon_pt=JAGGED), tmp_path / "a.root")
    with uproot.open(tmp_path / "a.root") as file:
        assert file["events/nMuon"].array().tolist() == [7, 8, 9]
        assert file["events/Muon_pt"].array().tolist() == JAGGED.tolist()


@pytest.mark.parametrize(
    ("column", "trouble"),
    [(ak.Array([1, None, 2]), "missing values"), (ak.Array([[[1.0]], [], [[2.0], []]]), "lists of lists")],
)
def test_what_a_ttree_cannot_hold_is_refused_and_an_rntuple_takes_it(
    tmp_path: Path, column: ak.Array, trouble: str
) -> None:
    with pytest.raises(errors.CenoteError, match=f"column 'x' holds {trouble}") as caught:
        RootTreeSink(format="ttree").write(some_events(x=column), tmp_path / "a.root")
    assert "rntuple" in (caught.value.problems[0].hint or "")
    RootTreeSink().write(some_events(x=column), tmp_path / "b.root")
    with uproot.open(tmp_path / "b.root") as file:
        assert file["events"].arrays()["x"].tolist() == column.tolist()


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
def test_words_are_written(tmp_path: Path, kind: Any) -> None:
    RootTreeSink(format=kind).write(some_events(word=ak.Array(["a", "", "ccc"])), tmp_path / "a.root")
    with uproot.open(tmp_path / "a.root") as file:
        assert file["events"].arrays()["word"].tolist() == ["a", "", "ccc"]


def test_an_empty_list_of_unknown_type_becomes_a_list_of_numbers(tmp_path: Path) -> None:
    RootTreeSink().write(some_events(x=ak.Array([[], []])), tmp_path / "a.root")
    with uproot.open(tmp_path / "a.root") as file:
        assert str(file["events"].arrays()["x"].type) == "2 * var * float64"
