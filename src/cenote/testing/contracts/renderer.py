"""Check renderers: they write the files they name and no others, the same each time, and mark what is partial."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import hist

from cenote.analysis.operations.interface import ProductShape
from cenote.analysis.products.cutflow import Cutflow, CutflowRow
from cenote.analysis.renderers.interface import DrawContext, Renderer
from cenote.common.errors import CenoteError
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.testing.contracts.plugin import PluginContract

STAGE = DrawContext("Stage")
_LANGUAGE = {"op", "out", "from"}
"""Keys of a `render` entry that are not the renderer's."""


class RendererContract(PluginContract):
    """`plugin` is the renderer; `product` is what it draws."""

    plugin: ClassVar[type[Renderer]]

    def product(self, made: Renderer) -> Any:
        """Something to draw: a cutflow, or a histogram of one axis, or of two where one does not do."""
        return _a_cutflow() if "cutflow" in made.draws else _a_histogram(made)

    def settings_in(self, example: Any) -> Mapping[str, Any]:
        """The settings of the only `render` entry."""
        return {key: value for key, value in example["render"].items() if key not in _LANGUAGE}

    def test_it_draws_kinds_of_products_that_there_are(self, made: Renderer) -> None:
        assert made.draws
        assert set(made.draws) <= set(registry.names(PluginKind.PRODUCT))

    def test_its_files_begin_with_the_target_and_are_all_that_it_leaves(self, made: Renderer, tmp_path: Path) -> None:
        target = tmp_path / "sub" / "picture"
        files = made.draw(self.product(made), target, STAGE)
        assert files
        assert all(str(path).startswith(str(target)) for path in files)
        assert not made.endings or {path.suffix.removeprefix(".") for path in files} <= set(made.endings)
        assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(files)

    def test_it_draws_the_same_twice_also_where_the_files_are_already(self, made: Renderer, tmp_path: Path) -> None:
        first = [path.read_bytes() for path in made.draw(self.product(made), tmp_path / "picture", STAGE)]
        again = made.draw(self.product(made), tmp_path / "picture", STAGE)
        assert [path.read_bytes() for path in again] == first

    def test_a_partial_product_looks_different(self, made: Renderer, tmp_path: Path) -> None:
        whole, partial = (
            made.draw(self.product(made), tmp_path / str(word) / "picture", DrawContext("Stage", partial=word))
            for word in (False, True)
        )
        assert all(a.read_bytes() != b.read_bytes() for a, b in zip(whole, partial, strict=True))


def _a_cutflow() -> Cutflow:
    row = CutflowRow(
        dataset="data",
        name="All[0]",
        selection="All",
        index=0,
        label="x > 1",
        expr="x > 1",
        kind="expression",
        parents=(),
        weighted=False,
        n_unweighted_in=2,
        n_unweighted_out=1,
        sumw_in=2.0,
        sumw_out=1.0,
        sumw2_in=2.0,
        sumw2_out=1.0,
    )
    return Cutflow((row,))


def _a_histogram(made: Renderer) -> hist.Hist[Any]:
    """With two datasets, and as many axes as it takes."""
    try:
        made.check(ProductShape("histogram", axes=("x",), per_dataset=True), STAGE)
        names = "x"
    except CenoteError:
        names = "xy"
    axes = [hist.axis.Regular(3, 0, 3, name=name) for name in names]
    filled: hist.Hist[Any] = hist.Hist(hist.axis.StrCategory(["data", "mc"], name="dataset"), *axes)
    for dataset in ("data", "mc"):
        filled.fill(dataset, *([0.5, 1.5] for _ in axes))
    return filled
