"""Project histograms of several variables before they are drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest
from pydantic import ValidationError

from cenote.analysis.operations.interface import ProductShape
from cenote.analysis.operations.support.events import DatasetInfo
from cenote.analysis.renderers.hep.render.hist1d import Hist1D
from cenote.analysis.renderers.hep.render.project import ProjectPicture
from cenote.analysis.renderers.interface import DrawContext
from cenote.common.errors import CenoteError

CONTEXT = DrawContext("Map", {"data": DatasetInfo("data", "data"), "mc": DatasetInfo("mc", "mc")})
SMALL = {"formats": ["png"], "figure": {"dpi": 30}}


def a_map() -> Any:
    made = hist.Hist(
        hist.axis.StrCategory(["data", "mc"], name="dataset"),
        hist.axis.Regular(4, 0, 4, name="pt"),
        hist.axis.Regular(4, -2, 2, name="eta"),
    )
    made.fill("data", [0.5, 0.5, 1.5, 2.5], [-1.5, 0.5, 0.5, 9.0])
    return made.fill("mc", [3.5], [0.5])


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The histograms that `hist1d` is given while the test runs."""
    given: list[Any] = []

    def keep(self: Hist1D, product: Any, *_: Any) -> list[Path]:
        given.append((self, product))
        return []

    monkeypatch.setattr(Hist1D, "draw", keep)
    return given


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({}, [2, 1, 1, 0]),
        ({"ranges": {"eta": [-2, 0]}}, [1, 0, 0, 0]),
        ({"ranges": {"eta": [0, None]}}, [1, 1, 1, 0]),
        ({"ranges": {"eta": [0, 2], "pt": [1, 2]}}, [1]),
    ],
)
def test_axes_are_summed_over_within_their_ranges(
    block: dict[str, Any], expected: list[float], target: Path, drawn: list[Any]
) -> None:
    ProjectPicture.model_validate({"project": {"axis": "pt", **block}}).draw(a_map(), target, CONTEXT)
    (_, product) = drawn[0]
    assert [axis.name for axis in product.axes] == ["dataset", "pt"]
    assert product[{"dataset": "data"}].values().tolist() == expected


def test_datasets_can_be_added_up_and_settings_are_handed_on(target: Path, drawn: list[Any]) -> None:
    then = {"axes": {"y": {"scale": "log"}}, "figure": {"dpi": 50}}
    settings = {"axes": {"x": {"label": "p"}}, "project": {"axis": "pt", "keep_dataset": False, "then": then}}
    ProjectPicture.model_validate({**SMALL, **settings}).draw(a_map(), target, CONTEXT)
    renderer, product = drawn[0]
    assert product.values().tolist() == [2, 1, 1, 1]
    assert (renderer.axes.x.label, renderer.axes.y.scale, renderer.figure.dpi) == ("p", "log", 50)
    assert renderer.formats == ("png",)


def test_two_axes_are_drawn_as_a_map(target: Path) -> None:
    (file,) = ProjectPicture.model_validate({**SMALL, "project": {"axis": ["eta", "pt"]}}).draw(
        a_map(), target, CONTEXT
    )
    assert file.stat().st_size > 1000


def test_a_bin_cannot_be_cut_in_two(target: Path) -> None:
    with pytest.raises(CenoteError, match=r"0\.4 is not an edge of a bin of the axis 'eta'") as caught:
        ProjectPicture.model_validate({"project": {"axis": "pt", "ranges": {"eta": [0.4, 2]}}}).draw(
            a_map(), target, CONTEXT
        )
    assert caught.value.problems[0].hint == "the nearest edges are 0 and 1"


@pytest.mark.parametrize(
    ("then", "place", "words"),
    [
        ({"op": "hep.render.hist1"}, ("project", "then"), "did you mean 'hep.render.hist1d'?"),
        ({"axes": {"x": {"lable": "m"}}}, ("project", "then", "axes", "x", "lable"), "did you mean 'label'?"),
        ({"hist1d": {"errors": 3}}, ("project", "then", "hist1d", "errors"), "valid boolean"),
    ],
)
def test_settings_of_the_renderer_that_draws_are_checked_at_their_place(
    then: dict[str, Any], place: tuple[str, ...], words: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        ProjectPicture.model_validate({"project": {"axis": "pt", "then": then}})
    (error,) = caught.value.errors()
    assert error["loc"] == place
    assert words in error["msg"]


def test_axes_that_are_not_there_are_named_before_the_run() -> None:
    shape = ProductShape("histogram", axes=("pt", "eta"), per_dataset=True)
    for block in ({"axis": "ptt"}, {"axis": "eta", "ranges": {"ptt": [0, 1]}}):
        with pytest.raises(CenoteError, match="has no axis 'ptt' to draw") as caught:
            ProjectPicture.model_validate({"project": block}).check(shape, CONTEXT)
        assert caught.value.problems[0].hint == "did you mean 'pt'?"
    assert np.array_equal(ProjectPicture.model_validate({"project": {"axis": "pt"}}).stems("a", ["pt", "eta"]), ["a"])
