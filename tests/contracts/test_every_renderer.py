"""Check the contract of renderers on every renderer there is."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import hist
import pytest
from pydantic import ValidationError

from cenote.plugins.kinds import PluginKind
from cenote.plugins.registry import load, names
from cenote.plugins.settings import meanings
from cenote.products.cutflow import Cutflow, CutflowRow
from cenote.renderers.interface import DrawContext, Renderer

ALL = [name for name in names(PluginKind.RENDERER) if name.startswith("hep.render.")]


def a_cutflow() -> Cutflow:
    counts = {"n_unweighted_in": 2, "n_unweighted_out": 1, "sumw_in": 2.0, "sumw_out": 1.0}
    names = {"dataset": "data", "name": "All[0]", "selection": "All", "label": "x > 1", "expr": "x > 1"}
    rest: dict[str, Any] = {"index": 0, "kind": "expression", "parents": (), "weighted": False}
    return Cutflow((CutflowRow(**names, **rest, **counts, sumw2_in=2.0, sumw2_out=1.0),))  # type: ignore[arg-type]


def a_histogram(kind: str) -> Any:
    axes = [hist.axis.Regular(3, 0, 3, name="x"), hist.axis.Regular(2, 0, 2, name="y")]
    made = hist.Hist(hist.axis.StrCategory(["data", "mc"], name="dataset"), *axes[: 2 if "2d" in kind else 1])
    for dataset in ("data", "mc"):
        made.fill(dataset, *([0.5, 1.5] for _ in made.axes[1:]))
    return made


def product_for(name: str, renderer: Renderer) -> Any:
    return a_cutflow() if "cutflow" in renderer.draws else a_histogram(name)


def undocumented(model: Any) -> list[str]:
    found = [f"{model.__name__}.{name}" for name in model.model_fields.keys() - meanings(model).keys()]
    for field in model.model_fields.values():
        if hasattr(field.annotation, "model_fields"):
            found += undocumented(field.annotation)
    return found


@pytest.fixture(params=ALL)
def renderer(request: pytest.FixtureRequest) -> Renderer:
    made: Renderer = load(PluginKind.RENDERER, request.param)()
    return made


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["renderer"])


def test_the_renderers_of_this_version_are_there() -> None:
    expected = {"hep.render.hist1d", "hep.render.data_mc", "hep.render.heatmap2d", "hep.render.cutflow_csv"}
    assert expected <= set(ALL)


def test_it_says_what_it_draws(renderer: Renderer) -> None:
    assert set(renderer.draws) <= {"histogram", "cutflow"}
    assert renderer.draws


def test_its_files_begin_with_the_target_and_are_all_that_it_leaves(
    renderer: Renderer, name: str, tmp_path: Path
) -> None:
    files = renderer.draw(product_for(name, renderer), tmp_path / "sub" / "picture", DrawContext("Stage"))
    assert files
    assert all(str(path).startswith(str(tmp_path / "sub" / "picture")) for path in files)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(files)


def test_it_draws_the_same_twice(renderer: Renderer, name: str, tmp_path: Path) -> None:
    first, second = (
        renderer.draw(product_for(name, renderer), tmp_path / number / "picture", DrawContext("Stage"))
        for number in "12"
    )
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_it_draws_into_a_place_that_already_has_the_files(renderer: Renderer, name: str, tmp_path: Path) -> None:
    for _ in range(2):
        files = renderer.draw(product_for(name, renderer), tmp_path / "picture", DrawContext("Stage"))
    assert all(path.exists() for path in files)


def test_a_partial_product_looks_different(renderer: Renderer, name: str, tmp_path: Path) -> None:
    whole, partial = (
        renderer.draw(product_for(name, renderer), tmp_path / str(word) / "picture", DrawContext("Stage", partial=word))
        for word in (False, True)
    )
    assert all(a.read_bytes() != b.read_bytes() for a, b in zip(whole, partial, strict=True))


def test_unknown_settings_are_refused(renderer: Renderer) -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        type(renderer).model_validate({"colour": "red"})


def test_every_setting_is_documented(renderer: Renderer) -> None:
    assert type(renderer).__doc__
    assert undocumented(type(renderer)) == []


def test_it_travels(renderer: Renderer) -> None:
    assert pickle.loads(pickle.dumps(renderer)) == renderer


def test_loading_renderers_does_not_import_matplotlib() -> None:
    code = (
        "import sys\n"
        "from cenote.plugins.kinds import PluginKind\n"
        "from cenote.plugins.registry import load\n"
        f"for name in {ALL!r}: load(PluginKind.RENDERER, name)()\n"
        "sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
