"""`cenote diff` says what changed between two runs, in words, in numbers and in pictures."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import cenote
from cenote.execution.runs.changed.ingredients import Ingredients, StageIngredients, write_ingredients
from cenote.execution.runs.folder import RunFolder

from ..conftest import Desk

FLOW = """
    data: {datasets: [{name: d, files: a.root}, {name: e, files: b.root}]}
    analysis:
      stages:
        - id: Select
          op: hep.selection.cutflow
          params: {selection: ["MET_pt > 20", "nMuon > 0"]}
        - id: H
          op: hep.hist
          params: {dataset_axis: true, axes: [{name: x, source: MET_pt, bins: {nbins: 20, low: 0, high: 200}}]}
          render: []
        - id: N
          op: hep.hist
          needs: []
          params: {axes: [{name: n, source: nMuon, bins: {nbins: 5, low: 0, high: 5}}]}
          render: []
"""
CUT = "analysis.stages.Select.params.selection=[MET_pt > 25, nMuon > 0]"


@pytest.fixture
def flow(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(desk.folder)
    desk.muons("a.root", events=500)
    desk.muons("b.root", events=400, seed=2)
    return desk.write("flow.yaml", FLOW)


def found_by(desk: Desk, *words: str) -> dict[str, Any]:
    answer = desk.typed("diff", *words, "--json")
    assert answer.returncode in (0, 1), answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def test_runs_of_the_same_results_are_equal(desk: Desk, flow: Path) -> None:
    cenote.load(flow).run("one")
    cenote.load(flow).run("two")
    answer = desk.typed("diff", "one", "two")
    assert answer.returncode == 0
    assert "workflow, code, data and software are the same" in answer.stdout
    assert "all products are equal, to the last bit: Select, H, N" in answer.stdout


def test_a_changed_cut_is_shown_in_the_numbers_of_what_follows_it(desk: Desk, flow: Path) -> None:
    one, two = cenote.load(flow).run("one"), cenote.load(flow, sets=[CUT]).run("two")
    answer = desk.typed("diff", "one", "two")
    assert answer.returncode == 1
    assert "both runs read the same data" in answer.stdout
    found = found_by(desk, "one", "two")
    products = {product["name"]: product for product in found["products"]}
    assert {name: product["outcome"] for name, product in products.items()} == {
        "Select": "differs",
        "H": "differs",
        "N": "equal",
    }
    rows = [(row["row"], row["before"], row["after"]) for row in products["Select"]["rows"]]
    before, after = one.product("Select"), two.product("Select")
    cut = "MET_pt > 20 → MET_pt > 25"
    assert (f"d: {cut}", before.row("d", "All[0]").n_out, after.row("d", "All[0]").n_out) in rows
    numbers = products["H"]["histogram"]
    assert (numbers["sum_before"], numbers["sum_after"]) == (
        one.product("H").values(flow=True).sum(),
        two.product("H").values(flow=True).sum(),
    )
    assert numbers["differ"] == (one.product("H").values(flow=True) != two.product("H").values(flow=True)).sum()
    assert numbers["largest"]["at"]["x"] == "20 to 30"
    assert numbers["shared"] == "all"


def test_a_run_alone_is_compared_with_the_one_before_it(desk: Desk, flow: Path) -> None:
    first = cenote.load(flow).run("out")
    counts = first.product("H").values(flow=True).sum()
    lonely = desk.typed("diff", "out")
    assert lonely.returncode == 2
    assert "nothing of a run before its last one" in lonely.stderr
    cenote.load(flow, sets=[CUT]).run("out")
    found = found_by(desk, "out")
    [histogram] = [product["histogram"] for product in found["products"] if product["name"] == "H"]
    assert histogram["sum_before"] == counts
    cenote.load(flow, sets=[CUT]).run("out", fresh=True)
    assert desk.typed("diff", "out").returncode == 0


def test_a_run_that_fails_does_not_take_the_place_of_the_one_before(desk: Desk, flow: Path) -> None:
    cenote.load(flow).run("out")
    whole = Path("a.root").read_bytes()
    cenote.load(flow, sets=[CUT]).run("out")
    Path("a.root").write_bytes(whole[:1000])
    with pytest.raises(cenote.CenoteError):
        cenote.load(flow).run("out")
    Path("a.root").write_bytes(whole)
    assert desk.typed("diff", "out").returncode == 1


def test_files_that_are_new_are_named_and_share_some_of_the_data(desk: Desk, flow: Path) -> None:
    cenote.load(flow).run("one")
    desk.muons("c.root", events=100, seed=3)
    cenote.load(flow, sets=["data.datasets.e.files=[b.root, c.root]"]).run("two")
    found = found_by(desk, "one", "two")
    assert found["causes"]["data"] == ["c.root is new (dataset e)"]
    shared = {one["name"]: one["histogram"]["shared"] for one in found["products"] if one["histogram"]}
    assert shared == {"H": "some", "N": "some"}


def test_changes_are_said_by_their_ingredients(desk: Desk, flow: Path) -> None:
    for name, cut in (("one", "MET_pt > 20"), ("two", "MET_pt > 25")):
        run = cenote.load(flow).run(name)
        stage = StageIngredients("hep.selection.cutflow", {"selection": [{"expr": cut}]}, lineage={"d": cut})
        after = StageIngredients("hep.hist", needs=("Select",), lineage={"d": cut})
        made = Ingredients(
            stages={"Select": stage, "H": after},
            files={"d": (("a.root", "same", 500),)},
            functions={"ops.py": {"scale": (name, 14)}},
        )
        write_ingredients(RunFolder(run.folder).ingredients, made)
    answer = desk.typed("diff", "one", "two")
    assert 'workflow  Select: cut changed, "MET_pt > 20" → "MET_pt > 25"\n' in answer.stdout
    assert "code      ops.py: function scale changed (line 14)\n" in answer.stdout
    assert answer.stdout.count("cut changed") == 1
    assert answer.returncode == 0  # the numbers are the same


def test_histograms_of_other_bins_are_not_compared(desk: Desk, flow: Path) -> None:
    cenote.load(flow).run("one")
    cenote.load(flow, sets=["analysis.stages.N.params.axes.0.bins.nbins=10"]).run("two")
    answer = desk.typed("diff", "one", "two")
    assert answer.returncode == 1
    assert "not comparable" in answer.stdout
    assert "N  n has other bins: 5 from 0 to 5 → 10 from 0 to 5" in answer.stdout


def test_products_of_one_run_alone_are_a_difference(desk: Desk, flow: Path) -> None:
    cenote.load(flow).run("one")
    cenote.load(flow).run("two", only=["N"])
    found = found_by(desk, "one", "two")
    assert {one["name"]: one["outcome"] for one in found["products"]} == {
        "N": "equal",
        "Select": "only before",
        "H": "only before",
    }


def test_pictures_have_both_runs_over_each_other(desk: Desk, flow: Path) -> None:
    cenote.load(flow).run("one")
    cenote.load(flow, sets=[CUT]).run("two")
    found = found_by(desk, "one", "two", "--plots", "both")
    pictures = [picture for product in found["products"] for picture in product["pictures"]]
    assert {"both/H/d.png", "both/H/e.png", "both/H/d.pdf"} <= set(pictures)
    assert all(Path(picture).stat().st_size for picture in pictures)
    assert not list(Path("both").glob("N*"))  # what is equal is not drawn


@pytest.mark.usefixtures("flow")
def test_pickles_are_only_read_where_runs_of_ours_wrote_them(desk: Desk) -> None:
    desk.write(
        "ops.py",
        """
        from cenote import operation

        class Model:
            def __init__(self, number):
                self.number = number
            def __eq__(self, other):
                return self.number == other.number
            __hash__ = None

        @operation("custom.model", scope="run", product="object")
        def model(events, *, number: int):
            return Model(number)
        """,
    )
    text = """
        plugins: [ops.py]
        data: {datasets: [{name: d, files: a.root}]}
        analysis: {stages: [{id: M, op: custom.model, params: {number: 1}}]}
    """
    own = desk.write("own.yaml", text)
    cenote.load(own).run("one")
    cenote.load(own).run("two")
    cenote.load(own, sets=["analysis.stages.M.params.number=2"]).run("three")
    assert found_by(desk, "one", "two")["products"][0]["outcome"] == "equal"
    assert found_by(desk, "one", "three")["products"][0]["outcome"] == "differs"
    witness = desk.folder / "witness"
    Path("three/products/M.pkl").write_bytes(pickle.dumps(_Evil(str(witness))))
    [product] = found_by(desk, "one", "three")["products"]
    assert product["outcome"] == "not comparable"
    assert not witness.exists()


class _Evil:
    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return open, (self._path, "w")


def test_a_folder_without_a_run_is_an_error_that_says_so(desk: Desk, flow: Path) -> None:
    cenote.load(flow).run("one")
    answer = desk.typed("diff", "one", "nowhere")
    assert answer.returncode == 2
    assert "nowhere holds no run" in answer.stderr
