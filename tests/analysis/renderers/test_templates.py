"""Histograms with variations, as programs for statistics read them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import hist
import numpy as np
import pyhf
import pytest
import uproot

from cenote.analysis.operations.interface import ProductShape
from cenote.analysis.operations.support.events import DatasetInfo
from cenote.analysis.renderers.hep.render.combine import Combine
from cenote.analysis.renderers.hep.render.pyhf import Pyhf
from cenote.analysis.renderers.interface import DrawContext
from cenote.common.errors import CenoteError
from cenote.language.systematics import VariationSide

NOMINAL = {"data": [12, 7, 4], "zz": [1, 2, 3], "tt_a": [4, 3, 1], "tt_b": [5, 2, 1]}
VARIED = {
    "nominal": {},
    "jes_up": {"tt_a": [5, 4, 1], "tt_b": [6, 2, 1]},
    "jes_down": {"tt_a": [3, 2, 1], "tt_b": [4, 2, 1]},
    "generator": {"zz": [2, 2, 8]},
}
DATASETS = {
    "data": DatasetInfo("data", "data"),
    "zz": DatasetInfo("zz"),
    "tt_a": DatasetInfo("tt_a", group="tt"),
    "tt_b": DatasetInfo("tt_b", group="tt"),
}
SIDES = {
    "jes_up": VariationSide("jes", "up"),
    "jes_down": VariationSide("jes", "down"),
    "generator": VariationSide("generator"),
}
CONTEXT = DrawContext("Signal region", DATASETS, sides=SIDES)


@pytest.fixture
def histogram() -> Any:
    made: Any = hist.Hist(
        hist.axis.StrCategory(list(NOMINAL), name="dataset", overflow=False),
        hist.axis.Regular(3, 0, 3, name="x"),
        hist.axis.StrCategory(list(VARIED), name="variation", overflow=False),
        storage=hist.storage.Weight(),
    )
    for variation, changed in VARIED.items():
        for dataset, usual in NOMINAL.items():
            row = made[{"dataset": dataset, "variation": variation}].view()
            row["value"] = changed.get(dataset, usual)
            row["variance"] = np.array(usual) / 10
            made.view(flow=True)[made.axes[0].index(dataset), 1:-1, made.axes[2].index(variation)] = row
    return made


@pytest.mark.filterwarnings("ignore:jsonschema.RefResolver:DeprecationWarning")  # pyhf 0.7.6 uses it
def test_a_workspace_means_to_pyhf_what_the_variations_are(histogram: Any, tmp_path: Path) -> None:
    renderer = Pyhf.model_validate({"pyhf": {"signals": ["zz"], "normalisations": {"lumi": 0.02, "xsec": {"tt": 0.1}}}})
    (file,) = renderer.draw(histogram, tmp_path / "workspace", CONTEXT)
    workspace = pyhf.Workspace(json.loads(file.read_text()))  # which checks it against the schema
    model = workspace.model(measurement_name="measurement")
    assert workspace.data(model, include_auxdata=False) == [12, 7, 4]
    assert model.config.poi_name == "mu"

    def expected(**moved: float) -> list[float]:
        values = list(model.config.suggested_init())
        for name, value in moved.items():
            values[model.config.par_slice(name)] = [value]
        return [float(one) for one in model.expected_actualdata(values)]

    assert expected() == pytest.approx([10, 7, 5])
    assert expected(jes=1) == pytest.approx([12, 8, 5])
    assert expected(jes=-1) == pytest.approx([8, 6, 5])
    assert expected(mu=2) == pytest.approx([11, 9, 8])
    assert expected(generator=1) == pytest.approx([11, 7, 10])
    assert expected(generator=-1) == pytest.approx([9, 7, 2]), "a variation alone is mirrored, down to nothing"
    assert expected(lumi=1) == pytest.approx([10.2, 7.14, 5.1])
    assert expected(xsec=1) == pytest.approx([10.9, 7.5, 5.2])
    staterror = next(one for one in workspace["channels"][0]["samples"][1]["modifiers"] if one["type"] == "staterror")
    assert staterror["data"] == pytest.approx(np.sqrt([0.9, 0.5, 0.2]).tolist())


def test_a_file_for_combine_has_a_histogram_for_each_process_and_side(histogram: Any, tmp_path: Path) -> None:
    renderer = Combine.model_validate({"combine": {"signals": ["zz"]}})
    file, card = renderer.draw(histogram, tmp_path / "shapes", CONTEXT)
    with uproot.open(file) as shapes:
        found = {name: shapes[name] for name in shapes.keys(cycle=False)}
        values = {name: one.values().tolist() for name, one in found.items()}
        errors = found["tt"].variances().tolist()
    assert values == {
        "data_obs": [12, 7, 4],
        "zz": [1, 2, 3],
        "zz_generatorUp": [2, 2, 8],
        "zz_generatorDown": [0, 2, 0],
        "tt": [9, 5, 2],
        "tt_jesUp": [11, 6, 2],
        "tt_jesDown": [7, 4, 2],
    }
    assert errors == pytest.approx([0.9, 0.5, 0.2])
    assert card.read_text().splitlines() == [
        "# Signal_region: channel 'Signal region'",
        "imax * number of channels",
        "jmax * number of processes minus 1",
        "kmax * number of nuisance parameters",
        "shapes * * shapes.root $PROCESS $PROCESS_$SYSTEMATIC",
        "bin Signal_region",
        "observation -1",
        "bin             Signal_region Signal_region",
        "process         zz            tt",
        "process         0             1",
        "rate            -1            -1",
        "generator shape 1             -",
        "jes       shape -             1",
        "Signal_region autoMCStats 10",
    ]


@pytest.mark.filterwarnings("ignore:jsonschema.RefResolver:DeprecationWarning")  # pyhf 0.7.6 uses it
def test_several_histograms_are_channels_of_one_fit(histogram: Any, tmp_path: Path) -> None:
    control: Any = hist.Hist(
        hist.axis.StrCategory(["data", "tt_a"], name="dataset"), hist.axis.Variable([0, 1, 5], name="y")
    )
    control.view()[...] = [[40, 20], [42, 0]]
    products, context = {"signal region": histogram, "control": control}, replace(CONTEXT, stage="Fit")
    block = {"signals": ["zz"], "smallest": 1e-6}
    (file,) = Pyhf.model_validate({"pyhf": block}).draw_together(products, tmp_path / "fit", context)
    workspace = pyhf.Workspace(json.loads(file.read_text()))
    model = workspace.model()
    assert model.config.channel_nbins == {"control": 2, "signal region": 3}
    fitted = pyhf.infer.mle.fit(workspace.data(model), model)
    assert np.isfinite(fitted).all(), "also where nothing is expected"
    assert 0 < fitted[model.config.poi_index] < 5

    file, card = Combine.model_validate({"combine": {"signals": ["zz"]}}).draw_together(
        products, tmp_path / "shapes", context
    )
    with uproot.open(file) as shapes:
        assert shapes["signal_region/tt_jesUp"].values().tolist() == [11, 6, 2]
        assert shapes["control/tt"].values().tolist() == [42, 0]
        assert "control/zz" not in shapes
    assert card.read_text().splitlines()[4:-2] == [
        "shapes * * shapes.root $CHANNEL/$PROCESS $CHANNEL/$PROCESS_$SYSTEMATIC",
        "bin signal_region control",
        "observation -1 -1",
        "bin             signal_region signal_region control",
        "process         zz            tt            tt",
        "process         0             1             1",
        "rate            -1            -1            -1",
        "generator shape 1             -             -",
        "jes       shape -             1             -",
    ]


def test_without_data_what_is_expected_counts_as_observed(histogram: Any, tmp_path: Path) -> None:
    simulated = {name: DatasetInfo(name, "mc", group=one.group) for name, one in DATASETS.items()}
    (file,) = Pyhf().draw(histogram, tmp_path / "workspace", DrawContext("H", simulated, sides=SIDES))
    workspace = json.loads(file.read_text())
    assert workspace["observations"] == [{"name": "H", "data": [22, 14, 9]}]


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (ProductShape("histogram", axes=("x", "y"), per_dataset=True), "templates have one axis"),
        (ProductShape("histogram", axes=("x",), per_dataset=False), "templates keep datasets apart"),
        (ProductShape("histogram", axes=("x",), per_dataset=True), "'signals' names 'zzz'"),
    ],
)
def test_what_cannot_be_a_template_is_refused_before_the_run(shape: ProductShape, words: str) -> None:
    with pytest.raises(CenoteError, match=words):
        Pyhf.model_validate({"pyhf": {"signals": ["zzz"]}}).check(shape, CONTEXT)


def test_bins_that_are_not_finite_are_no_templates(histogram: Any, tmp_path: Path) -> None:
    histogram.view(flow=True)["value"][1, 1, 1] = np.nan
    with pytest.raises(CenoteError, match="variation 'jes_up' of 'zz' has bins that are not finite"):
        Pyhf().draw(histogram, tmp_path / "workspace", CONTEXT)


def test_names_for_combine_have_no_blanks_and_stay_different(tmp_path: Path) -> None:
    made: Any = hist.Hist(
        hist.axis.StrCategory(["W+", "W-"], name="dataset"),
        hist.axis.StrCategory(["nominal", "my jes_up", "my_jes_up"], name="variation"),
        hist.axis.Regular(1, 0, 1, name="x"),
    )
    for number, variation in enumerate(made.axes["variation"], start=1):
        made.fill("W+", variation, [0.5] * number)
        made.fill("W-", variation, [0.5])
    file, card = Combine().draw(made, tmp_path / "shapes", DrawContext("SR"))
    lines = card.read_text().splitlines()
    assert lines[:3] == ["# Wplus: process 'W+'", "# Wminus: process 'W-'", "# my_jes_2: parameter 'my jes'"]
    assert [line.split() for line in lines if "shape " in line] == [
        ["my_jes_2", "shape", "1", "-"],
        ["my_jes", "shape", "1", "-"],
    ]
    with uproot.open(file) as shapes:
        assert shapes["Wplus_my_jes_2Up"].values().tolist() == [2]
        assert shapes["Wplus_my_jesUp"].values().tolist() == [3]


def test_bins_in_which_fits_fail_are_named(histogram: Any, tmp_path: Path) -> None:
    said: list[str] = []
    whole = histogram.view(flow=True)
    whole["variance"][0] = whole["value"][0]  # counts of events
    whole["value"][1:, 1, :] = 0  # where there is data
    whole["value"][1, 3, :] = -2
    Pyhf().draw(histogram, tmp_path / "workspace", replace(CONTEXT, warn=said.append))
    assert said == [
        (
            "stage 'Signal region': there is data where nothing is expected, in bins 0, 2: "
            "fits fail there (`smallest` lifts bins)"
        ),
        "stage 'Signal region': less than nothing is expected of 'zz' in bin 2: fits fail there",
    ]


def test_a_mirrored_side_that_was_lifted_is_announced(histogram: Any, tmp_path: Path) -> None:
    said: list[str] = []
    histogram.view(flow=True)["variance"][0] = histogram.view(flow=True)["value"][0]
    Pyhf().draw(histogram, tmp_path / "workspace", replace(CONTEXT, warn=said.append))
    words = (
        "stage 'Signal region': the mirrored side of 'generator' would be less than nothing for 'zz' in bin 2: "
        "it was lifted there, by 2 at most and 2 in all; give the other side to have it as it is"
    )
    assert said == [words]


@pytest.mark.parametrize("renderer", [Combine, Pyhf])
def test_data_that_is_weighted_is_announced(renderer: Any, histogram: Any, tmp_path: Path) -> None:
    said: list[str] = []
    renderer().draw_together({"SR": histogram}, tmp_path / "fit", replace(CONTEXT, warn=said.append))
    words = "the data of this channel is weighted (data): fits take what is observed for counts of events"
    assert f"stage 'SR': {words}" in said


def test_data_filled_with_weights_of_one_is_no_weighted_data(histogram: Any, tmp_path: Path) -> None:
    said: list[str] = []
    histogram.view(flow=True)["variance"][0] = histogram.view(flow=True)["value"][0]
    Combine().draw(histogram, tmp_path / "shapes", replace(CONTEXT, warn=said.append))
    assert not [one for one in said if "weighted" in one]
