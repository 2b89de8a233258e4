"""Check what operations say of themselves: what of their settings counts for which result, and what is only shown."""

from __future__ import annotations

from typing import Any

import pytest

from cenote.analysis.operations.define import Define
from cenote.analysis.operations.hep.choose import Choose
from cenote.analysis.operations.hep.correctionlib import Correctionlib
from cenote.analysis.operations.hep.hist.operation import Hist
from cenote.analysis.operations.hep.selection.cutflow import SelectionCutflow
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.analysis.operations.support.varied import VariedOperation, as_varied
from cenote.analysis.products.cutflow import CutflowProduct
from cenote.analysis.products.histogram import HistogramProduct
from cenote.language.systematics import Fillings, Shift, Varied, twin_name
from cenote.planning.fingerprint import digest_of
from cenote.testing.sample_events import sample_events

MC, DATA = DatasetInfo("dy", "mc"), DatasetInfo("data", "data")
COLUMNS = list(sample_events().columns)


def define(**variables: Any) -> Define:
    return Define.model_validate({"variables": variables}).for_stage("New").resolve(COLUMNS)


def hist(**params: Any) -> Hist:
    return Hist.model_validate({"axes": ["MET_pt"], **params}).for_stage("H").resolve(COLUMNS)


def cutflow(**params: Any) -> SelectionCutflow:
    return SelectionCutflow.model_validate(params).for_stage("Cuts").resolve(COLUMNS)


def seen(operation: Operation, dataset: DatasetInfo = MC, datasets: tuple[str, ...] = ("data", "dy")) -> Any:
    return operation.sees(dataset, datasets, {"LUMI": 59.7, "OTHER": 1.0})


def test_a_column_depends_on_the_variables_that_lead_to_it() -> None:
    before = define(a="MET_pt * 2", b="a + 1", c="nMuon", d="c * 2")
    after = define(a="MET_pt * 3", b="a + 1", c="nMuon", d="c * 2")
    same = [name for name in before.adds() if before.identity_of(name) == after.identity_of(name)]
    assert same == ["c", "d"]
    assert list(before.part_for("b").reads()) == ["MET_pt"]
    assert before.part_for("d").identity() == define(c="nMuon", d="c * 2").identity()


def test_a_column_that_is_defined_twice_depends_on_what_it_was() -> None:
    written = [{"name": "a", "expr": "MET_pt"}, {"name": "b", "expr": "nMuon"}, {"name": "a", "expr": "a + b"}]
    made = Define.model_validate({"variables": written}).resolve(COLUMNS)
    assert [variable.text for variable in made.part_for("a").variables] == ["MET_pt", "nMuon", "a + b"]
    assert [variable.text for variable in made.part_for("b").variables] == ["nMuon"]
    replaced = Define.model_validate({"variables": [*written[:2], {"name": "a", "expr": "b * 2"}]}).resolve(COLUMNS)
    assert [variable.text for variable in replaced.part_for("a").variables] == ["nMuon", "b * 2"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("MET.pt", "MET_pt", True),
        ("MET.unknown", "MET_unknown", False),  # a constant may be called so
        ("2*MET_pt", "2 * (MET_pt)", True),
        ("2 * MET_pt", "2.0 * MET_pt", False),
    ],
)
def test_expressions_count_by_what_they_mean(one: str, other: str, same: bool) -> None:
    assert (define(a=one).identity() == define(a=other).identity()) == same


def test_a_column_with_a_dot_is_another_one_than_that_with_an_underscore() -> None:
    columns = ["Muon.pt", "Muon_pt"]
    dot, underscore = (Define.model_validate({"a": name}).resolve(columns) for name in columns)
    assert dot.identity() != underscore.identity()
    made = (
        Define.model_validate({"variables": {"x.y": "x_y * 2", "z": name}}).resolve(["x_y"]) for name in ("x.y", "x_y")
    )
    assert len({digest_of(one.identity()) for one in made}) == 2, "the first is the new column"


def test_another_column_of_an_operation_with_several_touches_none_of_the_others() -> None:
    inputs = {"file": "sf.json", "correction": "c", "inputs": {"pt": "MET_pt"}}
    few = Correctionlib.model_validate({**inputs, "outputs": {"sf": {"kind": "nominal"}}})
    many = Correctionlib.model_validate({**inputs, "outputs": {"sf": {"kind": "nominal"}, "up": {"kind": "up"}}})
    assert few.identity_of("sf") == many.identity_of("sf") != many.identity_of("up")


def test_facts_and_constants_count_where_an_expression_names_them() -> None:
    assert seen(define(a="MET_pt * 2")) == {}
    assert seen(define(a="MET_pt * LUMI", b="dataset_eventtype == 'mc'")) == {
        "facts": {"dataset_eventtype": "mc"},
        "constants": {"LUMI": 59.7},
    }


def test_the_names_of_all_datasets_count_for_an_axis_of_datasets_alone() -> None:
    assert seen(hist()) == {}
    assert seen(hist(dataset_axis=True)) == {"dataset": "dy", "datasets": ["data", "dy"]}


def test_labels_are_put_on_a_histogram_that_was_filled_with_others() -> None:
    made = {label: hist(axes=[{"source": "MET_pt", "label": label}]) for label in ("MET", "MET [GeV]")}
    before, after = made["MET"], made["MET [GeV]"]
    assert before.identity() == after.identity()
    events = sample_events()
    old: Any = before.run(events).product
    new = after.run(events).product
    merged = HistogramProduct().merge([old, new])
    assert after.dressed(merged) == HistogramProduct().merge([new, new])
    assert old.axes[0].label == "MET", "the product that came in is left alone"


def test_labels_are_put_on_a_cutflow_that_was_counted_with_others() -> None:
    before = cutflow(selection=[{"label": "one", "expr": "nMuon > 0"}, "MET_pt>20"])
    after = cutflow(selection=["nMuon>0", {"label": "two", "expr": "(MET_pt > 20)"}])
    assert before.identity() == after.identity()
    old, new = before.run(sample_events()).product, after.run(sample_events()).product
    assert after.dressed(CutflowProduct().merge([old, new])) == CutflowProduct().merge([new, new])


def test_weights_of_a_cutflow_touch_neither_its_columns_nor_what_passes() -> None:
    before, after = (cutflow(selection={"A": ["nMuon > 0"]}, weight=weight) for weight in ("weight", "weight * 2"))
    assert before.identity() != after.identity()
    assert before.identity_of("Cuts_A") == after.identity_of("Cuts_A")
    assert before.part_for(None).identity() == after.part_for(None).identity()
    assert list(before.part_for(None).reads()) == ["nMuon"]


def test_names_of_cases_are_for_errors() -> None:
    def choose(name: str | None) -> Choose:
        cases = [{"name": name, "when": "nMuon > 0", "values": {"lead": "max(Muon_pt)"}}]
        return Choose.model_validate({"cases": cases, "default": {"lead": "-1.0"}, "on_no_match": "default"})

    assert choose("muons").identity() == choose(None).identity()


def fillings(factor: str, *, datasets: tuple[str, ...] = ("dy",)) -> Fillings:
    shift = Shift("up", {"MET_pt": "MET_px", "weight": "MET_py"}, factors=(factor,), datasets=frozenset(datasets))
    return Fillings(("nominal", "up"), shifts=(shift,), varied={"up": frozenset(datasets)})


def test_a_variation_touches_the_datasets_that_it_changes() -> None:
    usual, other, wider = (
        hist(weight="weight").with_fillings(how)
        for how in (fillings("1.5"), fillings("2.5"), fillings("1.5", datasets=("dy", "tt")))
    )
    assert usual.identity() == other.identity() == wider.identity() != hist(weight="weight").identity()
    assert digest_of(seen(usual)) != digest_of(seen(other))
    assert seen(usual, DATA) == seen(other, DATA) == seen(wider, DATA)
    assert seen(usual) == seen(wider)


def test_columns_that_a_histogram_does_not_read_may_vary() -> None:
    read = hist(weight="weight").with_fillings(fillings("1.5"))
    assert seen(read)["fillings"][1]["columns"] == {"MET_pt": "MET_px", "weight": "MET_py"}
    unread = hist(axes=["nMuon"], weight="MET").with_fillings(fillings("1.5"))
    assert seen(unread)["fillings"][1]["columns"] == {}


def varied(columns: dict[str, str], *, beside: bool, variation: str = "up") -> VariedOperation:
    made = as_varied(define(a="MET_pt * 2", b="nMuon + 1"), Varied(variation, "New", columns, beside=beside), None)
    assert isinstance(made, VariedOperation)
    return made.resolve([*COLUMNS, *columns.values()])


def test_a_stage_of_a_variation_depends_on_the_columns_that_it_reads_instead() -> None:
    one, other = (varied({"MET_pt": name, "HLT": "x"}, beside=False) for name in ("MET_px", "MET_py"))
    assert one.identity() != other.identity()
    assert one.identity_of("b") == other.identity_of("b") != one.identity_of("a") != other.identity_of("a")
    assert list(one.part_for("b").reads()) == ["nMuon"]
    assert one.identity() == varied({"MET_pt": "MET_px", "HLT": "y"}, beside=False).identity()
    assert one.identity_of("HLT") != varied({"MET_pt": "MET_px", "HLT": "y"}, beside=False).identity_of("HLT")


def test_columns_beside_the_nominal_ones_are_known_by_what_they_are_made_of() -> None:
    made = varied({"MET_pt": "MET_px"}, beside=True)
    twins = [twin_name(name, "up") for name in ("a", "b")]
    assert list(made.adds()) == twins
    assert made.identity_of(twins[0]) != made.identity_of(twins[1])
    events = sample_events()
    whole = made.run(events).events
    for twin in twins:
        part = made.part_for(twin)
        assert part.run(events.keep(part.reads())).events[twin].tolist() == whole[twin].tolist()


def test_a_class_from_elsewhere_counts_as_it_is_written_and_may_look_at_everything() -> None:
    class Elsewhere(Define):
        def run(self, events: Events) -> Result:
            return super().run(events)

    one, other = (Elsewhere.model_validate({"a": text}).resolve(COLUMNS) for text in ("MET_pt*2", "MET_pt * 2"))
    assert one.identity() != other.identity()
    assert set(seen(one)) == {"dataset", "datasets", "constants"}
    orders = [{"b": 1, "a": 2}, {"a": 2, "b": 1}]
    found = [digest_of(one.sees(DatasetInfo("dy", metadata=order), (), order)) for order in orders]
    assert found[0] != found[1]
