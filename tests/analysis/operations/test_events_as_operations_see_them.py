"""Check Events: columns by name, events kept by a mask, and nothing changed behind anyone's back."""

from __future__ import annotations

import awkward as ak
import numpy as np
import pytest

from cenote.analysis.operations.support.events import DatasetInfo, Events, flat


def three_events() -> Events:
    columns = {"x": np.array([1.0, 2.0, 3.0]), "Muon_pt": ak.Array([[1.0], [], [2.0, 3.0]])}
    return Events(columns, 3, DatasetInfo("dy", "mc", metadata={"xs": 3.0, "name": "other"}))


def test_a_dotted_name_reads_the_underscored_column() -> None:
    events = three_events()
    assert "Muon.pt" in events
    assert events["Muon.pt"] is events["Muon_pt"]


def test_a_missing_column_names_the_nearest() -> None:
    with pytest.raises(KeyError, match="did you mean 'Muon_pt'"):
        three_events()["Muon_pT"]


def test_events_are_kept_by_a_mask_and_remember_which_they_were() -> None:
    kept = three_events().where(np.array([True, False, True]))
    assert (kept.size, kept["Muon_pt"].tolist(), kept["x"].tolist()) == (2, [[1.0], [2.0, 3.0]], [1.0, 3.0])
    assert kept.index is not None
    again = kept.where(np.array([False, True]))
    assert again.index is not None
    assert again.index.tolist() == [2]


def test_keeping_everything_copies_nothing() -> None:
    events = three_events()
    assert events.where(np.ones(3, dtype=np.bool_)) is events


def test_a_mask_must_be_one_boolean_per_event() -> None:
    with pytest.raises(ValueError, match="one boolean per event"):
        three_events().where(np.array([1, 0, 1]))


def test_facts_of_the_dataset_cannot_be_overruled_by_its_metadata() -> None:
    facts = three_events().dataset.facts()
    assert facts["dataset_name"] == "dy"
    assert facts["dataset_xs"] == 3.0
    assert facts["dataset_is_data"] is False
    assert facts["dataset_group"] == "dy"


def test_flat_awkward_columns_become_numpy_for_free() -> None:
    column = ak.Array([1.0, 2.0])
    assert isinstance(flat(column), np.ndarray)
    assert flat(jagged := three_events()["Muon_pt"]) is jagged
