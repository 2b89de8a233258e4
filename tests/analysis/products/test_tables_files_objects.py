"""Check the other products: cutflows, lists of files, and people's own objects."""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.onnx_models import dense, layers
from cenote.analysis.products.cutflow import CSV_COLUMNS, Cutflow, CutflowProduct, CutflowRow
from cenote.analysis.products.files import FilesProduct
from cenote.analysis.products.object import ObjectProduct
from cenote.common import errors
from cenote.common.machine import Machine


def a_row(dataset: str, index: int, entering: int, leaving: int) -> CutflowRow:
    return CutflowRow(
        dataset=dataset,
        name=f"All[{index}]",
        selection="All",
        index=index,
        label=f"cut {index}",
        expr=f"x > {index}",
        kind="expression",
        parents=(),
        weighted=False,
        n_unweighted_in=entering,
        n_unweighted_out=leaving,
        sumw_in=float(entering),
        sumw_out=float(leaving),
        sumw2_in=float(entering),
        sumw2_out=float(leaving),
    )


def a_cutflow(dataset: str = "dy", first: int = 10) -> Cutflow:
    return Cutflow((a_row(dataset, 0, first, first // 2), a_row(dataset, 1, first // 2, first // 4)))


def test_chunks_of_a_dataset_add_up_and_datasets_stay_apart() -> None:
    merged = CutflowProduct().merge([a_cutflow("dy"), a_cutflow("data", 4), a_cutflow("dy", 20)])
    assert [(row.name, row.dataset, row.n_unweighted_in, row.n_unweighted_out) for row in merged.rows] == [
        ("All[0]", "dy", 30, 15),
        ("All[0]", "data", 4, 2),
        ("All[1]", "dy", 15, 7),
        ("All[1]", "data", 2, 1),
    ]


@settings(max_examples=30, deadline=None)
@given(
    parts=st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 50)), min_size=2, max_size=6),
    cut=st.integers(1, 5),
)
def test_merging_cutflows_in_steps_is_merging_at_once(parts: list[tuple[str, int]], cut: int) -> None:
    product = CutflowProduct()
    tables = [a_cutflow(dataset, first) for dataset, first in parts]
    cut = min(cut, len(tables) - 1)
    assert product.merge([product.merge(tables[:cut]), product.merge(tables[cut:])]) == product.merge(tables)


def test_a_cutflow_is_saved_as_csv_json_and_latex(tmp_path: Path) -> None:
    table = a_cutflow()
    paths = CutflowProduct().save(table, tmp_path, "presel")
    assert [path.name for path in paths] == ["presel.csv", "presel.json", "presel.tex"]
    assert CutflowProduct().load(tmp_path, "presel") == table
    with paths[0].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == CSV_COLUMNS
    assert rows[0]["efficiency"] == "0.5"


def test_an_efficiency_of_nothing_is_left_blank() -> None:
    assert a_row("dy", 0, 0, 0).efficiency is None


def test_a_cutflow_reads_as_a_table() -> None:
    assert str(a_cutflow()).splitlines() == [
        "selection  cut    dataset  n_in  n_out  efficiency",
        "All        cut 0  dy         10      5       50.0%",
        "All        cut 1  dy          5      2       40.0%",
    ]
    assert "<td>cut 0</td>" in a_cutflow()._repr_html_()
    assert CutflowProduct().describe(a_cutflow()) == "2 cuts, 1 dataset"


def test_rows_are_found_by_name_or_label() -> None:
    assert a_cutflow().row("dy", "cut 1") == a_cutflow().row("dy", "All[1]")
    with pytest.raises(KeyError, match="no cut 'cut 9'"):
        a_cutflow().row("dy", "cut 9")


def test_lists_of_files_are_joined_and_kept_as_a_manifest(tmp_path: Path) -> None:
    first = [{"path": "skim/a/0.root", "dataset": "a", "entries": 10, "bytes": 1000}]
    second = [{"path": "skim/a/1.root", "dataset": "a", "entries": 5, "bytes": 500}]
    product = FilesProduct()
    both = product.merge([first, second])
    product.save(both, tmp_path, "skim")
    assert product.load(tmp_path, "skim") == [*first, *second]
    assert product.describe(both) == "2 files, 15 events, 1.5 kB"
    two_forms = [{**one, "template": form} for form in ("{part}.root", "{part}.csv") for one in both]
    assert product.describe(two_forms) == "4 files, 15 events, 3 kB", "each event once"


class Thing:
    """Not JSON."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thing) and other.size == self.size

    def __hash__(self) -> int:
        return self.size


@pytest.mark.parametrize(
    ("value", "suffixes"),
    [
        ({"loss": [0.5, 0.25], "epochs": 3, "best": np.float64(0.25)}, [".json"]),
        (np.arange(6).reshape(2, 3), [".npz"]),
        ({"weights": np.ones(3), "bias": np.zeros(1)}, [".npz"]),
        (b"any bytes", [".bin"]),
        (b"", [".bin"]),
        (dense(layers(2, 1)), [".onnx"]),
        ((1, 2), [".pkl", ".txt"]),
        ({"x": float("nan")}, [".pkl", ".txt"]),
        ({1: "a"}, [".pkl", ".txt"]),
    ],
    ids=["json", "array", "arrays", "bytes", "nothing", "onnx", "tuple", "nan", "numbered"],
)
def test_objects_are_saved_as_openly_as_they_allow(value: Any, suffixes: list[str], tmp_path: Path) -> None:
    product = ObjectProduct()
    assert [path.suffix for path in product.save(value, tmp_path, "model")] == suffixes
    loaded = product.load(tmp_path, "model")
    assert type(loaded) is type(value)
    np.testing.assert_equal(loaded, value)


def test_objects_without_a_merge_are_not_guessed_together() -> None:
    assert ObjectProduct().merge([Thing(1)]) == Thing(1)
    with pytest.raises(errors.CenoteError, match="cannot be merged"):
        ObjectProduct().merge([Thing(1), Thing(2)])


def test_arrays_that_would_take_all_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ObjectProduct().save(np.zeros(1_000_000), tmp_path, "bomb")
    assert (tmp_path / "bomb.npz").stat().st_size < 100_000
    assert ObjectProduct().load(tmp_path, "bomb").size == 1_000_000
    small = Machine(cpus=1, memory=1_000_000, gpus=0, disk=0)
    monkeypatch.setattr("cenote.analysis.products.object.this_machine", lambda: small)
    with pytest.raises(errors.CenoteError, match="8 MB of memory") as refused:
        ObjectProduct().load(tmp_path, "bomb")
    assert refused.value.problems[0].kind is errors.DAMAGED_RUN


def test_arrays_that_are_no_arrays_are_refused(tmp_path: Path) -> None:
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04 and nothing else")
    np.save(tmp_path / "pickled.npy", np.array([{}], dtype=object))
    with zipfile.ZipFile(tmp_path / "pickled.npz", "w") as archive:
        archive.write(tmp_path / "pickled.npy", "../../x.npy")
    for name in ("cut", "pickled"):
        with pytest.raises(errors.CenoteError, match="cannot be read"):
            ObjectProduct().load(tmp_path, name)
