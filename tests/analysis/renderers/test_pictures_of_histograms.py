"""Draw histograms for real and look at what was drawn."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.patches import Patch
from matplotlib.text import Text
from pydantic import ValidationError

from cenote.analysis.operations.interface import ProductShape
from cenote.analysis.operations.support.events import DatasetInfo
from cenote.analysis.renderers.hep.render.comparison import ComparisonPicture
from cenote.analysis.renderers.hep.render.data_mc import DataMC
from cenote.analysis.renderers.hep.render.heatmap2d import Heatmap2D
from cenote.analysis.renderers.hep.render.hist1d import Hist1D
from cenote.analysis.renderers.interface import DrawContext
from cenote.analysis.renderers.support import canvas
from cenote.analysis.renderers.support.frame import MOST_TICKS
from cenote.analysis.renderers.support.style import look_of
from cenote.common.errors import CenoteError


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are saved while the test runs."""
    figures: list[Figure] = []
    save = canvas.save

    def keep(figure: Figure, *args: Any, **settings: Any) -> list[Path]:
        figures.append(figure)
        return save(figure, *args, **settings)

    monkeypatch.setattr(canvas, "save", keep)
    return figures


def texts(figure: Figure) -> list[str]:
    return [found.get_text() for found in figure.findobj(Text) if isinstance(found, Text) and found.get_text()]


def legend_of(figure: Figure) -> list[str]:
    legend = figure.axes[0].get_legend()
    return [text.get_text() for text in legend.get_texts()] if legend else []


def test_a_histogram_with_datasets_gets_a_line_and_a_name_for_each(
    mass: Any, context: DrawContext, target: Path, drawn: list[Figure]
) -> None:
    files = Hist1D(formats=["png"]).draw(mass, target, context)
    assert files == [target.with_name("mass.png")]
    assert legend_of(drawn[0]) == ["data", "DYJets", "DYLow", "TTbar", "Zprime"]
    assert drawn[0].axes[0].get_ylabel() == "Events / 2 GeV"


def test_png_and_pdf_are_written_by_default(mass: Any, context: DrawContext, target: Path) -> None:
    files = Hist1D(figure={"dpi": 40}).draw(mass, target, context)
    assert [path.name for path in files] == ["mass.png", "mass.pdf"]
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert files[1].read_bytes().startswith(b"%PDF")
    assert sorted(path.name for path in target.parent.iterdir()) == ["mass.pdf", "mass.png"]


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_the_same_histogram_gives_the_same_bytes(mass: Any, context: DrawContext, target: Path, kind: str) -> None:
    renderer = DataMC(formats=[kind], figure={"dpi": 30})
    first = renderer.draw(mass, target, context)[0].read_bytes()
    assert renderer.draw(mass, target, context)[0].read_bytes() == first


def test_drawing_leaves_the_settings_of_matplotlib_and_pyplot_alone(
    mass: Any, context: DrawContext, target: Path
) -> None:
    import matplotlib
    import matplotlib.pyplot as plt

    before, figures = dict(matplotlib.rcParams), plt.get_fignums()
    DataMC(formats=["png"], figure={"dpi": 30}, style={"experiment": "ATLAS"}).draw(mass, target, context)
    assert dict(matplotlib.rcParams) == before
    assert plt.get_fignums() == figures


@pytest.mark.parametrize("experiment", ["CMS", "ATLAS", "LHCb", "ALICE"])
def test_the_experiment_labels_its_pictures(
    mass: Any, context: DrawContext, target: Path, drawn: list[Figure], experiment: str, caplog: Any
) -> None:
    style = {"experiment": experiment.lower(), "label": "Preliminary", "lumi": 138, "com": 13}
    DataMC(formats=["png"], figure={"dpi": 30}, style=style).draw(mass, target, context)
    assert {experiment, "Preliminary"} <= set(texts(drawn[0]))
    assert any("138" in text and "13" in text for text in texts(drawn[0]))
    assert caplog.records == []


def test_any_experiment_may_label_a_picture(mass: Any, context: DrawContext, target: Path, drawn: list[Figure]) -> None:
    assert [look_of(name) for name in ("CMS HGCAL", "atlas", "LZ", "ATLASX")] == ["CMS", "ATLAS", "none", "none"]
    DataMC(formats=["png"], figure={"dpi": 30}, style={"experiment": "LZ", "label": "WIP"}).draw(mass, target, context)
    assert {"LZ", "WIP"} <= set(texts(drawn[0]))


def test_pictures_without_data_are_called_a_simulation(
    mass: Any, context: DrawContext, target: Path, drawn: list[Figure]
) -> None:
    only_mc = hist.Hist(hist.axis.StrCategory(["TTbar"], name="dataset"), hist.axis.Regular(3, 0, 3, name="mass")).fill(
        "TTbar", [1.0, 2.0]
    )
    for product in (only_mc, mass):
        DataMC(formats=["png"], figure={"dpi": 30}, style={"experiment": "CMS"}).draw(product, target, context)
    assert "Simulation" in texts(drawn[0])
    assert "Simulation" not in texts(drawn[1])


def test_simulation_is_stacked_by_group_under_the_data(
    mass: Any, context: DrawContext, target: Path, drawn: list[Figure]
) -> None:
    DataMC(formats=["png"], figure={"dpi": 30}).draw(mass, target, context)
    assert legend_of(drawn[0]) == ["Data", "Z", "top", "Zprime", "MC stat. unc."]
    main, ratio = drawn[0].axes
    assert ratio.get_ylabel() == "Data/MC"
    assert ratio.get_ylim() == (0.5, 1.5)
    assert main.get_ylim()[0] == 0


def test_signals_and_backgrounds_can_be_named_by_dataset_or_group(
    mass: Any, context: DrawContext, target: Path, drawn: list[Figure]
) -> None:
    block = {"data": "data", "backgrounds": ["TTbar", "Z"], "signals": ["Zprime"], "yields": True}
    DataMC(formats=["png"], figure={"dpi": 30}, data_mc=block).draw(mass, target, context)
    assert legend_of(drawn[0]) == ["Data (2000)", "Zprime (30)", "TTbar (180)", "Z (1720)", "MC stat. unc."]


def test_a_dataset_that_is_not_there_is_named_with_the_nearest(mass: Any, context: DrawContext, target: Path) -> None:
    with pytest.raises(CenoteError) as caught:
        DataMC(data_mc={"backgrounds": ["TTbarr"]}).draw(mass, target, context)
    problem = caught.value.problems[0]
    assert "'data_mc.backgrounds' names 'TTbarr'" in problem.message
    assert problem.hint == "did you mean 'TTbar'?"


def test_signals_outside_the_stack_do_not_enter_the_ratio(
    mass: Any, context: DrawContext, target: Path, drawn: list[Figure]
) -> None:
    for within in (True, False):
        block = {"signals": ["Zprime"], "include_signals_in_stack": within}
        DataMC(formats=["png"], figure={"dpi": 30}, data_mc=block).draw(mass, target, context)
    points = [figure.axes[1].containers[0].lines[0].get_ydata() for figure in drawn]  # type: ignore[attr-defined]
    assert not np.array_equal(points[0], points[1])


@pytest.mark.parametrize("names", [["data"], ["DYJets", "TTbar"]])
def test_without_data_or_without_simulation_there_is_no_ratio(
    mass: Any, context: DrawContext, target: Path, drawn: list[Figure], names: list[str]
) -> None:
    some = hist.Hist(hist.axis.StrCategory(names, name="dataset"), mass.axes[1], storage=hist.storage.Weight())
    for name in names:
        some[name, :] = mass[name, :].view()
    DataMC(formats=["png"], figure={"dpi": 30}).draw(some, target, context)
    assert len(drawn[0].axes) == 1


def test_simulation_can_be_scaled_to_the_data(
    mass: Any, context: DrawContext, target: Path, drawn: list[Figure]
) -> None:
    block = {"normalise_to_data": True, "yields": True, "backgrounds": ["DYJets"]}
    DataMC(formats=["png"], figure={"dpi": 30}, data_mc=block).draw(mass, target, context)
    assert "DYJets (2000)" in legend_of(drawn[0])


@pytest.mark.parametrize("place", ["upper right", "upper left", "best"])
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_the_legend_and_the_label_cover_no_data(
    mass: Any, context: DrawContext, target: Path, drawn: list[Figure], place: str, scale: str
) -> None:
    style = {"experiment": "ATLAS", "label": "Preliminary", "lumi": 1}
    DataMC(formats=["png"], figure={"dpi": 30}, style=style, legend={"loc": place}, axes={"y": {"scale": scale}}).draw(
        mass, target, context
    )
    axes = drawn[0].axes[0]
    legend = axes.get_legend()
    assert legend is not None
    box = legend.get_window_extent()
    highest = mass["data", :].values()
    for centre, count in zip(mass.axes[1].centers, highest, strict=True):
        x, y = axes.transData.transform((centre, max(count, 1e-9)))
        assert not (box.x0 <= x <= box.x1 and y >= box.y0)
    inside = [text for text in axes.texts if text.get_text() in {"ATLAS", "Preliminary"}]
    assert inside
    assert not any(text.get_window_extent().overlaps(box) for text in inside)


@pytest.mark.parametrize("top", [300, 450])
def test_a_legend_that_has_no_room_in_a_given_range_goes_elsewhere(
    mass: Any, context: DrawContext, target: Path, drawn: list[Figure], top: int
) -> None:
    flat = mass.copy()
    flat[...] = np.stack([np.full((5, 30), 280.0), np.full((5, 30), 280.0)], axis=-1)
    Hist1D(formats=["png"], axes={"y": {"limits": [0, top]}}).draw(flat, target, context)
    axes = drawn[0].axes[0]
    legend = axes.get_legend()
    assert legend is not None
    box = legend.get_window_extent()
    height = axes.transData.transform((90, 280))[1]
    assert box.y0 > height or box.x0 > axes.get_window_extent().x1


def test_a_signal_in_the_stack_is_an_area_and_one_over_it_a_line(
    mass: Any, context: DrawContext, target: Path, drawn: list[Figure]
) -> None:
    for in_stack in (True, False):
        block = {"signals": ["Zprime"], "include_signals_in_stack": in_stack}
        DataMC(formats=["png"], figure={"dpi": 30}, data_mc=block).draw(mass, target, context)
    areas = []
    for figure in drawn:
        legend = figure.axes[0].get_legend()
        assert legend is not None
        position = [text.get_text() for text in legend.get_texts()].index("Zprime")
        handle = legend.legend_handles[position]
        areas.append(isinstance(handle, Patch) and handle.get_fill() and handle.get_facecolor()[3] > 0)
    assert areas == [True, False]


def test_a_histogram_of_datasets_alone_has_a_bin_for_each_of_them(
    context: DrawContext, target: Path, drawn: list[Figure]
) -> None:
    counts = hist.new.StrCat(list(context.datasets), name="process").Int64()
    counts.fill(process=["data", "TTbar", "TTbar"])
    (file,) = Hist1D(formats=["png"]).draw(counts, target, context)
    assert file.exists()
    assert [tick.get_text() for tick in drawn[0].axes[0].get_xticklabels()] == list(context.datasets)


def nothing_in_it() -> Any:
    return hist.Hist(hist.axis.Regular(5, 0, 1, name="mass"), storage=hist.storage.Weight())


def no_category_yet() -> Any:
    return hist.Hist(hist.axis.StrCategory([], growth=True, name="channel"))


def no_dataset_yet() -> Any:
    return hist.Hist(hist.axis.StrCategory([], growth=True, name="dataset"), hist.axis.Regular(5, 0, 1, name="mass"))


def weights_that_cancel() -> Any:
    return nothing_in_it().fill([0.5, 0.5], weight=[1.0, -1.0])


def not_a_number() -> Any:
    return nothing_in_it().fill([0.5], weight=[np.nan])


def infinite() -> Any:
    return nothing_in_it().fill([0.1, 0.5], weight=[1.0, np.inf])


def one_bin() -> Any:
    return hist.Hist(hist.axis.Regular(1, 0, 1, name="mass")).fill([0.5])


def negative() -> Any:
    return nothing_in_it().fill([0.1, 0.5], weight=[-3.0, 1.0])


def all_negative() -> Any:
    return nothing_in_it().fill([0.1, 0.5], weight=[-3.0, -1.0])


def huge() -> Any:
    return nothing_in_it().fill([0.1, 0.5], weight=[1e300, 1.0])


@pytest.mark.parametrize("renderer", [Hist1D, DataMC])
@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize(
    "made",
    [
        *(nothing_in_it, no_category_yet, no_dataset_yet, weights_that_cancel, not_a_number, infinite),
        *(one_bin, negative, all_negative, huge),
    ],
)
def test_odd_histograms_give_a_picture_without_a_complaint(made: Any, scale: str, renderer: Any, target: Path) -> None:
    picture = renderer(formats=["png"], figure={"dpi": 30}, axes={"y": {"scale": scale}})
    files = picture.draw(made(), target, DrawContext("Odd"))
    assert all(path.stat().st_size > 1000 for path in files)


def test_a_histogram_without_entries_says_so(target: Path, drawn: list[Figure]) -> None:
    for picture in (Hist1D(formats=["png"]), DataMC(formats=["png"])):
        picture.draw(nothing_in_it(), target, DrawContext("Empty"))
    assert all("no entries" in texts(figure) for figure in drawn)
    Hist1D(formats=["png"]).draw(not_a_number(), target, DrawContext("Odd"))
    assert "sums of weights are not finite" in texts(drawn[-1])


def test_bins_that_are_not_finite_are_mentioned(target: Path, drawn: list[Figure]) -> None:
    Hist1D(formats=["png"]).draw(infinite(), target, DrawContext("Odd"))
    assert "1 bin not finite, drawn as empty" in texts(drawn[0])


def test_a_partial_product_is_marked_across_the_picture(mass: Any, target: Path, drawn: list[Figure]) -> None:
    for partial in (True, False):
        Hist1D(formats=["png"]).draw(mass, target, DrawContext("Mass", partial=partial))
    assert "PARTIAL" in texts(drawn[0])
    assert "PARTIAL" not in texts(drawn[1])


def test_several_variables_give_a_picture_each_unless_one_is_chosen(target: Path) -> None:
    both = hist.Hist(hist.axis.Regular(2, 0, 1, name="pt"), hist.axis.Regular(2, 0, 1, name="eta")).fill([0.5], [0.5])
    files = Hist1D(formats=["png"]).draw(both, target, DrawContext("Both"))
    assert [path.name for path in files] == ["mass_pt.png", "mass_eta.png"]
    chosen = Hist1D(formats=["png"], axes={"x": {"name": "eta"}}).draw(both, target, DrawContext("Both"))
    assert [path.name for path in chosen] == ["mass.png"]
    with pytest.raises(CenoteError, match="no axis 'etaa' to draw") as caught:
        Hist1D(axes={"x": {"name": "etaa"}}).draw(both, target, DrawContext("Both"))
    assert caught.value.problems[0].hint == "did you mean 'eta'?"


def test_categories_are_named_at_the_ticks(target: Path, drawn: list[Figure]) -> None:
    made = hist.Hist(hist.axis.StrCategory(["ee", "mumu"], name="channel")).fill(["ee", "mumu", "ee"])
    Hist1D(formats=["png"]).draw(made, target, DrawContext("Channel"))
    assert [label.get_text() for label in drawn[0].axes[0].get_xticklabels()] == ["ee", "mumu"]


def test_normalised_histograms_have_an_integral_of_one(target: Path, drawn: list[Figure]) -> None:
    made = hist.Hist(hist.axis.Regular(4, 0, 8, name="pt", label="pt [GeV]")).fill([1.0, 3.0, 3.0, 7.0])
    for normalise in ("area", "sum"):
        Hist1D(formats=["png"], hist1d={"normalise": normalise}).draw(made, target, DrawContext("Pt"))
    heights = [figure.axes[0].patches[0].get_data().values for figure in drawn]  # type: ignore[attr-defined]
    assert sum(heights[0]) * 2 == pytest.approx(1)
    assert sum(heights[1]) == pytest.approx(1)
    assert drawn[0].axes[0].get_ylabel() == "Density [1/GeV]"


def test_labels_may_hold_any_text(target: Path, drawn: list[Figure]) -> None:
    names = ["_hidden", "100% $", "日本", "a&b<c>"]
    made = hist.Hist(hist.axis.StrCategory(names, name="dataset"), hist.axis.Regular(2, 0, 1, name="x"))
    for name in names:
        made.fill(name, [0.5])
    Hist1D(formats=["png", "pdf"]).draw(made, target, DrawContext("Odd"))
    assert [name.strip() for name in legend_of(drawn[0])] == names


def test_mathematics_that_cannot_be_read_is_an_error_that_says_so(mass: Any, target: Path) -> None:
    for settings in (
        {"axes": {"x": {"label": r"$\frac{a$"}}},
        {"style": {"datasets": {"data": {"label": r"$\frac{a$"}}}},
    ):
        with pytest.raises(CenoteError, match=r"a label cannot be drawn: Expected \\frac") as caught:
            Hist1D.model_validate(settings).draw(mass, target, DrawContext("Mass"))
        assert "text between two $" in (caught.value.problems[0].hint or "")
    assert [path for path in target.parent.rglob("*") if path.is_file()] == []


def test_something_else_than_a_histogram_is_an_error_that_says_so(target: Path) -> None:
    with pytest.raises(CenoteError, match="stage 'Train' makes no histogram"):
        Hist1D().draw({"weights": []}, target, DrawContext("Train"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"figur": {}}, "Extra inputs are not permitted"),
        ({"axes": {"x": {"lable": "m"}}}, "Extra inputs are not permitted"),
        ({"style": {"experiment": ["CDF"]}}, "Input should be a valid string"),
        ({"style": {"datasets": {"mc": {"color": "bleu"}}}}, "did you mean 'blue'"),
        ({"formats": ["gif"]}, "Input should be 'png', 'pdf' or 'svg'"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_drawn(settings: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Hist1D.model_validate(settings)


def test_the_styles_of_fast_hep_are_understood(mass: Any, context: DrawContext, target: Path) -> None:
    base = {
        "figure": {"size": [8, 6], "dpi": 30},
        "style": {
            "experiment": "CMS",
            "lumi": 59.8,
            "label": "Preliminary",
            "color_cycle": ["#5790fc", "red"],
            "datasets": {"TTbar": {"label": r"$t\bar{t}$", "color": "C1", "hatch": "//", "alpha": 0.5, "kind": None}},
        },
        "axes": {
            "x": {"name": "mass", "label": "m", "scale": "linear", "limits": [60, 120]},
            "y": {"name": "events", "label": "Events", "scale": "log", "limits": [0.1, 1e6]},
            "ratio": {"name": "ratio", "limits": [0, 2]},
        },
        "legend": {"loc": "upper right", "ncol": None, "frameon": False, "fontsize": 10},
        "transforms": [{"kind": "scale", "by": "dataset_name", "mode": "overall", "factors": {"TTbar": 1.1}}],
    }
    data_mc = {
        "data": "data",
        "backgrounds": ["TTbar", "DYJets"],
        "signals": ["Zprime"],
        "include_signals_in_stack": True,
        "show_mc_uncertainty": True,
        "stack": True,
        "stack_order": "reverse_legend",
        "ratio": True,
        "histtype_mc": "fill",
        "histtype_signal": "step",
        "legend_auto_ncol_threshold": 5,
        "legend_max_ncol": 4,
        "ratio_ylim": [0.5, 1.5],
        "ratio_ylabel": "Data/MC",
    }
    assert DataMC.model_validate(base | {"data_mc": data_mc}).draw(mass, target, context)
    line = {"overlay": True, "histtype": "step", "sort_datasets": "data_first"}
    assert Hist1D.model_validate(base | {"hist1d": line}).draw(mass, target, context)


def test_a_legend_outside_stands_beside_the_frame(mass: Any, target: Path, drawn: list[Figure]) -> None:
    Hist1D(formats=["png"], legend={"loc": "outside"}).draw(mass, target, DrawContext("Mass"))
    axes = drawn[0].axes[0]
    legend = axes.get_legend()
    assert isinstance(legend, Legend)
    assert legend.get_window_extent().x0 > axes.get_window_extent().x1


def two_variables(names: list[str]) -> Any:
    made = hist.Hist(
        hist.axis.StrCategory(names, name="dataset"),
        hist.axis.Regular(4, 0, 4, name="pt"),
        hist.axis.Regular(3, -1, 1, name="eta"),
    )
    for name in names:
        made.fill(name, [0.5, 1.5, 1.5], [0.0, 0.9, 0.9])
    return made


def test_a_heat_map_has_a_panel_for_each_dataset(target: Path, drawn: list[Figure]) -> None:
    files = Heatmap2D(formats=["png"]).draw(two_variables(["mc", "data", "other"]), target, DrawContext("Map"))
    assert [path.name for path in files] == ["mass.png"]
    assert [name for name in texts(drawn[0]) if name in {"mc", "data", "other"}] == ["data", "mc", "other"]


def test_a_heat_map_per_dataset_is_a_file_each_with_a_safe_name(target: Path) -> None:
    files = Heatmap2D(formats=["png"], heatmap2d={"per_dataset": True}).draw(
        two_variables(["data", "a/../b c"]), target, DrawContext("Map")
    )
    assert [path.relative_to(target).as_posix() for path in files] == ["data.png", "a_.._b_c.png"]
    only = Heatmap2D(formats=["png"], heatmap2d={"per_dataset": True}).draw(
        two_variables(["data"]), target, DrawContext("Map")
    )
    assert [path.relative_to(target).as_posix() for path in only] == ["data.png"]


def test_the_colours_of_a_heat_map_may_be_logarithmic(target: Path, drawn: list[Figure]) -> None:
    Heatmap2D(formats=["png"], axes={"z": {"scale": "log"}}).draw(two_variables(["mc"]), target, DrawContext("Map"))
    mesh = drawn[0].axes[0].collections[0]
    assert type(mesh.norm).__name__ == "LogNorm"


def test_the_axes_of_a_heat_map_can_be_exchanged(target: Path, drawn: list[Figure]) -> None:
    settings = {"axes": {"x": {"name": "eta"}, "y": {"name": "pt"}}, "formats": ["png"]}
    Heatmap2D.model_validate(settings).draw(two_variables(["mc"]), target, DrawContext("Map"))
    axes = drawn[0].axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("eta", "pt")
    values = np.ma.filled(axes.collections[0].get_array(), 0.0)  # type: ignore[arg-type]
    assert values.shape == (4, 3)
    assert values[1, 2] == 2


def test_an_empty_heat_map_says_so(target: Path, drawn: list[Figure]) -> None:
    empty = hist.Hist(hist.axis.Regular(4, 0, 4, name="pt"), hist.axis.Regular(3, -1, 1, name="eta"))
    Heatmap2D(axes={"z": {"scale": "log"}}).draw(empty, target, DrawContext("Map"))
    assert "no entries" in texts(drawn[0])


def test_a_heat_map_of_one_variable_is_an_error_with_advice(target: Path) -> None:
    one = hist.Hist(hist.axis.Regular(4, 0, 4, name="pt"))
    with pytest.raises(CenoteError, match="needs two axes") as caught:
        Heatmap2D().draw(one, target, DrawContext("Map"))
    assert caught.value.problems[0].hint == "draw it with hist1d"


@pytest.mark.parametrize("names", [[f"sample_{n:02d}" for n in range(25)], ["DYJetsToLL_M-50_" + n * 70 for n in "ab"]])
def test_many_and_long_names_stay_apart_and_within_the_picture(
    names: list[str], target: Path, drawn: list[Figure]
) -> None:
    made: Any = hist.Hist(hist.axis.StrCategory(["data", *names], name="dataset"), hist.axis.Regular(9, 0, 1, name="x"))
    made.view(flow=True)[...] = 1.3e7
    label = "Work in progress, not to be shown to anybody yet"
    style = {"experiment": "CMS", "label": label, "lumi": 59.8, "com": 13}
    axis = {"label": "a quantity " * 15}
    DataMC(formats=["pdf"], style=style, axes={"x": axis, "y": axis}).draw(made, target, DrawContext("H"))
    main, bottom = drawn[0].axes
    panel = main.get_window_extent()
    legend = main.get_legend()
    assert legend is not None
    assert legend.get_window_extent().width <= panel.width or legend.get_window_extent().x0 > panel.x1
    assert bottom.xaxis.get_label().get_window_extent().width <= panel.width * 1.01
    assert main.yaxis.get_label().get_window_extent().height <= panel.height * 1.01
    power = main.yaxis.get_offset_text()
    assert power.get_text()
    assert main.yaxis.get_label().get_window_extent().x1 < power.get_window_extent().x0
    above = {text.get_text(): text.get_window_extent() for text in main.texts}
    assert above[label].x1 < next(box.x0 for words, box in above.items() if "fb" in words)
    colours = [handle.get_facecolor() for handle in legend.legend_handles[1:-1] if handle is not None]
    assert len(set(colours)) == len(names)


def test_many_categories_are_named_upright(target: Path, drawn: list[Figure]) -> None:
    made: Any = hist.Hist(hist.axis.StrCategory([f"category number {n}" for n in range(40)], name="cut"))
    Hist1D(formats=["pdf"]).draw(made, target, DrawContext("H"))
    boxes = [text.get_window_extent() for text in drawn[0].axes[0].get_xticklabels()]
    assert all(one.x1 <= other.x0 for one, other in pairwise(boxes))


def test_of_very_many_categories_some_have_ticks(target: Path, drawn: list[Figure]) -> None:
    """A tick for each, and minor ones between them, took minutes."""
    names = [f"category number {n}" for n in range(1000)]
    made: Any = hist.Hist(hist.axis.StrCategory(names, name="cut"))
    Hist1D(formats=["pdf"]).draw(made, target, DrawContext("H"))
    axis = drawn[0].axes[0].xaxis
    shown = [text.get_text() for text in axis.get_ticklabels()]
    assert shown == names[:: math.ceil(1000 / MOST_TICKS)]
    assert not axis.get_minorticklocs().size


@pytest.mark.parametrize("renderer", [Hist1D(hist1d={"flow": "hint"}), DataMC(data_mc={"flow": "hint"})])
def test_arrows_hint_at_what_is_beyond_the_bins(renderer: Any, target: Path, drawn: list[Figure]) -> None:
    made: Any = hist.Hist(hist.axis.Regular(3, 0, 3, name="x"))
    made.fill([1, 2, 7])
    renderer.draw(made, target, DrawContext("H"))
    arrows = [line for line in drawn[0].axes[-1].lines if line.get_gid() == "beyond"]
    assert [(line.get_marker(), *line.get_xdata()) for line in arrows] == [(">", 3)]


@pytest.fixture
def varied() -> Any:
    made = hist.Hist(
        hist.axis.StrCategory(["data", "TTbar"], name="dataset"),
        hist.axis.StrCategory(["nominal", "jes_up"], name="variation"),
        hist.axis.Regular(2, 0, 2, name="x"),
    )
    for variation in ("nominal", "jes_up"):
        made.fill("data", variation, [0.5] * 4)
        made.fill("TTbar", variation, [0.5] * 3 + [1.5])
    return made


def test_a_picture_names_the_variation_that_it_shows(
    varied: Any, context: DrawContext, target: Path, drawn: list[Figure]
) -> None:
    sides = {"reference": "TTbar", "target": "TTbar", "variation": "jes_up"}
    ComparisonPicture(formats=["png"], comparison=sides).draw(varied, target, context)
    DataMC(formats=["png"], variation="jes_up").draw(varied, target, context)
    assert legend_of(drawn[0]) == ["TTbar", "TTbar (jes_up)"]
    assert "jes_up" in texts(drawn[1])


def test_a_comparison_by_itself_says_what_is_compared(
    varied: Any, context: DrawContext, target: Path, drawn: list[Figure]
) -> None:
    for kind in ("efficiency", "ratio"):
        target_of = {"efficiency": "TTbar", "ratio": "data"}[kind]
        sides = {"reference": "TTbar", "target": target_of, "comparison": kind, "only_comparison": True, "invert": True}
        ComparisonPicture(formats=["png"], comparison=sides).draw(varied, target, context)
    assert legend_of(drawn[0]) == ["TTbar / TTbar"]
    assert (legend_of(drawn[1]), drawn[1].axes[0].get_ylabel()) == ([], "Data / TTbar"), "the axis says so"


def test_data_goes_by_its_group_in_the_legend(
    varied: Any, context: DrawContext, target: Path, drawn: list[Figure]
) -> None:
    described = replace(context, datasets={**context.datasets, "data": DatasetInfo("data", "data", "2018 data")})
    DataMC(formats=["png"]).draw(varied, target, described)
    ComparisonPicture(formats=["png"]).draw(varied, target, described)
    assert [legend_of(figure)[0] for figure in drawn] == ["2018 data", "2018 data"]


def test_counts_have_error_bars_as_weighted_events_have(
    varied: Any, context: DrawContext, target: Path, drawn: list[Figure]
) -> None:
    Hist1D(formats=["png"]).draw(varied, target, context)
    Hist1D(formats=["png"], hist1d={"errors": False}).draw(varied, target, context)
    assert [len(figure.axes[0].containers) for figure in drawn] == [2, 0]


def test_a_range_begins_with_its_lower_end() -> None:
    for settings in ({"data_mc": {"ratio_ylim": [1.5, 0.5]}}, {"axes": {"y": {"limits": [2, 1]}}}):
        with pytest.raises(ValidationError, match="the lower end of a range comes first"):
            DataMC.model_validate(settings)


def test_efficiencies_of_data_and_simulation_are_drawn_in_one_picture(
    varied: Any, context: DrawContext, target: Path, drawn: list[Figure]
) -> None:
    found = {"all": varied[:, "nominal", :] * 2, "passed": varied[:, "nominal", :]}
    asked = {"comparison": "efficiency", "invert": True, "only_comparison": True, "each": "eventtype"}
    ComparisonPicture(formats=["png"], comparison=asked).draw_together(found, target, context)
    assert legend_of(drawn[0]) == ["Data", "Simulation"]
    points = [container.lines[0].get_ydata().tolist() for container in drawn[0].axes[0].containers]
    assert points == [[0.5], [0.5, 0.5]]
    shape = ProductShape("histogram", axes=("x",), per_dataset=True)
    with pytest.raises(CenoteError, match="each' compares two products"):
        ComparisonPicture(comparison={"each": "dataset"}).check(shape, context)


def test_a_map_shows_the_share_of_one_product_in_another(
    context: DrawContext, target: Path, drawn: list[Figure]
) -> None:
    axes = [hist.axis.Regular(2, 0, 2, name="x"), hist.axis.Regular(1, 0, 1, name="y")]
    every, passed = (hist.Hist(hist.axis.StrCategory(["data", "TTbar"], name="dataset"), *axes) for _ in range(2))
    every.fill("data", [0.5] * 4, 0.5)
    every.fill("TTbar", [0.5, 0.5, 1.5], 0.5)
    passed.fill("data", [0.5], 0.5)
    passed.fill("TTbar", [0.5], 0.5)
    share = Heatmap2D(formats=["png"], heatmap2d={"divide": ["passed", "all"]})
    share.draw_together({"all": every, "passed": passed}, target, context)
    maps = [panel.collections[0].get_array() for panel in drawn[0].axes[:2]]
    assert [np.ma.filled(values.ravel(), -1).tolist() for values in maps] == [[0.25, -1], [0.5, 0]], (
        "white, and nothing"
    )
    assert "passed / all" in texts(drawn[0])
